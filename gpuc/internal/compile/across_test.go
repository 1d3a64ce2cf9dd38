package compile_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/across"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// among are the kernels of package across on some devices, with a stream of each.
type among []*primitivesIn

// openAmong opens that many simulated devices. On hardware it opens all that there are.
func openAmong(t *testing.T, devices int) among {
	return openAmongWith(t, devices, drivertest.Config{})
}

func openAmongWith(t *testing.T, devices int, config drivertest.Config) among {
	config.Devices = drivertest.Devices(devices, drivertest.H100())
	rt, module, in := openModule(t, "across", config)
	var all among
	for _, d := range rt.Devices() {
		c, err := rt.Context(d.Ordinal)
		require.NoError(t, err)
		on := &primitivesIn{t, nil, nil, in.first, in.d}
		on.s, err = c.NewStream()
		require.NoError(t, err)
		on.k, err = module.Load(c)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, on.k.Close()) })
		all = append(all, on)
	}
	return all
}

type instance[P any] interface {
	Of(*launch.Kernels, int) P
}

// give gives each device its part, which has so many elements.
func give[P instance[P], T any](all among, name string, x []T, lengths []int) (parts []kernels.Part[P, T]) {
	for i, n := range lengths {
		var k P
		on := all[i]
		parts = append(parts, kernels.Part[P, T]{Kernels: k.Of(on.of(name)), Stream: on.s, Data: onDevice(on, x[:n], 0)})
		x = x[n:]
	}
	return parts
}

func together[P, T any](all among, parts []kernels.Part[P, T]) (x []T) {
	for i, p := range parts {
		x = append(x, onHost(all[i], p.Data)...)
	}
	return x
}

// division divides n by chance; some parts are empty.
func division(r *rand.Rand, n, parts int) []int {
	lengths := make([]int, parts)
	for i := range parts - 1 {
		switch r.IntN(4) {
		case 0:
		case 1:
			lengths[i] = r.IntN(n + 1)
		default:
			lengths[i] = min(n, n/(parts-i))
		}
		n -= lengths[i]
	}
	lengths[parts-1] = n
	return lengths
}

// rank is a number in whose order Sort brings keys.
func rank[K kernels.Key](k K) uint64 {
	switch k := any(k).(type) {
	case float32:
		b := math.Float32bits(k)
		return uint64(b ^ (uint32(int32(b)>>31) | 1<<31))
	case int64:
		return uint64(k) ^ 1<<63
	default:
		return uint64(any(k).(uint32))
	}
}

func ranks[K kernels.Key](x []K) (r []uint64) {
	for _, k := range x {
		r = append(r, rank(k))
	}
	return r
}

func sortedAmong[K kernels.Key](t *testing.T, all among, name string, x []K, lengths []int) {
	t.Helper()
	parts := give[kernels.Sort[K]](all, name, x, lengths)
	require.NoError(t, kernels.SortAll(t.Context(), parts...))
	want := ranks(x)
	slices.Sort(want)
	same(t, want, ranks(together(all, parts)), name, lengths)
}

// pairedAmong gives each key a value that tells where it was.
func pairedAmong[K kernels.Key, V comparable](t *testing.T, all among, name string, value func(i int) V, keys []K, lengths []int) {
	t.Helper()
	order, values := make([]int, len(keys)), make([]V, len(keys))
	for i := range order {
		order[i], values[i] = i, value(i)
	}
	parts, with := give[kernels.SortPairs[K, V]](all, name, keys, lengths), give[kernels.SortPairs[K, V]](all, name, values, lengths)
	var of []*runtime.Ref[V]
	for _, p := range with {
		of = append(of, p.Data)
	}
	require.NoError(t, kernels.SortPairsAll(t.Context(), of, parts...))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(keys[a]), rank(keys[b])) })
	wantKeys, wantValues := make([]uint64, len(keys)), make([]V, len(keys))
	for i, from := range order {
		wantKeys[i], wantValues[i] = rank(keys[from]), values[from]
	}
	same(t, wantKeys, ranks(together(all, parts)), name, lengths)
	same(t, wantValues, together(all, with), name, lengths)
}

