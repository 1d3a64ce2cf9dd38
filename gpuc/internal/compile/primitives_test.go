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
	"github.com/purecuda/purecuda/gpuc/internal/testdata/primitives"
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
}

// library is a package of testdata that asks for primitives, compiled once for all tests.
type library struct {
	program *compile.Program
	module  *compile.Module
}

var libraries = map[string]func() (library, error){}

func init() {
	for name, checks := range map[string]compile.Checks{"primitives": compile.ChecksOff, "catalogue": compile.ChecksOff, "failing": compile.ChecksReport} {
		libraries[name] = sync.OnceValues(func() (l library, err error) {
			if l.program, err = compile.Load(compile.Config{Dir: "../testdata/" + name, Pattern: "."}); err != nil {
				return l, err
			}
			l.module, err = l.program.Compile(compile.Options{Arch: 75, Checks: checks})
			return l, err
		})
	}
}

// openPrimitives compiles the primitives and loads them.
func openPrimitives(t *testing.T) *primitivesIn { return openLibrary(t, "primitives") }

func openLibrary(t *testing.T, name string) *primitivesIn {
	options := []runtime.Option{runtime.WithPolicy(runtime.PolicyAuto)}
	file := fmt.Sprintf("testdata/modules/library_%s.json", name)
	made := struct {
		PTX            string
		Kernels, Sites []string
		First          map[string]int
	}{First: map[string]int{}}
	if device.Hardware() {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("the kernels did not travel, and this host may have no Go")
		}
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &made))
	} else {
		options = append(options, runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{})))
		l, err := libraries[name]()
		require.NoError(t, err)
		made.PTX, made.Sites = l.module.PTX, l.module.Sites
		for _, k := range l.module.Kernels {
			made.Kernels = append(made.Kernels, k.Symbol())
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
	b, err := rt.Probe("primitives")
	require.NoError(t, err)
	in := &primitivesIn{t, b.Stream, nil, made.First}
	module := &launch.Module{Images: []runtime.Image{{Arch: 75, Code: []byte(made.PTX)}}, Kernels: made.Kernels, Sites: made.Sites}
	in.k, err = module.Load(b.Context)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, in.k.Close()) })
	return in
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

func scanned[T comparable, O block.Op[T]](p *primitivesIn, name string, op O, lengths []int, value func(i int) T) {
	p.t.Run("scan "+name, func(t *testing.T) {
		for _, n := range lengths {
			for behind := range 2 {
				in := make([]T, n)
				for i := range in {
					in[i] = value(i)
				}
				want := make([]T, n)
				kernels.ScanCPU(op, want, in)
				k := kernels.Scan[T, O]{}.Of(p.of(name))
				x := onDevice(p, in, behind)
				out := onDevice(p, make([]T, n), 0)
				require.NoError(t, k.Inclusive(p.s, op, out, x, nil))
				same(t, want, onHost(p, out), n, behind)
				require.NoError(t, k.Exclusive(p.s, op, x, x, nil))
				same(t, append([]T{op.Zero()}, want[:n-1]...), onHost(p, x), n, behind)
			}
		}
	})
}

