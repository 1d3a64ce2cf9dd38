// Package cub_test times the primitives of package kernels beside CUB.
package cub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/cub"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// The primitives of package kernels beside CUB, which nvcc compiles on the GPU host from testdata/cub.cu. Both sides make the
// same input, are timed as graphs of several calls, and have the same checksum of what comes out.

// primitivesFile is the module of testdata/cub for a GPU host.
const primitivesFile = "testdata/modules/cub_sm_90.json"

// made is what is known of the module.
type made struct {
	PTX     string
	Symbols []string
	First   map[string]int // of an instance
}

type bed struct {
	t    *testing.T
	s    *runtime.Stream
	k    *launch.Kernels
	m    made
	sum  *runtime.Ref[uint64]
	keep []interface{ Close() error }
}

func openBed(t *testing.T) *bed {
	b := &bed{t: t, m: made{First: map[string]int{}}}
	var options []runtime.Option
	if device.Hardware() {
		text, err := os.ReadFile(primitivesFile)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &b.m))
	} else {
		options = append(options, runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{})))
		p, err := compile.Load(compile.Config{Dir: "../testdata/cub", Pattern: "."})
		require.NoError(t, err)
		m, err := p.Compile(compile.Options{Arch: 90, Checks: compile.ChecksOff})
		require.NoError(t, err)
		b.m.PTX = m.PTX
		for _, k := range m.Kernels {
			b.m.Symbols = append(b.m.Symbols, k.Symbol())
		}
		for _, i := range p.Instances {
			b.m.First[i.Name] = i.First
		}
		if device.Writing() {
			text, err := json.Marshal(b.m)
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Dir(primitivesFile), 0o777))
			require.NoError(t, os.WriteFile(primitivesFile, text, 0o666))
		}
	}
	rt, err := runtime.Open(options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	backend, err := rt.Probe("primitives")
	require.NoError(t, err)
	b.s = backend.Stream
	module := &launch.Module{Images: []runtime.Image{{Arch: 90, Code: []byte(b.m.PTX)}}}
	module.Kernels = b.m.Symbols
	b.k, err = module.Load(backend.Context)
	require.NoError(t, err)
	b.sum, err = runtime.Alloc[uint64](b.s, 1)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.sum.Close()); assert.NoError(t, b.k.Close()) })
	return b
}

// of is a primitive of the module.
func of[P interface {
	Of(*launch.Kernels, int) P
}](b *bed, name string) (p P) {
	first, ok := b.m.First[name]
	require.True(b.t, ok, name)
	return p.Of(b.k, first)
}

// zeros are n elements.
func zeros[T any](b *bed, n int) *runtime.Ref[T] {
	r, err := runtime.Alloc[T](b.s, n)
	require.NoError(b.t, err)
	b.keep = append(b.keep, r)
	require.NoError(b.t, runtime.Zero(b.s, r))
	return r
}

// asWords is the same memory.
func asWords[T any](b *bed, r *runtime.Ref[T]) *runtime.Ref[uint32] {
	w, err := runtime.Cast[uint32](r)
	require.NoError(b.t, err)
	return w
}

func (b *bed) plain(name string, shape runtime.Shape, args ...runtime.Arg) {
	i := slices.Index(b.m.Symbols, name)
	require.GreaterOrEqual(b.t, i, 0)
	require.NoError(b.t, b.k.Launch(i, b.s, shape, args...))
}

// random is the input of a kind, see cub.Random.
func random[T any](b *bed, n int, kind uint32) *runtime.Ref[T] {
	r := zeros[T](b, n)
	w := asWords(b, r)
	b.plain("Random", runtime.Shape{Grid: runtime.Dim3{X: uint32(min(1024, (w.Len()+255)/256))}, Block: runtime.Dim3{X: 256}}, runtime.InOut(w), runtime.Value(w.Len()), runtime.Value(kind))
	return r
}

// checksum is that of the first elements.
func checksum[T any](b *bed, r *runtime.Ref[T], n uint64) uint64 {
	require.NoError(b.t, runtime.Zero(b.s, b.sum))
	if n > 0 {
		w := asWords(b, r.Slice(0, int(n)))
		b.plain("Checksum", runtime.Shape{Grid: runtime.Dim3{X: uint32(min(1024, (w.Len()+255)/256))}, Block: runtime.Dim3{X: 256}}, runtime.InOut(b.sum), runtime.Value(1), runtime.In(w), runtime.Value(w.Len()))
	}
	return oneWord(b, b.sum)
}