func stableAmong[T comparable, L block.Less[T]](t *testing.T, all among, name string, less L, x []T, lengths []int) {
	t.Helper()
	parts := give[kernels.StableSort[T, L]](all, name, x, lengths)
	require.NoError(t, kernels.StableSortAll(t.Context(), less, parts...))
	want := slices.Clone(x)
	slices.SortStableFunc(want, func(a, b T) int {
		switch {
		case less.Less(a, b):
			return -1
		case less.Less(b, a):
			return 1
		}
		return 0
	})
	same(t, want, together(all, parts), name, lengths)
}

func placeOf(i int) across.Place { return across.Place{At: uint32(i), More: uint32(i * i)} }

// oddFloats has -0, NaNs of both signs and infinities among its numbers.
func oddFloats(r *rand.Rand) func() float32 {
	odd := []uint32{0, 1 << 31, 0x7fc00000, 0xffc00000, 0x7f800001, 0x7f800000, 0xff800000, 1, 1<<31 | 1}
	return func() float32 {
		if r.IntN(3) > 0 {
			return float32(r.NormFloat64())
		}
		return math.Float32frombits(odd[r.IntN(len(odd))])
	}
}

// The elements of all devices are in order, however they are divided, and equal ones are in that which they had.
func TestSortAll(t *testing.T) {
	if device.Hardware() {
		t.Skip("TestSortAllOnHardware does it there")
	}
	for _, devices := range []int{1, 2, 3, 4, 8} {
		t.Run(fmt.Sprint(devices), func(t *testing.T) {
			all := openAmong(t, devices)
			seeds.Each(t, seeds.Count(4, 20, 1), func(t *testing.T, seed uint64) {
				r := rand.New(rand.NewPCG(seed, uint64(devices)))
				n := r.IntN([]int{7000, 300, devices, 1}[seed%4])
				lengths := division(r, n, devices)
				next := uint32(0)
				for kind, key := range map[string]func() uint32{
					"any":     r.Uint32,
					"equal":   func() uint32 { return math.MaxUint32 },
					"zero":    func() uint32 { return 0 },
					"few":     func() uint32 { return r.Uint32N(3) + math.MaxUint32 - 2 },
					"skewed":  func() uint32 { return r.Uint32() >> r.IntN(32) },
					"sorted":  func() uint32 { next++; return next },
					"falling": func() uint32 { next--; return next },
				} {
					t.Run(kind, func(t *testing.T) {
						x := elements(n, key)
						sortedAmong(t, all, "SortUint32", x, lengths)
						floats, whole, bids := make([]float32, n), make([]int64, n), make([]across.Bid, n)
						for i, k := range x {
							floats[i], whole[i] = math.Float32frombits(k), int64(int32(k))<<r.IntN(2)
							bids[i] = across.Bid{Cents: k, From: placeOf(i)}
						}
						pairedAmong(t, all, "SortPairsFloat32Uint32", func(i int) uint32 { return uint32(i) }, floats, lengths)
						pairedAmong(t, all, "SortPairsInt64Place", placeOf, whole, lengths)
						stableAmong(t, all, "StableSortBidCheaper", across.Cheaper{Step: 1 + r.Uint32N(5)}, bids, lengths)
					})
				}
				sortedAmong(t, all, "SortInt64", elements(n, func() int64 { return int64(r.Uint64()) >> r.IntN(64) }), lengths)
				sortedAmong(t, all, "SortFloat32", elements(n, oddFloats(r)), lengths)
				pairedAmong(t, all, "SortPairsFloat32Uint32", func(i int) uint32 { return uint32(i) }, elements(n, oddFloats(r)), lengths)
			})
		})
	}
}

// bitsOf are the bits of numbers, of which a NaN too is equal to itself.
func bitsOf(x []float32) (bits []uint32) {
	for _, v := range x {
		bits = append(bits, math.Float32bits(v))
	}
	return bits
}

// permuted says that one slice has the same elements as the other, in any order.
func permuted(t *testing.T, want, got []float32, args ...any) {
	t.Helper()
	w, g := bitsOf(want), bitsOf(got)
	slices.Sort(w)
	slices.Sort(g)
	same(t, w, g, args...)
}

// disordered has n numbers. Some are NaNs, and some are equal.
func disordered(r *rand.Rand, n int) []float32 {
	return elements(n, func() float32 {
		switch r.IntN(3) {
		case 0:
			return float32(math.NaN())
		case 1:
			return float32(r.IntN(100))
		}
		return float32(r.NormFloat64())
	})
}