func TestScansOfTheLibrary(t *testing.T) {
	p := openPrimitives(t)
	r := rand.New(rand.NewPCG(1, 2))
	scanned(p, "ScanUint32AddUint32", add32{}, lengths(8192), func(int) uint32 { return r.Uint32() })
	scanned(p, "ScanFloat32AddFloat32", block.Add[float32]{}, lengths(8192), func(int) float32 { return float32(r.IntN(3) - 1) })
	scanned(p, "ScanInt64AddInt64", block.Add[int64]{}, lengths(4096), func(int) int64 { return int64(r.Uint64()) })
	scanned(p, "ScanPairThen", primitives.Then{}, lengths(4096), func(int) primitives.Pair { return primitives.Pair{A: r.Uint32() | 1, B: r.Uint32()} })
	scanned(p, "ScanBoxUnion", primitives.Union{}, lengths(2048), func(i int) primitives.Box {
		f := r.Float32()
		return primitives.Box{Min: f, Max: f, Sum: uint64(i)}
	})
	// A tile has 256 of these, and 1,024 tiles have a total of their own.
	large := []int{1, 257, 256*34 + 3}
	if !testing.Short() {
		large[2] = 256*1030 + 3
	}
	scanned(p, "ScanLargeAddLarge", primitives.AddLarge{Factor: 1}, large, func(int) (v primitives.Large) {
		v.V[r.IntN(32)] = r.Uint32()
		return v
	})
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
		require.NoError(t, p.k.Launch(first, p.s, runtime.Shape{Grid: runtime.Dim3{X: (n + 8191) / 8192}, Block: runtime.Dim3{X: 256}, Cooperative: true},
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
	for _, n := range []int{0, 1, 31, 4096, 100_003} {
		in, boxes, sum, all := make([]float64, n), make([]primitives.Box, n), 0.0, primitives.Union{}.Zero()
		for i := range in {
			in[i], boxes[i] = float64(rand.IntN(1000)), primitives.Box{Min: rand.Float32(), Max: rand.Float32(), Sum: rand.Uint64()}
			sum += in[i]
			all = primitives.Union{}.Combine(all, boxes[i])
		}
		one, box := onDevice(p, []float64{-1}, 0), onDevice(p, []primitives.Box{{}}, 0)
		require.NoError(t, kernels.Reduce[float64, block.Add[float64]]{}.Of(p.of("ReduceFloat64AddFloat64")).Launch(p.s, block.Add[float64]{}, one, onDevice(p, in, 1), nil))
		assert.Equal(t, sum, onHost(p, one)[0], n)
		require.NoError(t, kernels.Reduce[primitives.Box, primitives.Union]{}.Of(p.of("ReduceBoxUnion")).Launch(p.s, primitives.Union{}, box, onDevice(p, boxes, 0), nil))
		assert.Equal(t, all, onHost(p, box)[0], n)
	}
}

func TestSelectOfTheLibrary(t *testing.T) {
	p := openPrimitives(t)
	for _, n := range append(lengths(8192), 0) {
		in, boxes := make([]uint32, n), make([]primitives.Box, n/4)
		for i := range in {
			in[i] = rand.Uint32()
		}
		for i := range boxes {
			boxes[i] = primitives.Box{Min: 1, Max: float32(in[i] % 3), Sum: uint64(i)}
		}
		for _, bound := range []uint32{0, 1 << 30, math.MaxUint32} {
			out, count := onDevice(p, make([]uint32, n), 0), onDevice(p, []uint64{77}, 0)
			k := kernels.Select[uint32, primitives.Below]{}.Of(p.of("SelectUint32Below"))
			require.NoError(t, k.Launch(p.s, primitives.Below{Bound: bound}, out, onDevice(p, in, n%2), count, nil))
			want := slices.DeleteFunc(slices.Clone(in), func(v uint32) bool { return v >= bound })
			require.Equal(t, uint64(len(want)), onHost(p, count)[0], n)
			same(t, want, onHost(p, out)[:len(want)], n)
		}
		out, count := onDevice(p, make([]primitives.Box, len(boxes)), 0), onDevice(p, []uint64{77}, 0)
		k := kernels.Select[primitives.Box, primitives.Wide]{}.Of(p.of("SelectBoxWide"))
		require.NoError(t, k.Launch(p.s, primitives.Wide{}, out, onDevice(p, boxes, 0), count, nil))
		want := slices.DeleteFunc(slices.Clone(boxes), func(b primitives.Box) bool { return b.Max <= b.Min })
		require.Equal(t, uint64(len(want)), onHost(p, count)[0], n)
		same(t, want, onHost(p, out)[:len(want)], n)
	}
}

func sorted[K kernels.Key](p *primitivesIn, name string, value func() K) {
	p.t.Run("sort "+name, func(t *testing.T) {
		for _, n := range []int{0, 1, 1000, 5761, 30_000} {
			for _, few := range []bool{false, true} {
				in := make([]K, n)
				for i := range in {
					if in[i] = value(); few {
						in[i] = in[rand.IntN(min(i+1, 5))]
					}
				}
				x := onDevice(p, in, 1)
				k := kernels.Sort[K]{}.Of(p.of(name))
				require.NoError(t, k.Launch(p.s, x, x, nil))
				slices.Sort(in)
				same(t, in, onHost(p, x), n)
			}
		}
	})
}

func sortedPairs[K kernels.Key, V comparable](p *primitivesIn, name string, key func() K, value func(i int) V) {
	p.t.Run("sort "+name, func(t *testing.T) {
		for _, n := range []int{0, 1, 1000, 2689, 30_000} {
			keys, values, order := make([]K, n), make([]V, n), make([]int, n)
			for i := range keys {
				keys[i], values[i], order[i] = key(), value(i), i
			}
			outKeys, outValues := onDevice(p, make([]K, n), 0), onDevice(p, make([]V, n), 0)
			k := kernels.SortPairs[K, V]{}.Of(p.of(name))
			require.NoError(t, k.Launch(p.s, outKeys, onDevice(p, keys, 0), outValues, onDevice(p, values, 0), nil))
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
			wantKeys, wantValues := make([]K, n), make([]V, n)
			for i, from := range order {
				wantKeys[i], wantValues[i] = keys[from], values[from]
			}
			same(t, wantKeys, onHost(p, outKeys), n)
			same(t, wantValues, onHost(p, outValues), n)
		}
	})
}

func TestSortsOfTheLibrary(t *testing.T) {
	p := openPrimitives(t)
	sorted(p, "SortInt32", func() int32 { return int32(rand.Uint32()) })
	sorted(p, "SortFloat64", func() float64 { return rand.NormFloat64() * math.Exp(float64(rand.IntN(100))) })
	sortedPairs(p, "SortPairsFloat32Uint32", func() float32 { return float32(rand.IntN(100)) - 50.5 }, func(i int) uint32 { return uint32(i) })
	sortedPairs(p, "SortPairsUint64Box", func() uint64 { return rand.Uint64() & 0xff0000000000ff }, func(i int) primitives.Box { return primitives.Box{Sum: uint64(i)} })
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
	require.Error(t, err, "the arena gives no memory while the stream is captured")
	g, err := p.s.Capture(func(s *runtime.Stream) error { return k.Inclusive(s, add32{}, out, x, scratch) })
	require.NoError(t, err)
	defer g.Close()
	exec, err := g.Instantiate()
	require.NoError(t, err)
	defer exec.Close()
	want := make([]uint32, n)
	kernels.ScanCPU(add32{}, want, in)
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
		"ReduceBoxUnion 11, SelectUint32Below 12, SelectBoxWide 14, SortInt32 16, SortFloat64 19, SortPairsFloat32Uint32 22, SortPairsUint64Box 25, ScanInt64AddInt64 28", strings.Join(names, ", "))
	assert.EqualValues(t, 128, unsafe.Sizeof(primitives.Large{}))
}