func oneWord(b *bed, r *runtime.Ref[uint64]) uint64 {
	var v [1]uint64
	require.NoError(b.t, runtime.Download(context.Background(), b.s, v[:], r))
	return v[0]
}

type (
	op  = func(s *runtime.Stream) error
	sum = func() uint64
)

// primitive is one of them.
type primitive struct {
	name string
	make func(b *bed, n int) (op, sum)
}

// primitives are what is timed: each makes its input, the call, and the checksum of what comes out.
var primitives = []primitive{
	{"scan_u32", func(b *bed, n int) (op, sum) {
		return scanning[uint32](b, "ScanUint32AddUint32", block.Add[uint32]{}, n, 0)
	}},
	{"scan_f32", func(b *bed, n int) (op, sum) {
		return scanning[float32](b, "ScanFloat32AddFloat32", block.Add[float32]{}, n, 1)
	}},
	{"scan_i64", func(b *bed, n int) (op, sum) {
		return scanning[int64](b, "ScanInt64AddInt64", block.Add[int64]{}, n, 0)
	}},
	{"scan_struct", func(b *bed, n int) (op, sum) { return scanning[cub.Box](b, "ScanBoxUnion", cub.Union{}, n, 1) }},
	{"reduce_u32", func(b *bed, n int) (op, sum) {
		return reducing[uint32](b, "ReduceUint32AddUint32", block.Add[uint32]{}, n, 0)
	}},
	{"reduce_i64", func(b *bed, n int) (op, sum) {
		return reducing[int64](b, "ReduceInt64AddInt64", block.Add[int64]{}, n, 0)
	}},
	{"reduce_struct", func(b *bed, n int) (op, sum) { return reducing[cub.Box](b, "ReduceBoxUnion", cub.Union{}, n, 1) }},
	{"select", func(b *bed, n int) (op, sum) {
		k := of[kernels.Select[uint32, cub.Below]](b, "SelectUint32Below")
		in, out, count, scratch := random[uint32](b, n, 0), zeros[uint32](b, n), zeros[uint64](b, 1), zeros[byte](b, k.Scratch(n))
		return func(s *runtime.Stream) error { return k.Launch(s, cub.Below{Bound: 1 << 31}, out, in, count, scratch) },
			func() uint64 { n := oneWord(b, count); return checksum(b, out, n) + n }
	}},
	{"partition", func(b *bed, n int) (op, sum) {
		k := of[kernels.Partition[uint32, cub.Below]](b, "PartitionUint32Below")
		in, out, rest, count, scratch := random[uint32](b, n, 0), zeros[uint32](b, n), zeros[uint32](b, n), zeros[uint64](b, 1), zeros[byte](b, k.Scratch(n))
		return func(s *runtime.Stream) error {
			return k.Launch(s, cub.Below{Bound: 1 << 31}, out, rest, in, count, scratch)
		}, func() uint64 { n := oneWord(b, count); return checksum(b, out, n) + n }
	}},
	{"sort_keys", func(b *bed, n int) (op, sum) {
		k := of[kernels.Sort[uint32]](b, "SortUint32")
		in, out, scratch := random[uint32](b, n, 0), zeros[uint32](b, n), zeros[byte](b, k.Scratch(n))
		return func(s *runtime.Stream) error { return k.Launch(s, out, in, scratch) }, func() uint64 { return checksum(b, out, uint64(n)) }
	}},
	{"sort_pairs", func(b *bed, n int) (op, sum) {
		k := of[kernels.SortPairs[uint32, uint32]](b, "SortPairsUint32Uint32")
		in, out, v, outV, scratch := random[uint32](b, n, 0), zeros[uint32](b, n), random[uint32](b, n, 2), zeros[uint32](b, n), zeros[byte](b, k.Scratch(n))
		return func(s *runtime.Stream) error { return k.Launch(s, out, in, outV, v, scratch) },
			func() uint64 { return checksum(b, out, uint64(n)) + 3*checksum(b, outV, uint64(n)) }
	}},
	{"unique", func(b *bed, n int) (op, sum) {
		k := of[kernels.Unique[uint32]](b, "UniqueUint32")
		in, out, count, scratch := random[uint32](b, n, 3), zeros[uint32](b, n), zeros[uint64](b, 1), zeros[byte](b, k.Scratch(n))
		return func(s *runtime.Stream) error { return k.Launch(s, out, in, count, scratch) },
			func() uint64 { n := oneWord(b, count); return checksum(b, out, n) + n }
	}},
	{"run_lengths", func(b *bed, n int) (op, sum) {
		k := of[kernels.RunLengths[uint32]](b, "RunLengthsUint32")
		in, out, long, count, scratch := random[uint32](b, n, 3), zeros[uint32](b, n), zeros[uint32](b, n), zeros[uint64](b, 1), zeros[byte](b, k.Scratch(n))
		return func(s *runtime.Stream) error { return k.Launch(s, out, long, in, count, scratch) },
			func() uint64 { n := oneWord(b, count); return checksum(b, out, n) + 3*checksum(b, long, n) + n }
	}},
	{"reduce_by_key", func(b *bed, n int) (op, sum) {
		k := of[kernels.ReduceByKey[uint32, uint32, block.Add[uint32]]](b, "ReduceByKeyUint32Uint32AddUint32")
		in, v, out, sums, count, scratch := random[uint32](b, n, 3), random[uint32](b, n, 0), zeros[uint32](b, n), zeros[uint32](b, n), zeros[uint64](b, 1), zeros[byte](b, k.Scratch(n))
		return func(s *runtime.Stream) error {
				return k.Launch(s, block.Add[uint32]{}, out, sums, in, v, count, scratch)
			},
			func() uint64 { n := oneWord(b, count); return checksum(b, out, n) + 3*checksum(b, sums, n) + n }
	}},
	{"histogram_u32", func(b *bed, n int) (op, sum) { return counting[uint32](b, "HistogramUint32", n, 0, 256, 0, 1<<31) }},
	{"histogram_f32", func(b *bed, n int) (op, sum) { return counting[float32](b, "HistogramFloat32", n, 1, 1000, -1.5, 1.5) }},
	{"merge_sort", func(b *bed, n int) (op, sum) {
		k := of[kernels.StableSort[uint32, cub.Up]](b, "StableSortUint32Up")
		in, out, scratch := random[uint32](b, n, 0), zeros[uint32](b, n), zeros[byte](b, k.Scratch(n))
		return func(s *runtime.Stream) error { return k.Launch(s, cub.Up{}, out, in, scratch) }, func() uint64 { return checksum(b, out, uint64(n)) }
	}},
	{"merge_struct", func(b *bed, n int) (op, sum) {
		k := of[kernels.StableSort[cub.Item, cub.ByKey]](b, "StableSortItemByKey")
		in, out, scratch := random[cub.Item](b, n, 0), zeros[cub.Item](b, n), zeros[byte](b, k.Scratch(n))
		return func(s *runtime.Stream) error { return k.Launch(s, cub.ByKey{}, out, in, scratch) }, func() uint64 { return checksum(b, out, uint64(n)) }
	}},
	{"segmented_reduce", func(b *bed, n int) (op, sum) {
		k := of[kernels.SegmentedReduce[uint32, block.Add[uint32]]](b, "SegmentedReduceUint32AddUint32")
		segments := n / 100
		in, out, offsets, scratch := random[uint32](b, n, 0), zeros[uint32](b, segments), random[uint64](b, segments+1, 4), zeros[byte](b, k.Scratch(segments))
		return func(s *runtime.Stream) error { return k.Launch(s, block.Add[uint32]{}, out, in, offsets, scratch) },
			func() uint64 { return checksum(b, out, uint64(segments)) }
	}},
	{"segmented_sort", func(b *bed, n int) (op, sum) {
		k := of[kernels.SegmentedSort[uint32, cub.Up]](b, "SegmentedSortUint32Up")
		segments := n / 100
		in, out, offsets, scratch := random[uint32](b, n, 0), zeros[uint32](b, n), random[uint64](b, segments+1, 4), zeros[byte](b, k.Scratch(n))
		return func(s *runtime.Stream) error { return k.Launch(s, cub.Up{}, out, in, offsets, 100, scratch) },
			func() uint64 { return checksum(b, out, uint64(segments*100)) }
	}},
	{"top_1000", func(b *bed, n int) (op, sum) {
		k := of[kernels.TopK[uint32]](b, "TopKUint32")
		in, out, scratch := random[uint32](b, n, 0), zeros[uint32](b, min(n, 1000)), zeros[byte](b, k.Scratch(n))
		return func(s *runtime.Stream) error { return k.Largest(s, out, nil, in, scratch) }, func() uint64 { return checksum(b, out, uint64(out.Len())) }
	}},
	{"search_1Mi", func(b *bed, n int) (op, sum) {
		k := of[kernels.Search[uint32, cub.Up]](b, "SearchUint32Up")
		sorted, what, out := random[uint32](b, n, 2), random[uint32](b, min(n, 1<<20), 0), zeros[uint64](b, min(n, 1<<20))
		return func(s *runtime.Stream) error { return k.Lower(s, cub.Up{}, out, sorted, what) }, func() uint64 { return checksum(b, out, uint64(out.Len())) }
	}},
}