// A comparison that is no order ends the call too. Where the devices see that, the error says so. Else no element is lost, or there twice.
func TestStableSortAllWithoutOrder(t *testing.T) {
	if device.Hardware() {
		t.Skip("of the simulated driver")
	}
	all := openAmong(t, 8)
	refused := 0
	for seed := range uint64(3 * across.Disorders) {
		r := rand.New(rand.NewPCG(seed, 3))
		x := disordered(r, 5000)
		lengths := division(r, len(x), []int{2, 3, 8}[seed%3])
		parts := give[kernels.StableSort[float32, across.Disorder]](all, "StableSortFloat32Disorder", x, lengths)
		err := kernels.StableSortAll(t.Context(), across.Disorder{Kind: uint32(seed / 3)}, parts...)
		if err != nil {
			refused++
			require.ErrorIs(t, err, driver.ErrInvalidArgument)
			require.ErrorContains(t, err, "Less is no order of these elements")
		} else {
			permuted(t, x, together(all, parts), "sorted", seed, lengths)
		}
	}
	require.NotZero(t, refused)
}

// On one device too no element is lost or there twice, in any segment, and a search ends in the slice.
func TestSortsWithoutOrder(t *testing.T) {
	if device.Hardware() {
		t.Skip("of the simulated driver")
	}
	p := openAmong(t, 1)[0]
	for kind := range uint32(across.Disorders) {
		less := across.Disorder{Kind: kind}
		for _, n := range []int{1, 300, 2816, 3*2816 + 5, 5 * 2816} {
			r := rand.New(rand.NewPCG(uint64(kind), uint64(n)))
			in := disordered(r, n)
			x, out := onDevice(p, in, 0), onDevice(p, make([]float32, n), 0)
			require.NoError(t, kernels.StableSort[float32, across.Disorder]{}.Of(p.of("StableSortFloat32Disorder")).Launch(p.s, less, out, x, nil))
			permuted(t, in, onHost(p, out), "sorted", kind, n)
			offsets, longest := offsetsOf(r, n, 1+r.IntN(n))
			require.NoError(t, kernels.SegmentedSort[float32, across.Disorder]{}.Of(p.of("SegmentedSortFloat32Disorder")).Launch(p.s, less, out, x, onDevice(p, offsets, 0), longest, nil))
			got := onHost(p, out)
			for i := range offsets[1:] {
				permuted(t, in[offsets[i]:offsets[i+1]], got[offsets[i]:offsets[i+1]], "segment", i, kind, n)
			}
			places := onDevice(p, make([]uint64, n), 0)
			require.NoError(t, kernels.Search[float32, across.Disorder]{}.Of(p.of("SearchFloat32Disorder")).Upper(p.s, less, places, x, x))
			require.LessOrEqual(t, slices.Max(onHost(p, places)), uint64(n))
		}
	}
}

// Tiles whose splits several warps find are merged, and so are their elements where one of them sees that there is no order.
func TestStableSortOfManyTiles(t *testing.T) {
	if device.Hardware() {
		t.Skip("of the simulated driver")
	}
	p := openAmong(t, 1)[0]
	in := elements(70*2816+9, rand.New(rand.NewPCG(1, 1)).Float32)
	stablySorted(p, "StableSortFloat32Disorder", across.Disorder{}, in, true)
	in[len(in)/2], in[len(in)/3] = float32(math.NaN()), float32(math.NaN())
	x := onDevice(p, in, 0)
	require.NoError(t, kernels.StableSort[float32, across.Disorder]{}.Of(p.of("StableSortFloat32Disorder")).Launch(p.s, across.Disorder{}, x, x, nil))
	permuted(t, in, onHost(p, x), "sorted")
}

// scannedAmong gives each device some blocks, and returns what comes of the elements.
func scannedAmong[T comparable, O block.Op[T]](t *testing.T, all among, name string, op O, exclusive bool, x []T, r *rand.Rand) []T {
	t.Helper()
	size := kernels.ScanBlock(len(x))
	lengths := division(r, len(x)/size, len(all))
	for i := range lengths {
		lengths[i] *= size
	}
	last := len(all) - 1
	if r.IntN(2) == 0 {
		for last > 0 && lengths[last] == 0 { // the devices behind have nothing
			last--
		}
	}
	lengths[last] += len(x) % size
	parts := give[kernels.ScanAcross[T, O]](all, name, x, lengths)
	scan := kernels.ScanAll[T, O]
	if exclusive {
		scan = kernels.ExclusiveScanAll[T, O]
	}
	require.NoError(t, scan(t.Context(), op, parts...))
	return together(all, parts)
}

