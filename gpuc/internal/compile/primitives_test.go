package compile_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/narrow"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/primitives"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/sizes"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

type add32 = block.Add[uint32]

// primitivesIn are the primitives of package primitives on a simulated device.
type primitivesIn struct {
	t     *testing.T
	s     *runtime.Stream
	k     *launch.Kernels
	first map[string]int
	d     *drivertest.Driver // nil on hardware
}

// library is a package of testdata that asks for primitives, compiled once for all tests.
type library struct {
	program *compile.Program
	module  *compile.Module
}

var libraries = map[string]func() (library, error){}

// libraryOptions are by the names of libraries. A name with a target behind it is a folder, compiled for that target.
var libraryOptions = map[string]compile.Options{
	"primitives":        {Arch: 75, Checks: compile.ChecksOff},
	"across":            {Arch: 75, Checks: compile.ChecksOff},
	"catalogue":         {Arch: 75, Checks: compile.ChecksOff},
	"narrow":            {Arch: 75, Checks: compile.ChecksOff},
	"sizes":             {Arch: 75, Checks: compile.ChecksOff},
	"failing":           {Arch: 75, Checks: compile.ChecksReport},
	"transformer":       {Arch: 75, Checks: compile.ChecksOff},
	"transformer sm_80": {Arch: 80, Checks: compile.ChecksOff},
	"products":          {Arch: 80, Checks: compile.ChecksOff},
	"float8":            {Arch: 89, Checks: compile.ChecksOff},
	"fused sm_80":       {Arch: 80, Checks: compile.ChecksTrap},
	"fused sm_90a":      {Arch: 90, Only: true, Checks: compile.ChecksTrap},

	"products sm_90a": {Arch: 90, Only: true, Checks: compile.ChecksOff},
	"float8 sm_90a":   {Arch: 90, Only: true, Checks: compile.ChecksOff},
}

func init() {
	for name, options := range libraryOptions {
		libraries[name] = sync.OnceValues(func() (l library, err error) {
			folder, _, _ := strings.Cut(name, " ")
			if l.program, err = compile.Load(compile.Config{Dir: "../testdata/" + folder, Pattern: "."}); err != nil {
				return l, err
			}
			var names []string // of those that the target can have
			for _, k := range l.program.Kernels {
				if (k.Target == compile.Target{}) || (compile.Target{Arch: options.Arch, Only: options.Only}).Has(k.Target) {
					names = append(names, k.Name)
				}
			}
			l.module, err = l.program.Compile(options, names...)
			return l, err
		})
	}
}

// openPrimitives compiles the primitives and loads them.
func openPrimitives(t *testing.T) *primitivesIn { return openLibrary(t, "primitives") }

func openLibrary(t *testing.T, name string) *primitivesIn {
	return openLibraryOn(t, name, drivertest.Config{})
}

// openLibraryOn has a simulated device as config says. Its driver is nil on hardware.
func openLibraryOn(t *testing.T, name string, config drivertest.Config) *primitivesIn {
	rt, module, in := openModule(t, name, config)
	b, err := rt.Probe("primitives")
	require.NoError(t, err)
	in.s = b.Stream
	o := libraryOptions[name]
	if has := b.Device().Capability; has.Arch() < o.Arch || o.Only && has.Arch() != o.Arch {
		t.Skipf("%s is for other devices than one of compute capability %v", name, has)
	}
	in.k, err = module.Load(b.Context)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, in.k.Close()) })
	return in
}