func scanning[T any, O block.Op[T]](b *bed, name string, o O, n int, kind uint32) (op, sum) {
	k := of[kernels.Scan[T, O]](b, name)
	in, out, scratch := random[T](b, n, kind), zeros[T](b, n), zeros[byte](b, k.Scratch(n))
	return func(s *runtime.Stream) error { return k.Inclusive(s, o, out, in, scratch) }, func() uint64 { return checksum(b, out, uint64(n)) }
}

func reducing[T any, O block.Op[T]](b *bed, name string, o O, n int, kind uint32) (op, sum) {
	k := of[kernels.Reduce[T, O]](b, name)
	in, out, scratch := random[T](b, n, kind), zeros[T](b, 1), zeros[byte](b, k.Scratch(n))
	return func(s *runtime.Stream) error { return k.Launch(s, o, out, in, scratch) }, func() uint64 { return checksum(b, out, 1) }
}

func counting[T kernels.Sample](b *bed, name string, n int, kind uint32, bins int, low, high T) (op, sum) {
	k := of[kernels.Histogram[T]](b, name)
	in, counts := random[T](b, n, kind), zeros[uint64](b, bins)
	return func(s *runtime.Stream) error { return k.Launch(s, counts, in, low, high) }, func() uint64 { return checksum(b, counts, uint64(bins)) }
}