// A scan of all devices is that of one, bit for bit.
func TestScanAll(t *testing.T) {
	if device.Hardware() {
		t.Skip("of the simulated driver")
	}
	all := openAmong(t, 8)
	seeds.Each(t, seeds.Count(4, 20, 1), func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		n := r.IntN(20_000)
		floats := elements(n, func() float32 { return float32(r.NormFloat64()) })
		pairs := elements(n, func() across.Pair { return across.Pair{A: r.Uint32(), B: r.Uint32()} })
		want := make([]across.Pair, n+1)
		want[0].A = 1
		require.NoError(t, kernels.ScanCPU(across.Then{}, want[1:], pairs))
		for _, exclusive := range []bool{false, true} {
			var bits []uint32
			for _, devices := range []int{1, 2, 3, 8} {
				var got []uint32
				for _, f := range scannedAmong(t, all[:devices], "ScanAcrossFloat32AddFloat32", block.Add[float32]{}, exclusive, floats, r) {
					got = append(got, math.Float32bits(f))
				}
				if devices == 1 {
					bits = got
				}
				same(t, bits, got, devices, "devices", exclusive)
				of := want[1:]
				if exclusive {
					of = want[:n]
				}
				same(t, of, scannedAmong(t, all[:devices], "ScanAcrossPairThen", across.Then{}, exclusive, pairs, r), devices, "devices", exclusive)
			}
		}
	})
	x := make([]float32, 3000)
	bad := give[kernels.ScanAcross[float32, block.Add[float32]]](all, "ScanAcrossFloat32AddFloat32", x, []int{1000, 2000})
	err := kernels.ScanAll(t.Context(), block.Add[float32]{}, bad...)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	require.ErrorContains(t, err, "part 1 begins at element 1000 of 3000")
	require.NoError(t, kernels.ScanAll[float32](t.Context(), block.Add[float32]{}))
}

// A call of the driver that fails, a device that is lost and a caller who goes end the call with the cause, at every step of it. Nothing hangs, and
// no memory stays.
func TestAllEnds(t *testing.T) {
	if device.Hardware() {
		t.Skip("of the simulated driver")
	}
	add := block.Add[float32]{}
	for name, call := range map[string]func(all among) func(ctx context.Context) error{
		"sort": func(all among) func(ctx context.Context) error {
			parts := give[kernels.Sort[uint32]](all, "SortUint32", elements(6000, rand.New(rand.NewPCG(1, 1)).Uint32), []int{2000, 2000, 2000})
			return func(ctx context.Context) error { return kernels.SortAll(ctx, parts...) }
		},
		"pairs": func(all among) func(ctx context.Context) error {
			parts := give[kernels.SortPairs[float32, uint32]](all, "SortPairsFloat32Uint32", elements(6000, rand.New(rand.NewPCG(1, 2)).Float32), []int{2000, 2000, 2000})
			var values []*runtime.Ref[uint32]
			for i := range parts {
				values = append(values, onDevice(all[i], make([]uint32, 2000), 0))
			}
			return func(ctx context.Context) error { return kernels.SortPairsAll(ctx, values, parts...) }
		},
		"stable": func(all among) func(ctx context.Context) error {
			r := rand.New(rand.NewPCG(1, 3))
			parts := give[kernels.StableSort[across.Bid, across.Cheaper]](all, "StableSortBidCheaper", elements(6000, func() across.Bid { return across.Bid{Cents: r.Uint32()} }), []int{2000, 2000, 2000})
			return func(ctx context.Context) error { return kernels.StableSortAll(ctx, across.Cheaper{Step: 1}, parts...) }
		},
		"scan": func(all among) func(ctx context.Context) error {
			parts := give[kernels.ScanAcross[float32, block.Add[float32]]](all, "ScanAcrossFloat32AddFloat32", make([]float32, 20480), []int{10240, 5120, 5120})
			return func(ctx context.Context) error { return kernels.ScanAll(ctx, add, parts...) }
		},
	} {
		for step, times := range map[string]map[string][]int64{
			"sort":   {"cuLaunchKernel": {1, 20, 28, 36}, "cuMemcpyAsync": {2}},
			"pairs":  {"cuLaunchKernel": {5, 36}, "cuMemcpyAsync": {1, 4}},
			"stable": {"cuLaunchKernel": {5, 36}, "cuMemcpyAsync": {3}},
			"scan":   {"cuLaunchKernel": {1, 5, 20, 40}},
		}[name] {
			for _, after := range times {
				for end, want := range map[string]error{"refused": driver.ErrDriverCallFailed, "lost": driver.ErrDeviceLost, "gone": errGone} {
					t.Run(fmt.Sprintf("%s/%s/%s/%d", name, end, step, after), func(t *testing.T) {
						ctx, cancel := context.WithCancelCause(t.Context())
						var d *drivertest.Driver
						var calls atomic.Int64
						calls.Store(math.MinInt64)
						all := openAmongWith(t, 3, drivertest.Config{OnCall: func(op string) driver.Result {
							if op != step || calls.Add(1) != after {
								return driver.Success
							}
							switch end {
							case "refused":
								return driver.ResultInvalidHandle
							case "lost":
								d.Vanish(1)
							default:
								cancel(errGone)
							}
							return driver.Success
						}})
						d = all[0].d
						run := call(all)
						before := all.refs()
						calls.Store(0)
						require.ErrorIs(t, run(ctx), want)
						require.LessOrEqual(t, all.refs(), before, "of a lost device none is open")
						if end != "lost" {
							require.Equal(t, before, all.refs())
						}
					})
				}
			}
		}
	}
}