// openModule opens the devices, and has not loaded the library.
func openModule(t *testing.T, name string, config drivertest.Config) (*runtime.Runtime, *launch.Module, *primitivesIn) {
	var d *drivertest.Driver
	options := []runtime.Option{runtime.WithPolicy(runtime.PolicyAuto)}
	file := fmt.Sprintf("testdata/modules/library_%s.json", strings.ReplaceAll(name, " ", "_"))
	made := struct {
		PTX                   string
		Kernels, Needs, Sites []string
		First                 map[string]int
	}{First: map[string]int{}}
	if device.Hardware() {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("the kernels did not travel, and this host may have no Go")
		}
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &made))
	} else {
		d = drivertest.ForTest(t, config)
		options = append(options, runtime.WithDriver(d))
		l, err := libraries[name]()
		require.NoError(t, err)
		made.PTX, made.Sites = l.module.PTX, l.module.Sites
		for _, k := range l.program.Kernels {
			need := ""
			if k.Target != (compile.Target{}) {
				need = k.Target.String()
			}
			made.Kernels, made.Needs = append(made.Kernels, k.Symbol()), append(made.Needs, need)
		}
		for _, i := range l.program.Instances {
			made.First[i.Name] = i.First
		}
		if device.Writing() {
			text, err := json.Marshal(made)
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o777))
			require.NoError(t, os.WriteFile(file, text, 0o666))
		}
	}
	rt, err := runtime.Open(options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	module := &launch.Module{Images: []runtime.Image{{Arch: libraryOptions[name].Arch, Code: []byte(made.PTX)}}, Needs: made.Needs, Kernels: made.Kernels, Sites: made.Sites}
	return rt, module, &primitivesIn{t, nil, nil, made.First, d}
}

// of finds the kernels of an instance.
func (p *primitivesIn) of(name string) (*launch.Kernels, int) {
	first, ok := p.first[name]
	require.True(p.t, ok, "%s is none of %v", name, p.first)
	return p.k, first
}

// onDevice is a copy of x that begins some elements behind the begin of its memory.
func onDevice[T any](p *primitivesIn, x []T, behind int) *runtime.Ref[T] {
	p.t.Helper()
	all, err := runtime.Alloc[T](p.s, len(x)+behind)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { assert.NoError(p.t, all.Close()) })
	r := all.Slice(behind, behind+len(x))
	require.NoError(p.t, runtime.Upload(p.t.Context(), p.s, r, x))
	return r
}

func onHost[T any](p *primitivesIn, r *runtime.Ref[T]) []T {
	p.t.Helper()
	x := make([]T, r.Len())
	require.NoError(p.t, runtime.Download(p.t.Context(), p.s, x, r))
	return x
}

// same compares without printing all of two large slices.
func same[T comparable](t *testing.T, want, got []T, args ...any) {
	t.Helper()
	require.Len(t, got, len(want), args...)
	for i := range want {
		if want[i] != got[i] {
			require.Failf(t, "they differ", "%v: element %d of %d is %v, want %v", args, i, len(want), got[i], want[i])
		}
	}
}

// lengths are around the ends of warps, tiles and groups of tiles.
func lengths(tile int) []int { return []int{1, 31, tile - 1, tile, tile + 1, 3*tile + 5, 33*tile + 7} }

// elements are n elements, each made by a function.
func elements[T any](n int, value func() T) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = value()
	}
	return x
}

func scanned[T comparable, O block.Op[T]](p *primitivesIn, name string, op O, in []T, behind int) {
	p.t.Helper()
	n := len(in)
	want := make([]T, n+1)
	want[0] = op.Zero()
	require.NoError(p.t, kernels.ScanCPU(op, want[1:], in))
	k := kernels.Scan[T, O]{}.Of(p.of(name))
	x, out := onDevice(p, in, behind), onDevice(p, make([]T, n), 0)
	require.NoError(p.t, k.Inclusive(p.s, op, out, x, nil))
	same(p.t, want[1:], onHost(p, out), name, n, behind)
	require.NoError(p.t, k.Exclusive(p.s, op, x, x, nil))
	same(p.t, want[:n], onHost(p, x), name, n, behind)
}

func scannedAll[T comparable, O block.Op[T]](p *primitivesIn, name string, op O, lengths []int, value func() T) {
	for _, n := range lengths {
		for behind := range 2 {
			scanned(p, name, op, elements(n, value), behind)
		}
	}
}

