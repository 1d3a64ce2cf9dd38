package compile_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/catalogue"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/primitives"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// runsOf is what a slice with runs of equal elements has: lengths from 1 to most.
func runsOf[T any](r *rand.Rand, n, most int, value func() T) []T {
	x := make([]T, n)
	for i := 0; i < n; {
		v := value()
		for range min(1+r.IntN(most), n-i) {
			x[i] = v
			i++
		}
	}
	return x
}

func uniqued[T comparable](p *primitivesIn, name string, in []T, behind int) {
	out, count := onDevice(p, make([]T, len(in)), 0), onDevice(p, []uint64{77}, 0)
	require.NoError(p.t, kernels.Unique[T]{}.Of(p.of(name)).Launch(p.s, out, onDevice(p, in, behind), count, nil))
	want := slices.Compact(slices.Clone(in))
	require.EqualValues(p.t, len(want), onHost(p, count)[0], "%s, %d", name, len(in))
	same(p.t, want, onHost(p, out)[:len(want)], name, len(in))
}

func parted[T comparable, C kernels.Condition[T]](p *primitivesIn, name string, c C, in []T, behind int) {
	kept, rest, count := onDevice(p, make([]T, len(in)), 0), onDevice(p, make([]T, len(in)), 0), onDevice(p, []uint64{77}, 0)
	require.NoError(p.t, kernels.Partition[T, C]{}.Of(p.of(name)).Launch(p.s, c, kept, rest, onDevice(p, in, behind), count, nil))
	wantKept, wantRest := make([]T, len(in)), make([]T, len(in))
	n, err := kernels.PartitionCPU(c, wantKept, wantRest, in)
	require.NoError(p.t, err)
	require.EqualValues(p.t, n, onHost(p, count)[0], "%s, %d", name, len(in))
	same(p.t, wantKept, onHost(p, kept), name, len(in))
	same(p.t, wantRest, onHost(p, rest), name, len(in))
}

func counted[K comparable](p *primitivesIn, name string, in []K, behind int) {
	n := len(in)
	out, lengths, count := onDevice(p, make([]K, n), 0), onDevice(p, make([]uint32, n), 0), onDevice(p, []uint64{77}, 0)
	require.NoError(p.t, kernels.RunLengths[K]{}.Of(p.of(name)).Launch(p.s, out, lengths, onDevice(p, in, behind), count, nil))
	wantOut, wantLengths := make([]K, n), make([]uint32, n)
	runs, err := kernels.RunLengthsCPU(wantOut, wantLengths, in)
	require.NoError(p.t, err)
	require.EqualValues(p.t, runs, onHost(p, count)[0], "%s, %d", name, n)
	same(p.t, wantOut, onHost(p, out), name, n)
	same(p.t, wantLengths, onHost(p, lengths), name, n)
}

func combined[K, V comparable, O block.Op[V]](p *primitivesIn, name string, op O, keys []K, values []V, behind int) {
	n := len(keys)
	out, sums, count := onDevice(p, make([]K, n), 0), onDevice(p, make([]V, n), 0), onDevice(p, []uint64{77}, 0)
	require.NoError(p.t, kernels.ReduceByKey[K, V, O]{}.Of(p.of(name)).Launch(p.s, op, out, sums, onDevice(p, keys, behind), onDevice(p, values, 0), count, nil))
	wantOut, wantSums := make([]K, n), make([]V, n)
	runs, err := kernels.ReduceByKeyCPU(op, wantOut, wantSums, keys, values)
	require.NoError(p.t, err)
	require.EqualValues(p.t, runs, onHost(p, count)[0], "%s, %d", name, n)
	same(p.t, wantOut, onHost(p, out), name, n)
	same(p.t, wantSums, onHost(p, sums), name, n)
}

func topped[K kernels.Key](p *primitivesIn, name string, in []K, k, behind int) {
	for _, smallest := range []bool{false, true} {
		out, places := onDevice(p, make([]K, k), 0), onDevice(p, make([]uint32, k), 0)
		top, x := kernels.TopK[K]{}.Of(p.of(name)), onDevice(p, in, behind)
		take := top.Largest
		if smallest {
			take = top.Smallest
		}
		require.NoError(p.t, take(p.s, out, places, x, nil))
		wantOut, wantPlaces := make([]K, k), make([]uint32, k)
		require.NoError(p.t, kernels.TopKCPU(wantOut, wantPlaces, in, smallest))
		same(p.t, wantPlaces, onHost(p, places), name, len(in), k)
		same(p.t, wantOut, onHost(p, out), name, len(in), k)
		require.NoError(p.t, take(p.s, out, nil, x, nil))
		same(p.t, wantOut, onHost(p, out), name, len(in), k)
	}
}

