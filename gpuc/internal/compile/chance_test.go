package compile_test

import (
	"math"
	"math/rand/v2"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/primitives"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// sizeBy is a size up to most: nothing, one, around the ends of warps, blocks and tiles, or any.
func sizeBy(r *rand.Rand, tile, most int) int {
	switch r.IntN(8) {
	case 0:
		return r.IntN(3)
	case 1:
		return 32*(1+r.IntN(8)) - 1 + r.IntN(3)
	case 2:
		return 256*(1+r.IntN(4)) - 1 + r.IntN(3)
	case 3, 4:
		return min(tile*(1+r.IntN(4))-1+r.IntN(3), most)
	}
	return int(math.Exp(r.Float64() * math.Log(float64(most))))
}

// primitiveCases are those of package primitives, as catalogueCases are those of package catalogue.
var primitiveCases = []struct {
	name string
	tile int
	run  func(p *primitivesIn, r *rand.Rand, n int)
}{
	{"scan", 8192, func(p *primitivesIn, r *rand.Rand, n int) {
		scanned(p, "ScanUint32AddUint32", add32{}, elements(n, r.Uint32), r.IntN(4))
		scanned(p, "ScanFloat32AddFloat32", block.Add[float32]{}, elements(n, func() float32 { return float32(r.IntN(3) - 1) }), r.IntN(4))
	}},
	{"scan of words", 4096, func(p *primitivesIn, r *rand.Rand, n int) {
		scanned(p, "ScanInt64AddInt64", block.Add[int64]{}, elements(n, func() int64 { return int64(r.Uint64()) }), r.IntN(4))
		scanned(p, "ScanPairThen", primitives.Then{}, elements(n, affine(r)), r.IntN(4))
	}},
	{"scan of structs", 2048, func(p *primitivesIn, r *rand.Rand, n int) {
		scanned(p, "ScanBoxUnion", primitives.Union{}, elements(n, boxes(r)), r.IntN(4))
		scanned(p, "ScanLargeAddLarge", primitives.AddLarge{Factor: 1}, elements(min(n, 3000), large(r)), r.IntN(4))
	}},
	{"reduce", 4096, func(p *primitivesIn, r *rand.Rand, n int) {
		reduced(p, "ReduceFloat64AddFloat64", block.Add[float64]{}, elements(n, func() float64 { return float64(r.IntN(1000)) }), r.IntN(4))
		reduced(p, "ReduceBoxUnion", primitives.Union{}, elements(n, boxes(r)), r.IntN(4))
	}},
	{"select", 8192, func(p *primitivesIn, r *rand.Rand, n int) {
		selected(p, "SelectUint32Below", primitives.Below{Bound: r.Uint32()}, elements(n, r.Uint32), r.IntN(4))
		selected(p, "SelectBoxWide", primitives.Wide{}, elements(n, boxes(r)), r.IntN(4))
	}},
	{"sort", 8832, func(p *primitivesIn, r *rand.Rand, n int) {
		shift := r.IntN(32)
		sorted(p, "SortInt32", elements(n, func() int32 { return int32(r.Uint32()) >> shift }), r.IntN(4))
	}},
	{"sort of doubles", 4224, func(p *primitivesIn, r *rand.Rand, n int) {
		sorted(p, "SortFloat64", elements(min(n, 10_000), func() float64 { return r.NormFloat64() * math.Exp(float64(r.IntN(100))) }), r.IntN(4))
	}},
	{"sort of pairs", 8832, func(p *primitivesIn, r *rand.Rand, n int) {
		sortedPairs(p, "SortPairsFloat32Uint32", elements(n, func() float32 { return float32(r.IntN(100)) - 50.5 }), elements(n, r.Uint32))
	}},
	{"sort of structs", 2688, func(p *primitivesIn, r *rand.Rand, n int) {
		n = min(n, 8000)
		sortedPairs(p, "SortPairsUint64Box", elements(n, func() uint64 { return r.Uint64() & 0xff0000000000ff }), elements(n, boxes(r)))
	}},
}

// TestPrimitivesByChance runs primitives where blocks begin in any order and pause, and where writes come late and loads are old. A seed
// decides about the primitive, its size, its elements and the schedule.
func TestPrimitivesByChance(t *testing.T) {
	if device.Hardware() {
		t.Skip("a device has a schedule of its own")
	}
	for _, compile := range libraries { // a seed has two minutes, also on a machine with much else to do
		_, err := compile()
		require.NoError(t, err)
	}
	seeds.Each(t, seeds.Count(6, 20, 2), func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 33))
		c := r.IntN(len(primitiveCases) + len(catalogueCases))
		library, cases := "primitives", primitiveCases
		if c >= len(cases) {
			library, c, cases = "catalogue", c-len(cases), catalogueCases
		}
		p := openLibraryOn(t, library, drivertest.Config{Chaos: &drivertest.Chaos{Seed: seed, Kernels: true}})
		n := sizeBy(r, cases[c].tile, 40_000)
		t.Log(cases[c].name, n)
		cases[c].run(p, r, n)
	})
}

// TestTrafficOfPrimitives holds what primitives move: a change that moves more fails without a device. Words are those of the elements.
func TestTrafficOfPrimitives(t *testing.T) {
	if device.Hardware() {
		t.Skip("a device does not count")
	}
	// On one core a block runs after the one before it, so that none asks again and again for what is not there yet.
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	const n = 1 << 19
	p := openPrimitives(t)
	r := rand.New(rand.NewPCG(1, 33))
	in := elements(n, r.Uint32)
	x, out, count := onDevice(p, in, 0), onDevice(p, make([]uint32, n), 0), onDevice(p, []uint64{0}, 0)
	values, more := onDevice(p, in, 0), onDevice(p, in, 0)
	signed, err := runtime.Cast[int32](x)
	require.NoError(t, err)
	floats, err := runtime.Cast[float32](x)
	require.NoError(t, err)
	for _, c := range []struct {
		name           string
		moved, atomics float64 // words for each element, at most
		run            func() error
	}{
		{"scan", 2.05, 0.01, func() error {
			return kernels.Scan[uint32, add32]{}.Of(p.of("ScanUint32AddUint32")).Inclusive(p.s, add32{}, out, x, nil)
		}},
		{"select", 1.5 * 1.03, 0.03, func() error {
			return kernels.Select[uint32, primitives.Below]{}.Of(p.of("SelectUint32Below")).Launch(p.s, primitives.Below{Bound: 1 << 31}, out, x, count, nil)
		}},
		// Beside 9 words of keys, each pass clears 256 words for the next one and reads where 256 digits begin. It says 256 counts twice, and
		// looks at 8 tiles for each.
		{"sort", 9.3, 2, func() error {
			return kernels.Sort[int32]{}.Of(p.of("SortInt32")).Launch(p.s, signed, signed, nil)
		}},
		{"sort of pairs", 17.3, 2, func() error {
			return kernels.SortPairs[float32, uint32]{}.Of(p.of("SortPairsFloat32Uint32")).Launch(p.s, floats, floats, more, values, nil)
		}},
	} {
		before := p.d.Traffic()
		require.NoError(t, c.run())
		require.NoError(t, p.s.Synchronize(t.Context()))
		after := p.d.Traffic()
		moved, atomics := float64(after.Read+after.Written-before.Read-before.Written)/4/n, float64(after.Atomic-before.Atomic)/4/n
		t.Logf("%s: %.3f words an element, and %.3f by atomics", c.name, moved, atomics)
		assert.LessOrEqual(t, moved, c.moved, c.name)
		assert.LessOrEqual(t, atomics, c.atomics, c.name)
	}
}