func reduced[T comparable, O block.Op[T]](p *primitivesIn, name string, op O, in []T, behind int) {
	p.t.Helper()
	var before T
	all, out := op.Zero(), onDevice(p, []T{before}, 0)
	for _, v := range in {
		all = op.Combine(all, v)
	}
	require.NoError(p.t, kernels.Reduce[T, O]{}.Of(p.of(name)).Launch(p.s, op, out, onDevice(p, in, behind), nil))
	same(p.t, []T{all}, onHost(p, out), name, len(in))
}

func selected[T comparable, C kernels.Condition[T]](p *primitivesIn, name string, c C, in []T, behind int) {
	p.t.Helper()
	out, count := onDevice(p, make([]T, len(in)), 0), onDevice(p, []uint64{77}, 0)
	require.NoError(p.t, kernels.Select[T, C]{}.Of(p.of(name)).Launch(p.s, c, out, onDevice(p, in, behind), count, nil))
	want := slices.DeleteFunc(slices.Clone(in), func(v T) bool { return !c.Keep(v) })
	require.EqualValues(p.t, len(want), onHost(p, count)[0], "%s, %d", name, len(in))
	same(p.t, want, onHost(p, out)[:len(want)], name, len(in))
}

func sorted[K kernels.Key](p *primitivesIn, name string, in []K, behind int) {
	p.t.Helper()
	x := onDevice(p, in, behind)
	require.NoError(p.t, kernels.Sort[K]{}.Of(p.of(name)).Launch(p.s, x, x, nil))
	want := slices.Clone(in)
	slices.Sort(want)
	same(p.t, want, onHost(p, x), name, len(in))
}

func sortedPairs[K kernels.Key, V comparable](p *primitivesIn, name string, keys []K, values []V) {
	p.t.Helper()
	n := len(keys)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	outKeys, outValues := onDevice(p, make([]K, n), 0), onDevice(p, make([]V, n), 0)
	require.NoError(p.t, kernels.SortPairs[K, V]{}.Of(p.of(name)).Launch(p.s, outKeys, onDevice(p, keys, 0), outValues, onDevice(p, values, 0), nil))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	wantKeys, wantValues := make([]K, n), make([]V, n)
	for i, from := range order {
		wantKeys[i], wantValues[i] = keys[from], values[from]
	}
	same(p.t, wantKeys, onHost(p, outKeys), name, n)
	same(p.t, wantValues, onHost(p, outValues), name, n)
}

func boxes(r *rand.Rand) func() primitives.Box {
	return func() primitives.Box { return primitives.Box{Min: r.Float32(), Max: r.Float32(), Sum: r.Uint64()} }
}

func affine(r *rand.Rand) func() primitives.Pair {
	return func() primitives.Pair { return primitives.Pair{A: r.Uint32() | 1, B: r.Uint32()} }
}

func large(r *rand.Rand) func() primitives.Large {
	return func() (v primitives.Large) {
		v.V[r.IntN(32)] = r.Uint32()
		return v
	}
}

func TestScansOfTheLibrary(t *testing.T) {
	p := openPrimitives(t)
	r := rand.New(rand.NewPCG(1, 2))
	scannedAll(p, "ScanUint32AddUint32", add32{}, lengths(8192), r.Uint32)
	scannedAll(p, "ScanFloat32AddFloat32", block.Add[float32]{}, lengths(8192), func() float32 { return float32(r.IntN(3) - 1) })
	scannedAll(p, "ScanInt64AddInt64", block.Add[int64]{}, lengths(4096), func() int64 { return int64(r.Uint64()) })
	scannedAll(p, "ScanPairThen", primitives.Then{}, lengths(4096), affine(r))
	scannedAll(p, "ScanBoxUnion", primitives.Union{}, lengths(2048), boxes(r))
	// A tile has 256 of these, and 1,024 tiles have a total of their own.
	many := []int{1, 257, 256*34 + 3}
	if !testing.Short() {
		many[2] = 256*1030 + 3
	}
	scannedAll(p, "ScanLargeAddLarge", primitives.AddLarge{Factor: 1}, many, large(r))
}