// time is the median of a call, in microseconds, as a graph of several.
func (b *bed) time(n int, call op) float64 {
	calls := 20
	switch {
	case !device.Hardware(), n > 100<<20:
		calls = 2
	case n > 2<<20:
		calls = 4
	}
	return device.Median(b.t, b.s, calls, func(s *runtime.Stream, _ int) error { return call(s) })
}

// run times a primitive, and gives its checksum.
func (b *bed) run(p primitive, n int) (us float64, check uint64) {
	defer func() {
		for _, r := range b.keep {
			assert.NoError(b.t, r.Close())
		}
		b.keep = nil
	}()
	call, sum := p.make(b, n)
	require.NoError(b.t, call(b.s), p.name)
	us = b.time(n, call)
	return us, sum()
}

// TestPrimitivesRepeat runs each call of the comparison on the simulated device: a replay of a graph gives what the first call gave.
func TestPrimitivesRepeat(t *testing.T) {
	if device.Hardware() {
		t.Skip("TestPrimitivesBesideCUB runs them")
	}
	b := openBed(t)
	for _, p := range primitives {
		const n = 3000
		call, sum := p.make(b, n)
		require.NoError(t, call(b.s), p.name)
		once := sum()
		_, again := b.run(p, n)
		assert.Equal(t, once, again, p.name)
	}
}

// cubVariable names a file for the figures.
const cubVariable = "PURECUDA_CUB_FIGURES"

// sizesVariable names other sizes than those that are timed else.
const sizesVariable = "PURECUDA_CUB_SIZES"

// onlyVariable names the primitives that are timed: all where it is not set.
const onlyVariable = "PURECUDA_CUB_ONLY"

// programsVariable names a folder with programs of testdata/cub.cu, which are not compiled again then.
const programsVariable = "PURECUDA_CUB_PROGRAMS"