func binned[T kernels.Sample](p *primitivesIn, name string, in []T, bins int, low, high T) {
	counts := onDevice(p, make([]uint64, bins), 0)
	require.NoError(p.t, kernels.Histogram[T]{}.Of(p.of(name)).Launch(p.s, counts, onDevice(p, in, 1), low, high))
	want := make([]uint64, bins)
	require.NoError(p.t, kernels.HistogramCPU(want, in, low, high))
	same(p.t, want, onHost(p, counts), name, len(in), bins, low, high)
}

// offsetsOf are those of segments of 0 to most elements.
func offsetsOf(r *rand.Rand, n, most int) (offsets []uint64, longest int) {
	offsets = []uint64{0}
	for at := 0; at < n; {
		long := min(r.IntN(most+1), n-at)
		at, longest = at+long, max(longest, long)
		offsets = append(offsets, uint64(at))
	}
	return offsets, longest
}

func segmentsReduced[T comparable, O block.Op[T]](p *primitivesIn, name string, op O, in []T, offsets []uint64) {
	out := onDevice(p, make([]T, len(offsets)-1), 0)
	require.NoError(p.t, kernels.SegmentedReduce[T, O]{}.Of(p.of(name)).Launch(p.s, op, out, onDevice(p, in, 0), onDevice(p, offsets, 0), nil))
	want := make([]T, len(offsets)-1)
	require.NoError(p.t, kernels.SegmentedReduceCPU(op, want, in, offsets))
	same(p.t, want, onHost(p, out), name, len(in), len(offsets))
}

func stablySorted[T comparable, L block.Less[T]](p *primitivesIn, name string, less L, in []T, inPlace bool) {
	x := onDevice(p, in, 1)
	out := x
	if !inPlace {
		out = onDevice(p, make([]T, len(in)), 0)
	}
	require.NoError(p.t, kernels.StableSort[T, L]{}.Of(p.of(name)).Launch(p.s, less, out, x, nil))
	same(p.t, sortedBy(less, in), onHost(p, out), name, len(in))
}

func sortedBy[T any, L block.Less[T]](less L, in []T) []T {
	want := slices.Clone(in)
	slices.SortStableFunc(want, func(a, b T) int {
		switch {
		case less.Less(a, b):
			return -1
		case less.Less(b, a):
			return 1
		}
		return 0
	})
	return want
}

func segmentsSorted[T comparable, L block.Less[T]](p *primitivesIn, name string, less L, in []T, offsets []uint64, longest int) {
	x, out := onDevice(p, in, 0), onDevice(p, make([]T, len(in)), 1)
	require.NoError(p.t, kernels.SegmentedSort[T, L]{}.Of(p.of(name)).Launch(p.s, less, out, x, onDevice(p, offsets, 0), longest, nil))
	var want []T
	all := slices.Concat([]uint64{0}, offsets, []uint64{uint64(len(in))})
	for i := range all[1:] {
		want = append(want, sortedBy(less, in[all[i]:max(all[i], all[i+1])])...)
	}
	same(p.t, want, onHost(p, out), name, len(in), len(offsets), longest)
	onCPU := make([]T, len(in))
	require.NoError(p.t, kernels.SegmentedSortCPU(less, onCPU, in, offsets))
	same(p.t, want, onCPU, name, len(in), len(offsets))
	copy(onCPU, in)
	require.NoError(p.t, kernels.SegmentedSortCPU(less, onCPU, onCPU, offsets))
	same(p.t, want, onCPU, name, "in place")
}

func found[T any, L block.Less[T]](p *primitivesIn, name string, less L, sorted, what []T) {
	out := onDevice(p, make([]uint64, len(what)), 0)
	k, x, w := kernels.Search[T, L]{}.Of(p.of(name)), onDevice(p, sorted, 0), onDevice(p, what, 0)
	compare := func(above int) func(a, b T) int {
		return func(a, b T) int {
			switch {
			case less.Less(a, b):
				return -1
			case less.Less(b, a):
				return 1
			}
			return above
		}
	}
	for above, search := range []func(*runtime.Stream, L, *runtime.Ref[uint64], *runtime.Ref[T], *runtime.Ref[T]) error{k.Lower, k.Upper} {
		require.NoError(p.t, search(p.s, less, out, x, w))
		want := make([]uint64, len(what))
		for i, v := range what {
			at, _ := slices.BinarySearchFunc(sorted, v, compare(-above))
			want[i] = uint64(at)
		}
		same(p.t, want, onHost(p, out), name, len(sorted), above)
	}
}