// TestNarrowTypes has elements of less than 4 bytes, bools, and structs with space between their fields.
func TestNarrowTypes(t *testing.T) {
	p := openLibrary(t, "narrow")
	r := rand.New(rand.NewPCG(1, 3))
	truth := func() bool { return r.IntN(5000) == 0 }
	color := func() narrow.Color {
		return narrow.Color{R: uint8(r.IntN(2)), G: uint8(r.IntN(2)), B: uint8(r.IntN(2) * 255)}
	}
	mark := func() narrow.Mark {
		return narrow.Mark{On: r.IntN(2) == 0, ID: int16(r.IntN(3) - 1), Of: uint8(r.IntN(2))}
	}
	sizes := []int{1, 8191, 3*8192 + 5}
	scannedAll(p, "ScanInt16AddInt16", block.Add[int16]{}, append(sizes, 33*8192+7), func() int16 { return int16(r.Uint32()) })
	scannedAll(p, "ScanBoolOr", narrow.Or{}, sizes, truth)
	scannedAll(p, "ScanColorLastColor", narrow.Last[narrow.Color]{}, sizes, color)
	scannedAll(p, "ScanMarkLastMark", narrow.Last[narrow.Mark]{}, sizes, mark)
	for _, n := range sizes {
		reduced(p, "ReduceUint8AddUint8", block.Add[uint8]{}, elements(n, func() uint8 { return uint8(r.Uint32()) }), 1)
		reduced(p, "ReduceBoolOr", narrow.Or{}, elements(n, truth), 0)
		uniqued(p, "UniqueBool", runsOf(r, n, 5, func() bool { return r.IntN(2) == 0 }), 1)
		uniqued(p, "UniqueColor", runsOf(r, n, 3, color), 0)
		combined(p, "ReduceByKeyUint8BoolOr", narrow.Or{}, runsOf(r, n, 9, func() uint8 { return uint8(r.IntN(3)) }), elements(n, truth), 0)
		combined(p, "ReduceByKeyMarkColorLastColor", narrow.Last[narrow.Color]{}, runsOf(r, n, 9, mark), elements(n, color), 1)
		counted(p, "RunLengthsInt8", runsOf(r, n, 4, func() int8 { return int8(r.IntN(3) - 1) }), 1)
	}
}

// words are elements with two small words that make a function, and others.
func words[W sizes.Words](r *rand.Rand) func() W {
	return func() (w W) {
		w[0], w[1], w[len(w)-1] = r.Uint64N(2)*2+1, r.Uint64N(3), r.Uint64N(2)
		return w
	}
}

// TestSizesOfElements has elements that fill no vectors, and large ones, on a device with little shared memory.
func TestSizesOfElements(t *testing.T) {
	p := openLibraryOn(t, "sizes", drivertest.Config{Devices: []drivertest.DeviceConfig{drivertest.T4()}})
	r := rand.New(rand.NewPCG(1, 6))
	few, more, many := words[[3]uint64](r), words[[5]uint64](r), words[[27]uint64](r)
	for i, n := range []int{1, 255, 256, 257, 1024, 2*1024 + 5, 33*256 + 7} {
		behind := i % 2
		scanned(p, "ScanArray3Uint64ThenArray3Uint64", sizes.Then[[3]uint64]{}, elements(n, few), behind)
		scanned(p, "ScanArray5Uint64ThenArray5Uint64", sizes.Then[[5]uint64]{}, elements(n, more), behind)
		scanned(p, "ScanArray27Uint64ThenArray27Uint64", sizes.Then[[27]uint64]{}, elements(n, many), behind)
		selected(p, "SelectArray3Uint64OddArray3Uint64", sizes.Odd[[3]uint64]{}, elements(n, few), behind)
		parted(p, "PartitionArray5Uint64OddArray5Uint64", sizes.Odd[[5]uint64]{}, elements(n, more), behind)
		uniqued(p, "UniqueArray3Uint64", runsOf(r, n, 5, few), behind)
		counted(p, "RunLengthsArray27Uint64", runsOf(r, n, 5, many), behind)
		combined(p, "ReduceByKeyUint32Array3Uint64ThenArray3Uint64", sizes.Then[[3]uint64]{}, runsOf(r, n, 300, r.Uint32), elements(n, few), behind)
		combined(p, "ReduceByKeyArray27Uint64Array27Uint64ThenArray27Uint64", sizes.Then[[27]uint64]{}, runsOf(r, n, 5, many), elements(n, many), behind)
	}
}

