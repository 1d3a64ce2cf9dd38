package compile_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	lang "github.com/purecuda/purecuda/gpuc/internal/testdata/language"
)

// arranged compares Load, Store and Exchange with copies.
func arranged[T uint8 | float64 | lang.Triple](t *testing.T, d *device.Device, r *rand.Rand, name string, n int, value func() T) {
	const tile = 7 * 64
	blocks := n/tile + 1
	in, places := many(n, value), make([]uint32, 0, blocks*tile)
	for range blocks {
		for _, p := range r.Perm(tile) {
			places = append(places, uint32(p))
		}
	}
	out, exchanged := make([]T, n), make([]T, blocks*tile)
	d.Same(t, name, gpu.Shape1D(blocks*64, 64), func(t *gpu.Thread, a []any) {
		lang.Arrange(t, as[[]T](a, 0), as[[]T](a, 1), as[[]T](a, 2), as[[]uint32](a, 3))
	}, out, exchanged, in, places)
	require.Equal(t, in, out)
	want := make([]T, len(exchanged))
	for i := range want {
		if i < n { // else it stays 0
			want[i/tile*tile+int(places[i])] = in[i]
		}
	}
	require.Equal(t, want, exchanged)
}

// runs compares RunLengths with a loop.
func runs[T int16 | lang.Triple](t *testing.T, d *device.Device, name string, in []T) {
	const room = 500
	n, blocks := len(in), (len(in)+room-1)/room
	values, lengths, counts := make([]T, n), make([]uint32, n), make([]uint32, blocks)
	d.Same(t, name, gpu.Shape1D(blocks*64, 64), func(t *gpu.Thread, a []any) {
		lang.Runs(t, as[[]T](a, 0), as[[]uint32](a, 1), as[[]uint32](a, 2), as[[]T](a, 3))
	}, values, lengths, counts, in)
	for b := range blocks {
		part, at := in[b*room:min((b+1)*room, n)], b*room
		for i, v := range part {
			if i > 0 && part[i-1] == v {
				continue
			}
			long := 1
			for i+long < len(part) && part[i+long] == v {
				long++
			}
			require.Equal(t, v, values[at])
			require.EqualValues(t, long, lengths[at])
			at++
		}
		require.EqualValues(t, at-b*room, counts[b])
	}
}

// TestTogether runs what the threads of a block do together with their elements, on a device and on the CPU, beside plain loops.
func TestTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 2))
	wide := func() lang.Triple { return lang.Triple{A: r.Uint32N(40), B: r.Uint32(), C: r.Uint32()} }
	cases := []struct {
		name  string
		sizes []int
		run   func(t *testing.T, d *device.Device, n int)
	}{
		{"arrange", []int{1, 31, 447, 448, 1000}, func(t *testing.T, d *device.Device, n int) {
			arranged(t, d, r, "ArrangeUint8", n, func() uint8 { return uint8(r.Uint32()) })
			arranged(t, d, r, "ArrangeFloat64", n, r.Float64)
			arranged(t, d, r, "ArrangeTriple", n, wide)
		}},
		{"histogram", []int{0, 1, 5000}, func(t *testing.T, d *device.Device, n int) {
			data, counts, want := many(n, func() uint8 { return uint8(r.NormFloat64() * 20) }), make([]uint32, 256), make([]uint32, 256)
			d.Same(t, "Counts", gpu.Shape1D(3*96, 96), func(t *gpu.Thread, a []any) { lang.Counts(t, as[[]uint32](a, 0), as[[]uint8](a, 1)) }, counts, data)
			for _, v := range data {
				want[v] += 2
			}
			require.Equal(t, want, counts)
		}},
		{"runs", []int{1, 499, 500, 1234}, func(t *testing.T, d *device.Device, n int) {
			for _, most := range []int{1, 3, 400, 2000} {
				runs(t, d, "RunsInt16", runsOf(r, n, most, func() int16 { return int16(r.IntN(3)) }))
				runs(t, d, "RunsTriple", runsOf(r, n, most, func() lang.Triple { return lang.Triple{C: r.Uint32N(2)} }))
			}
		}},
		{"top", []int{1, 100, 319, 320, 3000}, func(t *testing.T, d *device.Device, n int) {
			for _, k := range []int{0, 1, 7, 64, 200} {
				descending := r.IntN(2) == 0
				in, out := many(n, wide), make([]lang.Triple, min(k, n))
				d.Same(t, "Best", gpu.Shape1D(64, 64), func(t *gpu.Thread, a []any) {
					lang.Best(t, as[[]lang.Triple](a, 0), as[[]lang.Triple](a, 1), as[bool](a, 2), as[int](a, 3))
				}, out, in, descending, k)
				slices.SortStableFunc(in, func(a, b lang.Triple) int {
					if descending {
						a, b = b, a
					}
					return cmp.Compare(a.A, b.A)
				})
				require.Equal(t, in[:len(out)], out, "%d of %d", k, n)
			}
		}},
	}
	inModes(t, langFolder, func(t *testing.T, d *device.Device) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				for _, n := range c.sizes {
					c.run(t, d, n)
				}
			})
		}
	})
}
