package curand_test

import (
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/curand"
	"github.com/purecuda/purecuda/libs/curand/internal/philox"
)

// TestLayout says where cuRAND takes its numbers from. Its log is what philox.State.place is corrected by, if the numbers differ:
// it has numbers of the device, and their places in the order that is known.
func TestLayout(t *testing.T) {
	counts := []int{1, 3, 4, 1000, 65537, 1 << 22}
	t.Run("simulated", func(t *testing.T) {
		b, _, _ := simulated(t)
		b.TB = t
		layout(b, counts[:5])
	})
	t.Run("hardware", func(t *testing.T) {
		b := real(t)
		b.TB = t
		layout(b, counts)
		hostGenerators(b, counts)
	})
}

func layout(b bench, counts []int) {
	g := b.generator(curand.Options{})
	for _, seed := range []uint64{0, 1234} {
		words := places(drawn(4*4*philox.Sequences, cpu(b, curand.Options{Seed: seed}).Uint32))
		for _, offset := range []uint64{0, 1, 4, 5} {
			what := fmt.Sprintf("seed %d, offset %d", seed, offset)
			c := cpu(b, curand.Options{Seed: seed, Offset: offset})
			for _, n := range counts {
				c.Reset(seed, offset)
				require.NoError(b, g.Reset(seed, offset))
				got := made(b, n, g.Uint32)
				same(b, fmt.Sprintf("%s, %d words", what, n), drawn(n, c.Uint32), got)
				if n == 1000 {
					b.Logf("%s, %d words on the device: %s", what, n, words.of(got))
					for row := range slices.Chunk(got[:64], 8) {
						b.Logf("    %08x", row)
					}
				}
			}
		}
		doubles := places(drawn(2*4*philox.Sequences, cpu(b, curand.Options{Seed: seed}).UniformDouble))
		for _, offset := range []uint64{0, 1, 4, 4 * philox.Sequences} {
			c := cpu(b, curand.Options{Seed: seed, Offset: offset})
			for _, n := range []int{3, 64, 1000, 4*philox.Sequences + 64} {
				what := fmt.Sprintf("seed %d, offset %d, %d of float64", seed, offset, n)
				c.Reset(seed, offset)
				require.NoError(b, g.Reset(seed, offset))
				got := made(b, n, g.UniformDouble)
				same(b, what, drawn(n, c.UniformDouble), got)
				b.Logf("%s on the device: %s", what, doubles.of(got))
			}
		}

		// Calls in a row: what the first leaves.
		for _, sizes := range [][]int{{3, 8}, {4, 8}, {5, 3, 8}} {
			c := cpu(b, curand.Options{Seed: seed})
			require.NoError(b, g.Reset(seed, 0))
			for i, n := range sizes {
				what := fmt.Sprintf("seed %d, words in calls of %d, call %d", seed, sizes, i)
				got := made(b, n, g.Uint32)
				same(b, what, drawn(n, c.Uint32), got)
				b.Logf("%s on the device: %s", what, words.of(got))
			}
		}
		c := cpu(b, curand.Options{Seed: seed})
		require.NoError(b, g.Reset(seed, 0))
		what := fmt.Sprintf("seed %d, words behind 8 of float64", seed)
		made(b, 8, g.UniformDouble)
		drawn(8, c.UniformDouble)
		got := made(b, 4*philox.Sequences, g.Uint32)
		same(b, what, drawn(len(got), c.Uint32), got)
		b.Logf("%s on the device: %s", what, words.of(got))
	}
}

// order tells the place of a number in the sequence of a seed, without an offset.
type order[T comparable] map[T]int

func places[T comparable](sequence []T) order[T] {
	o := make(order[T], len(sequence))
	for i, x := range slices.Backward(sequence) {
		o[x] = i
	}
	return o
}

// of describes numbers: their runs in the sequence.
func (o order[T]) of(got []T) string {
	var runs []string
	for i := 0; i < len(got) && len(runs) < 16; {
		first, known := o[got[i]]
		n := 1
		for known && i+n < len(got) {
			if next, ok := o[got[i+n]]; !ok || next != first+n {
				break
			}
			n++
		}
		place := "not of the first blocks"
		if known {
			place = fmt.Sprintf("sequence %d, round %d, number %d", first/4%philox.Sequences, first/4/philox.Sequences, first%4)
		}
		runs = append(runs, fmt.Sprintf("%d from %d on: %d of the order (%s)", n, i, first, place))
		i += n
	}
	return strings.Join(runs, "; ")
}

// hostGenerators compares cuRAND's own generators on the host.
func hostGenerators(b bench, counts []int) {
	host, err := curand.NewHost(b.api.(*curand.Library))
	require.NoError(b, err)
	for _, offset := range []uint64{0, 1, 4, 5} {
		for _, n := range counts {
			c := cpu(b, curand.Options{Seed: 1234, Offset: offset})
			what := fmt.Sprintf("curandCreateGeneratorHost, offset %d, %d", offset, n)
			same(b, what+" words", drawn(n, c.Uint32), ofHost[uint32](b, host, curand.Uint32, offset, n))
			c.Reset(1234, offset)
			same(b, what+" of float64", drawn(n, c.UniformDouble), ofHost[float64](b, host, curand.UniformDouble, offset, n))
		}
	}
}

func ofHost[T any](b bench, host curand.Host, d curand.Distribution, offset uint64, n int) []T {
	b.Helper()
	to := make([]T, n)
	require.NoError(b, b.s.Context().Do(func() error {
		g, status := host.Create(curand.Philox)
		if !assert.Equal(b, curand.StatusSuccess, status) {
			return nil
		}
		for _, status := range []curand.Status{
			host.SetOrdering(g, curand.Legacy), host.SetSeed(g, 1234), host.SetOffset(g, offset),
			host.Generate(g, &curand.Call{Distribution: d, N: uint64(n), To: driver.DevicePtr(uintptr(unsafe.Pointer(unsafe.SliceData(to))))}),
			host.Destroy(g),
		} {
			assert.Equal(b, curand.StatusSuccess, status)
		}
		return nil
	}))
	goruntime.KeepAlive(to)
	return to
}

func TestRuns(t *testing.T) {
	o := places([]string{"a", "b", "c", "d", "e"})
	assert.Equal(t, "2 from 0 on: 3 of the order (sequence 0, round 0, number 3); 1 from 2 on: 0 of the order (not of the first blocks); "+
		"1 from 3 on: 1 of the order (sequence 0, round 0, number 1)", o.of([]string{"d", "e", "x", "b"}))
}