// TestElementsTooLarge has elements of which a block has no room for enough on a device with little shared memory.
func TestElementsTooLarge(t *testing.T) {
	p := openLibraryOn(t, "sizes", drivertest.Config{Devices: []drivertest.DeviceConfig{drivertest.T4()}})
	selected(p, "SelectFitsAnyFits", sizes.Any[sizes.Fits]{}, make([]sizes.Fits, 300), 0)
	sortedPairs(p, "SortPairsUint32Array41Uint32", make([]uint32, 500), make([][41]uint32, 500))
	if p.d == nil {
		t.Skip("a device of hardware may have room for more")
	}
	x, count := onDevice(p, make([]sizes.Large, 3), 0), onDevice(p, []uint64{0}, 0)
	keys, values := onDevice(p, make([]uint32, 3), 0), onDevice(p, make([][42]uint32, 3), 0)
	for name, err := range map[string]error{
		"select":    kernels.Select[sizes.Large, sizes.Any[sizes.Large]]{}.Of(p.of("SelectLargeAnyLarge")).Launch(p.s, sizes.Any[sizes.Large]{}, onDevice(p, make([]sizes.Large, 3), 0), x, count, nil),
		"partition": kernels.Partition[sizes.Large, sizes.Any[sizes.Large]]{}.Of(p.of("PartitionLargeAnyLarge")).Launch(p.s, sizes.Any[sizes.Large]{}, onDevice(p, make([]sizes.Large, 3), 0), onDevice(p, make([]sizes.Large, 3), 0), x, count, nil),
		"unique":    kernels.Unique[sizes.Large]{}.Of(p.of("UniqueLarge")).Launch(p.s, onDevice(p, make([]sizes.Large, 3), 0), x, count, nil),
	} {
		assert.ErrorIs(t, err, driver.ErrUnsupported, name)
		assert.ErrorContains(t, err, name+": sizes.Large has 256 bytes, and a device of compute capability 7.5 has room for at most 255 each: take a smaller type, such as the index of one")
	}
	err := kernels.SortPairs[uint32, [42]uint32]{}.Of(p.of("SortPairsUint32Array42Uint32")).Launch(p.s, keys, keys, values, values, nil)
	assert.ErrorContains(t, err, "sort: [42]uint32 has 168 bytes, and a device of compute capability 7.5 has room for at most 167 each")
}

func TestScanOfFloatsHasOneOrder(t *testing.T) {
	p := openPrimitives(t)
	const n = 100_003
	in := make([]float32, n)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range in {
		in[i] = float32(r.NormFloat64())
	}
	x, out := onDevice(p, in, 0), onDevice(p, in, 0)
	k := kernels.Scan[float32, block.Add[float32]]{}.Of(p.of("ScanFloat32AddFloat32"))
	require.NoError(t, k.Inclusive(p.s, block.Add[float32]{}, out, x, nil))
	once := onHost(p, out)
	// Now all blocks are there at once, and tiles wait for tiles.
	scratch := onDevice(p, make([]byte, k.Scratch(n)), 0)
	words, err := runtime.Cast[uint64](scratch.Slice(0, scratch.Len()))
	require.NoError(t, err)
	_, first := p.of("ScanFloat32AddFloat32")
	for range 3 {
		require.NoError(t, runtime.Zero(p.s, scratch))
		require.NoError(t, runtime.Zero(p.s, out))
		require.NoError(t, p.k.Launch(first, p.s, runtime.Shape{Grid: runtime.Dim3{X: (n + 8191) / 8192}, Block: runtime.Dim3{X: 256}, SharedBytes: 36 << 10, Cooperative: true},
			runtime.Value(uint8(0)), launch.Bool(false), launch.Bool(true), runtime.InOut(out), runtime.Value(n), runtime.In(x), runtime.Value(n),
			runtime.InOut(words), runtime.Value(words.Len()), runtime.InOut(out.Slice(0, 0)), runtime.Value(0)))
		same(t, once, onHost(p, out))
	}
	sum := 0.0
	for i, v := range in {
		sum += float64(v)
		require.InDelta(t, sum, float64(once[i]), 1e-2, i)
	}
}