// anchors compiles CUB on the GPU host, and gives the programs.
func anchors(t *testing.T) (programs []string) {
	if dir := os.Getenv(programsVariable); dir != "" {
		programs, err := filepath.Glob(filepath.Join(dir, "cub*"))
		require.NoError(t, err)
		require.NotEmpty(t, programs, "no program in %s", dir)
		return programs
	}
	nvcc := "/usr/local/cuda/bin/nvcc"
	if path, err := exec.LookPath("nvcc"); err == nil {
		nvcc = path
	} else if _, err := os.Stat(nvcc); err != nil {
		return nil
	}
	dir := t.TempDir()
	var all sync.WaitGroup
	const parts = 6
	out := make([]bytes.Buffer, parts)
	errs := make([]error, parts)
	for i := range parts {
		programs = append(programs, filepath.Join(dir, fmt.Sprint("cub", i+1)))
		all.Go(func() {
			c := exec.CommandContext(t.Context(), nvcc, "-O3", "-std=c++17", "-gencode", "arch=compute_90,code=sm_90", fmt.Sprint("-DPART=", i+1), "-o", programs[i], "testdata/cub.cu")
			c.Stdout, c.Stderr = &out[i], &out[i]
			errs[i] = c.Run()
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			text := out[i].String()
			fmt.Printf("part %d of CUB does not compile: %v\n%s\n", i+1, err, text[:min(len(text), 1500)])
			programs[i] = ""
		}
	}
	return programs
}

// TestPrimitivesBesideCUB prints CUB's time over ours for each primitive and size: more is faster than CUB. The results are equal.
func TestPrimitivesBesideCUB(t *testing.T) {
	hardware.Open(t)
	if !device.Hardware() {
		t.Skip(hardware.RequireVariable + " is not set, so that the kernels run on the simulated driver")
	}
	programs := anchors(t)
	if programs == nil {
		t.Skip("no nvcc: CUB cannot be compiled")
	}
	b := openBed(t)
	sizes := []int{64 << 10, 1 << 20, 16 << 20, 256 << 20}
	if text := os.Getenv(sizesVariable); text != "" {
		sizes = nil
		for _, s := range strings.Split(text, ",") {
			n, err := strconv.Atoi(s)
			require.NoError(t, err)
			sizes = append(sizes, n)
		}
	}
	wanted := primitives
	if text := os.Getenv(onlyVariable); text != "" {
		names := strings.Split(text, ",")
		wanted = slices.DeleteFunc(slices.Clone(primitives), func(p primitive) bool { return !slices.Contains(names, p.name) })
		require.Len(t, wanted, len(names), "%s has a name that is none of a primitive", onlyVariable)
	}
	figures := map[string]map[int][2]float64{}
	for _, n := range sizes {
		type line struct {
			us  float64
			sum uint64
		}
		theirs := map[string]line{}
		for _, p := range programs {
			if p == "" {
				continue
			}
			out, err := exec.CommandContext(t.Context(), p, fmt.Sprint(n)).CombinedOutput()
			if !assert.NoError(t, err, "%s", out) {
				continue
			}
			for text := range strings.Lines(string(out)) {
				var name string
				var size int
				var l line
				if k, _ := fmt.Sscanf(text, "%s %d %f %x", &name, &size, &l.us, &l.sum); k == 4 {
					theirs[name] = l
				}
			}
		}
		for _, p := range wanted {
			us, sum := b.run(p, n)
			of := figures[p.name]
			if of == nil {
				of = map[int][2]float64{}
				figures[p.name] = of
			}
			c, ok := theirs[p.name]
			of[n] = [2]float64{us, c.us}
			if ok {
				assert.Equal(t, c.sum, sum, "%s, %d elements", p.name, n)
			}
		}
	}
	fmt.Printf("%-17s", "CUB's time/ours")
	for _, n := range sizes {
		fmt.Printf(" %20d", n)
	}
	fmt.Println()
	for _, p := range wanted {
		fmt.Printf("%-17s", p.name)
		for _, n := range sizes {
			f := figures[p.name][n]
			ratio := math.NaN()
			if f[1] > 0 {
				ratio = f[1] / f[0]
			}
			fmt.Printf(" %5.2f (%9.1f us)", ratio, f[0])
		}
		fmt.Println()
	}
	if path := os.Getenv(cubVariable); path != "" {
		text, err := json.Marshal(figures)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o666))
	}
}