// catalogueCase runs one primitive with what a seed says, at a size.
var catalogueCases = []struct {
	name string
	tile int
	run  func(p *primitivesIn, r *rand.Rand, n int)
}{
	{"unique", 8192, func(p *primitivesIn, r *rand.Rand, n int) {
		values := []float32{0, float32(math.Copysign(0, -1)), 1, float32(math.NaN()), 2}
		x := runsOf(r, n, 1+r.IntN(n+1), func() float32 { return values[r.IntN(5)] })
		x = slices.DeleteFunc(x, func(v float32) bool { return v != v }) // same compares with ==
		uniqued(p, "UniqueFloat32", x, r.IntN(2))
		uniqued(p, "UniquePair", runsOf(r, n, 5, func() catalogue.Pair { return catalogue.Pair{A: r.Uint32N(2), B: r.Uint32N(2)} }), 0)
	}},
	{"partition", 8192, func(p *primitivesIn, r *rand.Rand, n int) {
		parted(p, "PartitionUint32Below", catalogue.Below{Bound: r.Uint32()}, runsOf(r, n, 3, r.Uint32), r.IntN(2))
		parted(p, "PartitionBoxWide", catalogue.Wide{}, runsOf(r, n, 3, func() catalogue.Box {
			return catalogue.Box{Min: 1, Max: float32(r.IntN(3)), Sum: r.Uint64()}
		}), 0)
	}},
	{"runs", 4096, func(p *primitivesIn, r *rand.Rand, n int) {
		counted(p, "RunLengthsUint32", runsOf(r, n, 1+r.IntN(2*n+1), func() uint32 { return r.Uint32N(3) }), r.IntN(2))
		counted(p, "RunLengthsBox", runsOf(r, n, 4, func() catalogue.Box { return catalogue.Box{Sum: r.Uint64N(3)} }), 0)
	}},
	{"by key", 4096, func(p *primitivesIn, r *rand.Rand, n int) {
		combined(p, "ReduceByKeyUint32Uint32AddUint32", add32{}, runsOf(r, n, 1+r.IntN(2*n+1), func() uint32 { return r.Uint32N(3) }), runsOf(r, n, 1, r.Uint32), r.IntN(2))
		combined(p, "ReduceByKeyPairBoxUnion", catalogue.Union{}, runsOf(r, n, 9, func() catalogue.Pair { return catalogue.Pair{A: r.Uint32N(2)} }),
			runsOf(r, n, 1, func() catalogue.Box { return catalogue.Box{Min: r.Float32(), Max: r.Float32(), Sum: r.Uint64()} }), r.IntN(2))
	}},
	{"top", 8192, func(p *primitivesIn, r *rand.Rand, n int) {
		few := float32(1 + r.IntN(1000))
		topped(p, "TopKFloat32", runsOf(r, n, 2, func() float32 { return float32(math.Floor(r.NormFloat64() * float64(few))) }), r.IntN(n+1), r.IntN(2))
		topped(p, "TopKInt64", runsOf(r, n, 2, func() int64 { return int64(r.Uint64()) >> r.IntN(64) }), min(n, r.IntN(100)), r.IntN(2))
	}},
	{"histogram", 8192, func(p *primitivesIn, r *rand.Rand, n int) {
		low := int32(r.Uint32()) >> 1
		binned(p, "HistogramInt32", runsOf(r, n, 2, func() int32 { return low + int32(r.IntN(3000)) - 500 }), 1+r.IntN(20_000), low, low+1+int32(r.IntN(3000)))
		binned(p, "HistogramInt32", runsOf(r, n, 2, func() int32 { return int32(r.Uint32()) }), 1+r.IntN(300), math.MinInt32, math.MaxInt32)
		binned(p, "HistogramFloat32", append(runsOf(r, n, 2, func() float32 { return float32(r.NormFloat64()) }), float32(math.NaN())), 1+r.IntN(300), -1, 1.5)
		binned(p, "HistogramUint64", runsOf(r, n, 2, r.Uint64), 1+r.IntN(300), r.Uint64()>>1, math.MaxUint64-r.Uint64()>>2)
	}},
	{"segmented reduce", 256, func(p *primitivesIn, r *rand.Rand, n int) {
		in := runsOf(r, n, 2, func() catalogue.Box { return catalogue.Box{Min: r.Float32(), Max: r.Float32(), Sum: r.Uint64()} })
		offsets, _ := offsetsOf(r, n, 1+r.IntN(1+n))
		segmentsReduced(p, "SegmentedReduceBoxUnion", catalogue.Union{}, in, offsets)
		offsets, _ = offsetsOf(r, n, 4)
		segmentsReduced(p, "SegmentedReduceBoxUnion", catalogue.Union{}, in, offsets)
		segmentsReduced(p, "SegmentedReduceBoxUnion", catalogue.Union{}, in, []uint64{3, 3, uint64(n) + 5, math.MaxUint64})
	}},
	{"stable sort", 2816, func(p *primitivesIn, r *rand.Rand, n int) {
		stablySorted(p, "StableSortUint32Up", catalogue.Up{}, runsOf(r, n, 1, r.Uint32), r.IntN(2) == 0)
		stablySorted(p, "StableSortPairByA", catalogue.ByA{Descending: r.IntN(2) == 0}, runsOf(r, n, 1, func() catalogue.Pair { return catalogue.Pair{A: r.Uint32N(50), B: r.Uint32()} }), r.IntN(2) == 0)
	}},
	{"segmented sort", 1792, func(p *primitivesIn, r *rand.Rand, n int) {
		in := runsOf(r, n, 1, func() catalogue.Pair { return catalogue.Pair{A: r.Uint32N(50), B: r.Uint32()} })
		for _, most := range []int{5, 1 + r.IntN(3000), 1 + r.IntN(1+n)} {
			offsets, longest := offsetsOf(r, n, most)
			segmentsSorted(p, "SegmentedSortPairByA", catalogue.ByA{}, in, offsets, longest)
		}
		segmentsSorted(p, "SegmentedSortPairByA", catalogue.ByA{}, in, []uint64{uint64(n / 3), uint64(n / 2)}, n)
	}},
	{"search", 256, func(p *primitivesIn, r *rand.Rand, n int) {
		sorted := sortedBy(catalogue.ByA{}, runsOf(r, n, 3, func() catalogue.Pair { return catalogue.Pair{A: r.Uint32N(100)} }))
		found(p, "SearchPairByA", catalogue.ByA{}, sorted, runsOf(r, r.IntN(600), 1, func() catalogue.Pair { return catalogue.Pair{A: r.Uint32N(102)} }))
	}},
}