func TestReduceOfTheLibrary(t *testing.T) {
	p := openPrimitives(t)
	r := rand.New(rand.NewPCG(1, 3))
	for _, n := range []int{0, 1, 31, 4096, 100_003} {
		reduced(p, "ReduceFloat64AddFloat64", block.Add[float64]{}, elements(n, func() float64 { return float64(r.IntN(1000)) }), 1)
		reduced(p, "ReduceBoxUnion", primitives.Union{}, elements(n, boxes(r)), 0)
	}
}

func TestSelectOfTheLibrary(t *testing.T) {
	p := openPrimitives(t)
	r := rand.New(rand.NewPCG(1, 4))
	for _, n := range append(lengths(8192), 0) {
		for _, bound := range []uint32{0, 1 << 30, math.MaxUint32} {
			selected(p, "SelectUint32Below", primitives.Below{Bound: bound}, elements(n, r.Uint32), n%2)
		}
		selected(p, "SelectBoxWide", primitives.Wide{}, elements(n/4, boxes(r)), 0)
	}
}

func TestSortsOfTheLibrary(t *testing.T) {
	p := openPrimitives(t)
	r := rand.New(rand.NewPCG(1, 5))
	for _, n := range []int{0, 1, 1000, 5761, 30_000} {
		for _, few := range []uint64{5, math.MaxUint64} {
			sorted(p, "SortInt32", elements(n, func() int32 { return int32(r.Uint64N(few)) }), 1)
			sorted(p, "SortFloat64", elements(n, func() float64 { return float64(r.Uint64N(few)) - 2.5 }), 1)
		}
		sorted(p, "SortFloat64", elements(n, func() float64 { return r.NormFloat64() * math.Exp(float64(r.IntN(100))) }), 1)
	}
	next := uint32(0)
	number := func() uint32 { next++; return next }
	for _, n := range []int{0, 1, 1000, 2689, 30_000} {
		sortedPairs(p, "SortPairsFloat32Uint32", elements(n, func() float32 { return float32(r.IntN(100)) - 50.5 }), elements(n, number))
		sortedPairs(p, "SortPairsUint64Box", elements(n, func() uint64 { return r.Uint64() & 0xff0000000000ff }),
			elements(n, func() primitives.Box { return primitives.Box{Sum: uint64(number())} }))
	}
}

func TestPrimitivesInAGraph(t *testing.T) {
	p := openPrimitives(t)
	const n = 20_000
	in := make([]uint32, n)
	for i := range in {
		in[i] = rand.Uint32()
	}
	x, out := onDevice(p, in, 0), onDevice(p, make([]uint32, n), 0)
	k := kernels.Scan[uint32, add32]{}.Of(p.of("ScanUint32AddUint32"))
	scratch := onDevice(p, make([]byte, k.Scratch(n)), 0)
	_, err := p.s.Capture(func(s *runtime.Stream) error { return k.Inclusive(s, add32{}, out, x, nil) })
	require.ErrorIs(t, err, driver.ErrCaptureFailed, "the arena gives no memory while the stream is captured")
	require.ErrorContains(t, err, fmt.Sprintf("scan: give %d bytes of scratch memory, as Scratch says, where the stream is captured", k.Scratch(n)))
	g, err := p.s.Capture(func(s *runtime.Stream) error { return k.Inclusive(s, add32{}, out, x, scratch) })
	require.NoError(t, err)
	defer g.Close()
	exec, err := g.Instantiate()
	require.NoError(t, err)
	defer exec.Close()
	want := make([]uint32, n)
	require.NoError(t, kernels.ScanCPU(add32{}, want, in))
	for range 3 {
		require.NoError(t, runtime.Zero(p.s, out))
		require.NoError(t, exec.Launch(p.s))
		same(t, want, onHost(p, out))
	}
}