// refs is how many Refs are open.
func (all among) refs() (n uint64) {
	for _, on := range all {
		n += on.s.Context().Stats().Refs
	}
	return n
}

var errGone = errors.New("the caller has gone")

// What is wrong with the parts is said, and nothing moves.
func TestSortAllRefuses(t *testing.T) {
	if device.Hardware() {
		t.Skip("of the simulated driver")
	}
	all := openAmong(t, 2)
	x := []uint32{4, 3, 2, 1}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	type part = kernels.Part[kernels.Sort[uint32], uint32]
	for name, c := range map[string]struct {
		change func(p []part)
		ctx    context.Context
		kind   error
		says   string
	}{
		"no kernels":  {func(p []part) { p[1].Kernels = kernels.Sort[uint32]{} }, t.Context(), driver.ErrInvalidArgument, "part 1"},
		"no stream":   {func(p []part) { p[1].Stream = nil }, t.Context(), driver.ErrInvalidArgument, "part 1"},
		"no memory":   {func(p []part) { p[0].Data = nil }, t.Context(), driver.ErrInvalidArgument, "part 0"},
		"same stream": {func(p []part) { p[1].Stream = p[0].Stream }, t.Context(), driver.ErrInvalidArgument, "same stream"},
		"same memory": {func(p []part) { p[1].Data = p[0].Data.Slice(1, 2) }, t.Context(), driver.ErrInvalidArgument, "part 0"},
		"nil ctx":     {func([]part) {}, nil, driver.ErrInvalidArgument, "ctx is nil"},
		"ended ctx":   {func([]part) {}, ended, errGone, "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			good := give[kernels.Sort[uint32]](all, "SortUint32", x, []int{2, 2})
			p := slices.Clone(good)
			c.change(p)
			err := kernels.SortAll(c.ctx, p...)
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.says)
			same(t, x, together(all, good))
		})
	}
	require.NoError(t, kernels.SortAll[uint32](t.Context()), "nothing is sorted")
	require.NoError(t, kernels.SortPairsAll[float32, uint32](t.Context(), nil), "nothing is sorted")
	require.NoError(t, kernels.StableSortAll[across.Bid](t.Context(), across.Cheaper{Step: 1}), "nothing is sorted")
}

// never says that no element is less.
type never struct{}

func (never) Less(_, _ [41]uint32) bool { return false }