func TestCatalogueOfTheLibrary(t *testing.T) {
	all := openLibrary(t, "catalogue")
	for _, c := range catalogueCases {
		t.Run(c.name, func(t *testing.T) {
			p := *all
			p.t = t
			for i, n := range []int{0, 1, 31, c.tile, 2*c.tile + 77} {
				c.run(&p, rand.New(rand.NewPCG(uint64(i), 7)), n)
			}
		})
	}
	t.Run("what is wrong", func(t *testing.T) {
		p := *all
		p.t = t
		catalogueSaysWhatIsWrong(t, &p)
	})
}

// A NaN is equal to nothing, itself included: it is a run of its own, on a device as on the CPU.
func TestRunsOfNaNs(t *testing.T) {
	p := openLibrary(t, "catalogue")
	r := rand.New(rand.NewPCG(1, 1))
	in := elements(9001, func() float32 { return [3]float32{float32(math.NaN()), 1, 2}[r.IntN(3)] })
	boxes := make([]catalogue.Box, len(in))
	for i, v := range in {
		boxes[i].Max = v
	}
	wantLengths := make([]uint32, len(in))
	want, err := kernels.RunLengthsCPU(make([]catalogue.Box, len(in)), wantLengths, boxes)
	require.NoError(t, err)
	count, lengths := onDevice(p, []uint64{0}, 0), onDevice(p, make([]uint32, len(in)), 0)
	require.NoError(t, kernels.RunLengths[catalogue.Box]{}.Of(p.of("RunLengthsBox")).Launch(p.s, onDevice(p, make([]catalogue.Box, len(in)), 0), lengths, onDevice(p, boxes, 0), count, nil))
	require.Equal(t, uint64(want), onHost(p, count)[0])
	same(t, wantLengths[:want], onHost(p, lengths)[:want], "lengths")
	require.NoError(t, kernels.Unique[float32]{}.Of(p.of("UniqueFloat32")).Launch(p.s, onDevice(p, make([]float32, len(in)), 0), onDevice(p, in, 0), count, nil))
	require.Equal(t, uint64(len(slices.Compact(in))), onHost(p, count)[0])
}