func TestPrimitivesSayWhatIsWrong(t *testing.T) {
	p := openPrimitives(t)
	ten, nine, count := onDevice(p, make([]uint32, 10), 0), onDevice(p, make([]uint32, 9), 0), onDevice(p, []uint64{1, 2}, 0)
	little := onDevice(p, make([]byte, 8), 0)
	scan := kernels.Scan[uint32, add32]{}.Of(p.of("ScanUint32AddUint32"))
	sel := kernels.Select[uint32, primitives.Below]{}.Of(p.of("SelectUint32Below"))
	sort := kernels.Sort[int32]{}.Of(p.of("SortInt32"))
	pairs := kernels.SortPairs[float32, uint32]{}.Of(p.of("SortPairsFloat32Uint32"))
	signed, err := runtime.Cast[int32](ten)
	require.NoError(t, err)
	floats, err := runtime.Cast[float32](ten)
	require.NoError(t, err)
	for want, err := range map[string]error{
		"lengths 9 and 10 differ":                  scan.Inclusive(p.s, add32{}, nine, ten, nil),
		"has 8 bytes, and Scratch says 256":        scan.Exclusive(p.s, add32{}, ten, ten, little),
		"out has room for 9 elements, and 10":      sel.Launch(p.s, primitives.Below{}, nine, ten, count.Slice(0, 1), nil),
		"the count has 2 elements, want 1":         sel.Launch(p.s, primitives.Below{}, ten, ten, count, nil),
		"scan: the slices out and in overlap":      scan.Inclusive(p.s, add32{}, ten.Slice(1, 10), ten.Slice(0, 9), nil),
		"select: the slices out and in overlap":    sel.Launch(p.s, primitives.Below{}, ten, ten, count.Slice(0, 1), nil),
		"sort: the slices out and in overlap":      sort.Launch(p.s, signed.Slice(1, 10), signed.Slice(0, 9), nil),
		"lengths 0 and 10 differ":                  sort.Launch(p.s, nil, signed, nil),
		"10 keys, 9 values and room for 10 values": pairs.Launch(p.s, floats, floats, ten, nine, nil),
		"the kernels are nil":                      kernels.Scan[uint32, add32]{}.Inclusive(p.s, add32{}, ten, ten, nil),
		"_Clear is nil":                            scan.Inclusive(nil, add32{}, ten, ten, onDevice(p, make([]byte, 256), 0)),
	} {
		assert.ErrorContains(t, err, want)
	}
}