// So it is of values, and of elements that are compared.
func TestSortPairsAllRefuses(t *testing.T) {
	if device.Hardware() {
		t.Skip("of the simulated driver")
	}
	all := openAmong(t, 2)
	x := []float32{4, 3, 2, 1}
	type refs = []*runtime.Ref[uint32]
	type pairs = kernels.Part[kernels.SortPairs[float32, uint32], float32]
	for name, c := range map[string]struct {
		change func(p []pairs, v refs) refs
		says   string
	}{
		"more values":   {func(_ []pairs, v refs) refs { v[1] = onDevice(all[1], make([]uint32, 3), 0); return v }, "part 1 has 2 keys and 3 values"},
		"less values":   {func(_ []pairs, v refs) refs { v[0] = v[0].Slice(0, 1); return v }, "part 0 has 2 keys and 1 values"},
		"no values":     {func(_ []pairs, v refs) refs { v[0] = nil; return v }, "part 0 has 2 keys and 0 values"},
		"a part has no": {func(_ []pairs, v refs) refs { return v[:1] }, "values of 1 parts, and keys of 2"},
		"same values":   {func(_ []pairs, v refs) refs { v[1] = v[0]; return v }, "values of part 0"},
		"keys as values": {func(p []pairs, v refs) refs {
			cast, err := runtime.Cast[uint32](p[0].Data)
			require.NoError(t, err)
			v[0] = cast
			return v
		}, "part 0"},
	} {
		t.Run(name, func(t *testing.T) {
			good := give[kernels.SortPairs[float32, uint32]](all, "SortPairsFloat32Uint32", x, []int{2, 2})
			values := refs{onDevice(all[0], []uint32{0, 1}, 0), onDevice(all[1], []uint32{2, 3}, 0)}
			err := kernels.SortPairsAll(t.Context(), c.change(good, slices.Clone(values)), good...)
			require.ErrorIs(t, err, driver.ErrInvalidArgument)
			require.ErrorContains(t, err, c.says)
			same(t, x, together(all, good))
			same(t, []uint32{0, 1, 2, 3}, append(onHost(all[0], values[0]), onHost(all[1], values[1])...))
		})
	}
	err := kernels.SortPairsAll[float32, struct{}](t.Context(), nil)
	require.ErrorContains(t, err, "the values have no bytes")
	bids := give[kernels.StableSort[across.Bid, across.Cheaper]](all, "StableSortBidCheaper", make([]across.Bid, 4), []int{2, 2})
	bids[1].Stream = nil
	require.ErrorContains(t, kernels.StableSortAll(t.Context(), across.Cheaper{Step: 1}, bids...), "stable sort: part 1")
	k, first := all[0].of("StableSortBidCheaper")
	large := kernels.Part[kernels.StableSort[[41]uint32, never], [41]uint32]{Kernels: kernels.StableSort[[41]uint32, never]{}.Of(k, first), Stream: all[0].s, Data: onDevice(all[0], make([][41]uint32, 1), 0)}
	require.ErrorContains(t, kernels.StableSortAll(t.Context(), never{}, large), "the elements have 164 bytes, want 1 to 160")
}

// SortAll of 1 Gi keys on one device and on two, in turns. Each turn begins with the same keys and ends with the same.
func TestSortAllOnHardware(t *testing.T) {
	n, turns := 1<<30, 3
	if !device.Hardware() {
		n, turns = 10_000, 1
	}
	all := openAmong(t, 2)
	if len(all) < 2 {
		t.Skipf("%d device: this compares two with one", len(all))
	}
	r := rand.New(rand.NewPCG(1, 2))
	x := elements(n, r.Uint32)
	var first []uint32
	parts := map[int][]kernels.Part[kernels.Sort[uint32], uint32]{}
	took := map[int][]time.Duration{}
	for turn := range turns + 1 {
		for _, devices := range []int{1, 2} {
			if turn == 0 {
				parts[devices] = give[kernels.Sort[uint32]](all, "SortUint32", x, slices.Repeat([]int{n / devices}, devices))
			}
			for i, p := range parts[devices] {
				require.NoError(t, runtime.Upload(t.Context(), p.Stream, p.Data, x[n/devices*i:n/devices*(i+1)]))
				require.NoError(t, p.Stream.Synchronize(t.Context()))
			}
			start := time.Now()
			require.NoError(t, kernels.SortAll(t.Context(), parts[devices]...))
			if turn > 0 { // the first one warms up
				took[devices] = append(took[devices], time.Since(start))
			}
			got := together(all, parts[devices])
			if first == nil {
				require.True(t, slices.IsSorted(got))
				first = got
			}
			require.True(t, slices.Equal(first, got), "%d devices", devices)
		}
	}
	median := map[int]float64{}
	for _, devices := range []int{1, 2} {
		d := took[devices]
		slices.Sort(d)
		median[devices] = d[len(d)/2].Seconds()
		t.Logf("%d keys on %d devices: %.3f ms, %.1f GKey/s; the turns: %v", n, devices, 1e3*median[devices], float64(n)/median[devices]/1e9, d)
	}
	t.Logf("two devices have %.2f of the rate of one", median[1]/median[2])
}