// TestCatalogueCampaign runs primitives by seeds, with sizes of up to 40,000 elements.
func TestCatalogueCampaign(t *testing.T) {
	all := openLibrary(t, "catalogue")
	seeds.Each(t, seeds.Count(30, 60, 10), func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 9))
		c := catalogueCases[r.IntN(len(catalogueCases))]
		p := *all
		p.t = t
		c.run(&p, r, int(math.Exp(r.Float64()*math.Log(40_000))))
	})
}

func catalogueSaysWhatIsWrong(t *testing.T, p *primitivesIn) {
	ten, nine, count := onDevice(p, make([]uint32, 10), 0), onDevice(p, make([]uint32, 9), 0), onDevice(p, []uint64{1}, 0)
	ten2, ten3 := onDevice(p, make([]uint32, 10), 0), onDevice(p, make([]uint32, 10), 0)
	floats, err := runtime.Cast[float32](ten)
	require.NoError(t, err)
	part := kernels.Partition[uint32, catalogue.Below]{}.Of(p.of("PartitionUint32Below"))
	runs := kernels.RunLengths[uint32]{}.Of(p.of("RunLengthsUint32"))
	keys := kernels.ReduceByKey[uint32, uint32, add32]{}.Of(p.of("ReduceByKeyUint32Uint32AddUint32"))
	top := kernels.TopK[float32]{}.Of(p.of("TopKFloat32"))
	hist := kernels.Histogram[float32]{}.Of(p.of("HistogramFloat32"))
	sort := kernels.StableSort[uint32, catalogue.Up]{}.Of(p.of("StableSortUint32Up"))
	segmented := kernels.SegmentedSort[catalogue.Pair, catalogue.ByA]{}.Of(p.of("SegmentedSortPairByA"))
	reduce := kernels.SegmentedReduce[catalogue.Box, catalogue.Union]{}.Of(p.of("SegmentedReduceBoxUnion"))
	search := kernels.Search[catalogue.Pair, catalogue.ByA]{}.Of(p.of("SearchPairByA"))
	pairs, boxes := onDevice(p, make([]catalogue.Pair, 5), 0), onDevice(p, make([]catalogue.Box, 5), 0)
	bytes, offsets := onDevice(p, make([]byte, 8192), 0), onDevice(p, make([]uint64, 3), 0)
	nan := float32(math.NaN())
	for want, err := range map[string]error{
		"rest has room for 9 elements, and all 10 could go there":                      part.Launch(p.s, catalogue.Below{}, ten2, nine, ten, count, nil),
		"partition: the slices kept and rest overlap":                                  part.Launch(p.s, catalogue.Below{}, ten2, ten2, ten, count, nil),
		"partition: the scratch memory begins at no multiple of 16":                    part.Launch(p.s, catalogue.Below{}, ten2, ten3, ten, count, bytes.Slice(8, 8192)),
		"run lengths: out has room for 9 and lengths for 10, and there can be 10 runs": runs.Launch(p.s, nine, ten2, ten, count, nil),
		"10 keys and 9 values":                      keys.Launch(p.s, add32{}, ten2, ten3, ten, nine, count, nil),
		"the slices outValues and values overlap":   keys.Launch(p.s, add32{}, ten2, ten3, ten, ten3, count, nil),
		"top k: 10 of 9 keys":                       top.Largest(p.s, floats, nil, floats.Slice(0, 9), nil),
		"top k: 2 keys and 9 places":                top.Smallest(p.s, floats.Slice(0, 2), nine, floats, nil),
		"histogram: 0 counters":                     hist.Launch(p.s, count.Slice(0, 0), floats, 0, 1),
		"the range from 1 to 1":                     hist.Launch(p.s, count, floats, 1, 1),
		"the range from NaN to 1":                   hist.Launch(p.s, count, floats, nan, 1),
		"the range from 0 to +Inf":                  hist.Launch(p.s, count, floats, 0, float32(math.Inf(1))),
		"stable sort: lengths 9 and 10 differ":      sort.Launch(p.s, catalogue.Up{}, nine, ten, nil),
		"segmented sort: longest is -1":             segmented.Launch(p.s, catalogue.ByA{}, pairs, pairs, offsets, -1, nil),
		"5 results need 6 offsets, and there are 3": reduce.Launch(p.s, catalogue.Union{}, boxes, boxes, offsets, nil),
		"search: lengths 3 and 5 differ":            search.Lower(p.s, catalogue.ByA{}, offsets, pairs, pairs),
		"stable sort: the kernels are nil":          kernels.StableSort[uint32, catalogue.Up]{}.Launch(p.s, catalogue.Up{}, ten, ten, nil),
		"unique: the kernels are nil":               kernels.Unique[uint32]{}.Launch(p.s, ten, ten, count, nil),
		"never allocated":                           sort.Launch(p.s, catalogue.Up{}, nil, nil, nil),
	} {
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, want)
		assert.ErrorContains(t, err, want)
	}
	require.NoError(t, p.s.Synchronize(t.Context()))
}