// Memory that a primitive writes is no other memory of the call, unless its comment says so. A Ref that is nil is not an empty one.
func TestPrimitivesKeepMemoryApart(t *testing.T) {
	p := openPrimitives(t)
	words, other := onDevice(p, make([]uint32, 4096), 0), onDevice(p, make([]uint32, 4096), 0)
	ten, tenOther := words.Slice(0, 10), other.Slice(0, 10)
	bytes, err := runtime.Cast[byte](words)
	require.NoError(t, err)
	counts, err := runtime.Cast[uint64](words)
	require.NoError(t, err)
	floats, err := runtime.Cast[float32](other)
	require.NoError(t, err)
	doubles, err := runtime.Cast[float64](words)
	require.NoError(t, err)
	double := onDevice(p, make([]float64, 1), 0)
	scan := kernels.Scan[uint32, add32]{}.Of(p.of("ScanUint32AddUint32"))
	reduce := kernels.Reduce[float64, block.Add[float64]]{}.Of(p.of("ReduceFloat64AddFloat64"))
	sel := kernels.Select[uint32, primitives.Below]{}.Of(p.of("SelectUint32Below"))
	pairs := kernels.SortPairs[float32, uint32]{}.Of(p.of("SortPairsFloat32Uint32"))
	sum := func(out, in *runtime.Ref[float64], scratch *runtime.Ref[byte]) error {
		return reduce.Launch(p.s, block.Add[float64]{}, out, in, scratch)
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"scan, scratch in in":          {scan.Inclusive(p.s, add32{}, tenOther, ten, bytes), "overlap"},
		"scan, scratch in out":         {scan.Exclusive(p.s, add32{}, ten, tenOther, bytes), "overlap"},
		"scan, scratch in both":        {scan.Inclusive(p.s, add32{}, ten, ten, bytes), "overlap"},
		"reduce, scratch in in":        {sum(double, doubles, bytes), "overlap"},
		"select, scratch in in":        {sel.Launch(p.s, primitives.Below{}, tenOther, ten, onDevice(p, []uint64{0}, 0), bytes), "overlap"},
		"select, count in in":          {sel.Launch(p.s, primitives.Below{}, tenOther, ten, counts.Slice(2, 3), nil), "overlap"},
		"pairs, keys in values":        {pairs.Launch(p.s, floats.Slice(0, 10), floats.Slice(10, 20), words.Slice(0, 10), other.Slice(5, 15), nil), "overlap"},
		"pairs, values in keys":        {pairs.Launch(p.s, floats.Slice(0, 10), floats.Slice(10, 20), other.Slice(12, 22), words.Slice(0, 10), nil), "overlap"},
		"pairs, scratch in the values": {pairs.Launch(p.s, floats.Slice(0, 10), floats.Slice(0, 10), words.Slice(0, 10), words.Slice(0, 10), bytes), "overlap"},
		"scan of nil":                  {scan.Inclusive(p.s, add32{}, nil, nil, nil), "never allocated"},
		"reduce of nil":                {sum(double, nil, nil), "never allocated"},
		"select of nil":                {sel.Launch(p.s, primitives.Below{}, nil, nil, onDevice(p, []uint64{0}, 0), nil), "never allocated"},
		"pairs of nil":                 {pairs.Launch(p.s, nil, nil, nil, nil, nil), "never allocated"},
	} {
		assert.ErrorIs(t, c.err, driver.ErrInvalidArgument, name)
		assert.ErrorContains(t, c.err, c.want, name)
	}
	require.NoError(t, scan.Inclusive(p.s, add32{}, ten, ten, nil))
	require.NoError(t, sum(doubles.Slice(0, 1), doubles.Slice(0, 10), nil), "the last step alone writes")
	require.NoError(t, pairs.Launch(p.s, floats.Slice(0, 10), floats.Slice(0, 10), words.Slice(0, 10), words.Slice(0, 10), nil))
	require.NoError(t, scan.Inclusive(p.s, add32{}, ten.Slice(0, 0), ten.Slice(0, 0), nil), "nothing")
	require.NoError(t, p.s.Synchronize(t.Context()))
}

func TestInstancesHaveNamesOfTheirTypes(t *testing.T) {
	p := program(t, "../testdata/primitives")
	var names []string
	for _, i := range p.Instances {
		names = append(names, fmt.Sprint(i.Name, " ", i.First))
	}
	assert.Equal(t, "ScanUint32AddUint32 0, ScanFloat32AddFloat32 2, ScanPairThen 4, ScanBoxUnion 6, ScanLargeAddLarge 8, ReduceFloat64AddFloat64 10, "+
		"ReduceBoxUnion 11, SelectUint32Below 12, SelectBoxWide 14, SortInt32 16, SortFloat64 22, SortPairsFloat32Uint32 28, SortPairsUint64Box 34, ScanInt64AddInt64 40", strings.Join(names, ", "))
	assert.EqualValues(t, 128, unsafe.Sizeof(primitives.Large{}))
}

// TestMinBlocks looks at the bound of registers that a call gives for some types alone.
func TestMinBlocks(t *testing.T) {
	for kernel, want := range map[string]string{"ScanUint32AddUint32_Scan": ".minnctapersm 6\n", "ScanInt64AddInt64_Scan": ""} {
		m, err := program(t, "../testdata/cub").Compile(compile.Options{Arch: 90, Checks: compile.ChecksOff}, kernel)
		require.NoError(t, err)
		assert.Contains(t, m.PTX, "\n.reqntid 256, 1, 1\n"+want+"{", kernel)
	}
}