// TestCatalogueByItsOwnReference compares what the CPU's forms give with the plain words of their documents.
func TestCatalogueByItsOwnReference(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		n := r.IntN(300)
		in := runsOf(r, n, 3, func() float64 { return float64(r.IntN(20) - 10) })
		k := r.IntN(n + 1)
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return -cmp.Compare(in[a], in[b]) })
		want := slices.Sorted(slices.Values(order[:k]))
		out, places := make([]float64, k), make([]uint32, k)
		require.NoError(t, kernels.TopKCPU(out, places, in, false))
		for i, p := range want {
			require.EqualValues(t, p, places[i])
			require.Equal(t, in[p], out[i])
		}
		counts := make([]uint64, 1+r.IntN(9))
		require.NoError(t, kernels.HistogramCPU(counts, in, -8, 7))
		wantCounts := make([]uint64, len(counts))
		for _, v := range in {
			if v >= -8 && v < 7 {
				wantCounts[int((v+8)*float64(len(counts))/15)]++
			}
		}
		require.Equal(t, wantCounts, counts, fmt.Sprint(len(counts)))
	}
}

// What has nothing to do uses its stream all the same: it is a part of a graph, and fails where the stream is closed.
func TestEmptyCalls(t *testing.T) {
	p, q := openLibrary(t, "primitives"), openLibrary(t, "catalogue")
	words := func(p *primitivesIn) *runtime.Ref[uint32] { return onDevice(p, []uint32{}, 0) }
	x, y, ints, floats := words(p), words(p), onDevice(p, []int32{}, 0), onDevice(p, []float32{}, 0)
	count := onDevice(p, make([]uint64, 1), 0)
	for name, c := range map[string]struct {
		p    *primitivesIn
		call func(s *runtime.Stream) error
	}{
		"scan": {p, func(s *runtime.Stream) error {
			return kernels.Scan[uint32, add32]{}.Of(p.of("ScanUint32AddUint32")).Inclusive(s, add32{}, x, y, nil)
		}},
		"select": {p, func(s *runtime.Stream) error {
			return kernels.Select[uint32, primitives.Below]{}.Of(p.of("SelectUint32Below")).Launch(s, primitives.Below{}, x, y, count, nil)
		}},
		"sort": {p, func(s *runtime.Stream) error {
			return kernels.Sort[int32]{}.Of(p.of("SortInt32")).Launch(s, ints, ints, nil)
		}},
		"sort of pairs": {p, func(s *runtime.Stream) error {
			return kernels.SortPairs[float32, uint32]{}.Of(p.of("SortPairsFloat32Uint32")).Launch(s, floats, floats, x, y, nil)
		}},
		"top k": {q, func(s *runtime.Stream) error {
			return kernels.TopK[float32]{}.Of(q.of("TopKFloat32")).Largest(s, onDevice(q, []float32{}, 0), nil, onDevice(q, []float32{}, 0), nil)
		}},
		"segmented reduce": {q, func(s *runtime.Stream) error {
			boxes := onDevice(q, []catalogue.Box{}, 0)
			return kernels.SegmentedReduce[catalogue.Box, catalogue.Union]{}.Of(q.of("SegmentedReduceBoxUnion")).Launch(s, catalogue.Union{}, boxes, boxes,
				onDevice(q, []uint64{0}, 0), nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := c.p.s.Context()
			g, err := ctx.BuildGraph(func(b *runtime.GraphBuilder) error {
				_, err := b.Add(c.call)
				return err
			})
			require.NoError(t, err)
			require.NoError(t, g.Close())
			s, err := ctx.NewStream()
			require.NoError(t, err)
			require.NoError(t, s.Close())
			require.ErrorContains(t, c.call(s), "closed")
			require.Error(t, c.call(nil))
		})
	}
}
