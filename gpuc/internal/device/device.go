// Package device launches compiled kernels on the simulated driver, for tests.
package device

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/runtime"
)

// Device is a simulated GPU with a loaded module; where PURECUDA_REQUIRE_GPU is set, a real one.
type Device struct {
	stream *runtime.Stream
	module *runtime.Module
	m      Module

	kernels map[string]*runtime.Kernel
}

// Module is what is needed of a compiled module.
type Module struct {
	PTX     string
	Reports map[string]bool // by kernel: whether its last parameter is the report
	Grids   map[string]bool // whether its blocks wait for each other
	Stack   int             // bytes that a thread needs for recursion, about
}

// Of takes what is needed from a module.
func Of(m *compile.Module) Module {
	r, grids, stack := map[string]bool{}, map[string]bool{}, 0
	for _, k := range m.Kernels {
		r[k.Name], grids[k.Name], stack = k.Report, k.Grid, max(stack, k.Stack)
	}
	return Module{m.PTX, r, grids, stack}
}

// Compile compiles kernels of a package that is loaded by load, all where none is named. On a GPU host the module lies in testdata/modules,
// where a run with [Writing] has put it.
func Compile(t testing.TB, load func() *compile.Program, name string, o compile.Options, kernels ...string) Module {
	t.Helper()
	file := fmt.Sprintf("testdata/modules/%s_%v_%s_%v.json", name, compile.Target{Arch: o.Arch, Only: o.Only}, o.Checks, o.Plain)
	var m Module
	if Hardware() {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &m))
		return m
	}
	compiled, err := load().Compile(o, kernels...)
	require.NoError(t, err)
	m = Of(compiled)
	if Writing() {
		text, err := json.Marshal(m)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o777))
		require.NoError(t, os.WriteFile(file, text, 0o666))
	}
	return m
}

// Hardware reports whether the tests run on a real device. Its host need not have Go: see [NeedsGo].
func Hardware() bool { return !slices.Contains([]string{"", "0"}, os.Getenv(hardware.RequireVariable)) }

// Writing reports whether the tests write what a GPU host needs of them.
func Writing() bool { return os.Getenv("PURECUDA_WRITE_MODULES") != "" }

// NeedsGo skips what a GPU host cannot do.
func NeedsGo(t testing.TB) {
	t.Helper()
	if Hardware() {
		t.Skip("needs Go, which a GPU host need not have")
	}
}

// Open loads a module on a device of its own.
func Open(t testing.TB, m Module) *Device {
	t.Helper()
	d, err := Backend(t).Load(m)
	require.NoError(t, err)
	return d
}

// Host is a device that loads modules.
type Host struct{ b *runtime.Backend }

// Backend opens a device.
func Backend(t testing.TB) Host {
	t.Helper()
	var options []runtime.Option
	if !Hardware() {
		options = append(options, runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{MaxSteps: 1 << 26})))
	}
	rt, err := runtime.Open(options...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rt.Close() })
	b, err := rt.Probe("test")
	require.NoError(t, err)
	return Host{b}
}

// Load loads a module.
func (h Host) Load(m Module) (*Device, error) { return load(h.b.Stream, m) }

func load(s *runtime.Stream, m Module) (*Device, error) {
	if err := s.Context().EnsureStackSize(uint64(m.Stack)); err != nil {
		return nil, err
	}
	module, err := s.Context().LoadModule(runtime.Image{Code: []byte(m.PTX)})
	if err != nil {
		return nil, err
	}
	return &Device{s, module, m, map[string]*runtime.Kernel{}}, nil
}

// Close unloads the module.
func (d *Device) Close() error { return d.module.Close() }

// Bytes is the memory of a slice.
func Bytes(slice any) []byte {
	v := reflect.ValueOf(slice)
	return unsafe.Slice((*byte)(v.UnsafePointer()), uintptr(v.Len())*v.Type().Elem().Size())
}

// Beside loads another module on the same stream.
func (d *Device) Beside(t testing.TB, m Module) *Device {
	t.Helper()
	beside, err := load(d.stream, m)
	require.NoError(t, err)
	return beside
}

// Args are arguments on the device.
type Args struct {
	list   []runtime.Arg
	report runtime.Arg
	slices map[int]onDevice // by argument; the report is after the last
	n      int
}

// onDevice is a slice, and where it is on the device.
type onDevice struct {
	ref    *runtime.Ref[byte]
	memory []byte
}

// Upload copies the slices among arguments to the device. Close frees them.
func (d *Device) Upload(args ...any) (*Args, error) {
	a := &Args{slices: map[int]onDevice{}, n: len(args)}
	for i, arg := range append(slices.Clone(args), make([]uint64, compile.ReportWords)) {
		data, tiles := sliceOf(arg)
		if !data.IsValid() {
			a.list = append(a.list, scalar(arg))
			continue
		}
		memory := Bytes(data.Interface())
		ref, err := runtime.Alloc[byte](d.stream, max(1, len(memory)))
		if err != nil {
			a.Close()
			return nil, err
		}
		a.slices[i] = onDevice{ref, memory}
		if err := d.Write(a, i); err != nil {
			a.Close()
			return nil, err
		}
		switch {
		case tiles:
			t, err := d.tiles(ref, reflect.ValueOf(arg))
			if err != nil {
				a.Close()
				return nil, err
			}
			a.list = append(a.list, t.InOut())
		case i == a.n:
			a.report = runtime.InOut(ref)
		default:
			a.list = append(a.list, runtime.InOut(ref), runtime.Value(int64(data.Len())))
		}
	}
	return a, nil
}

// sliceOf is a slice among the arguments, or that of a gpu.Tiles.
func sliceOf(arg any) (data reflect.Value, tiles bool) {
	v := reflect.ValueOf(arg)
	switch {
	case v.Kind() == reflect.Slice:
		return v, false
	case v.Kind() == reflect.Struct && strings.HasPrefix(v.Type().Name(), "Tiles["):
		return v.FieldByName("Data"), true
	}
	return reflect.Value{}, false
}

// tiles makes the tensor map of a gpu.Tiles.
func (d *Device) tiles(ref *runtime.Ref[byte], of reflect.Value) (*runtime.Tiles, error) {
	n := func(field string) int { return int(of.FieldByName(field).Int()) }
	shape := runtime.TilesShape{Rows: n("Rows"), Cols: n("Cols"), Pitch: n("Pitch"), Box: n("Box"), Matrices: n("Matrices"), Stride: n("Stride")}
	switch of.FieldByName("Data").Type().Elem().Size() {
	case 1:
		return runtime.NewTiles(d.stream.Context(), ref, shape)
	case 2:
		return tilesOf[uint16](d, ref, shape)
	case 4:
		return tilesOf[uint32](d, ref, shape)
	}
	return tilesOf[uint64](d, ref, shape)
}

func tilesOf[T any](d *Device, ref *runtime.Ref[byte], shape runtime.TilesShape) (*runtime.Tiles, error) {
	cast, err := runtime.Cast[T](ref)
	if err != nil {
		return nil, err
	}
	return runtime.NewTiles(d.stream.Context(), cast, shape)
}

// Write copies a slice among the arguments to the device once more, and Read copies it back.
func (d *Device) Write(a *Args, i int) error {
	m := a.slices[i]
	return runtime.Upload(context.Background(), d.stream, m.ref.Slice(0, len(m.memory)), m.memory)
}

// Read copies a slice among the arguments back.
func (d *Device) Read(a *Args, i int) error {
	m := a.slices[i]
	return runtime.Download(context.Background(), d.stream, m.memory, m.ref.Slice(0, len(m.memory)))
}

// Report returns the words of the report.
func (d *Device) Report(a *Args) (report []uint64, err error) {
	if err := d.Read(a, a.n); err != nil {
		return nil, err
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&a.slices[a.n].memory[0])), compile.ReportWords), nil
}

// Close frees what Upload has allocated.
func (a *Args) Close() {
	for _, m := range a.slices {
		_ = m.ref.Close()
	}
}

// Launch launches a kernel, and does not wait.
func (d *Device) Launch(name string, shape gpu.Shape, a *Args) error {
	reports, ok := d.m.Reports[name]
	if !ok {
		return fmt.Errorf("the module has no kernel %s", name)
	}
	list := a.list
	if reports {
		list = append(slices.Clone(list), a.report)
	}
	k := d.kernels[name]
	if k == nil {
		var err error
		if k, err = d.module.Kernel(name); err != nil {
			return err
		}
		d.kernels[name] = k
	}
	dim := func(d gpu.Dim3) runtime.Dim3 {
		return runtime.Dim3{X: uint32(d.X), Y: uint32(d.Y), Z: uint32(d.Z)}
	}
	return k.Launch(d.stream, runtime.Shape{Grid: dim(shape.Grid), Block: dim(shape.Block), SharedBytes: uint32(shape.SharedBytes), Cooperative: d.m.Grids[name]}, list...)
}

// Time is how long a launch takes on the device, of n launches one after the other.
func (d *Device) Time(n int, name string, shape gpu.Shape, a *Args) (time.Duration, error) {
	ctx := d.stream.Context()
	start, err := ctx.NewTimingEvent()
	if err != nil {
		return 0, err
	}
	defer func() { _ = start.Close() }()
	end, err := ctx.NewTimingEvent()
	if err != nil {
		return 0, err
	}
	defer func() { _ = end.Close() }()
	if err := start.Record(d.stream); err != nil {
		return 0, err
	}
	for range n {
		if err := d.Launch(name, shape, a); err != nil {
			return 0, err
		}
	}
	if err := end.Record(d.stream); err != nil {
		return 0, err
	}
	if err := end.Synchronize(context.Background()); err != nil {
		return 0, err
	}
	took, err := end.Since(start)
	return took / time.Duration(n), err
}

// Median is what each of so many calls takes on the device, in microseconds: the median of launches of their graph, after those that warm up. The
// simulated driver launches it twice.
func Median(t testing.TB, s *runtime.Stream, calls int, call func(s *runtime.Stream, i int) error) float64 {
	t.Helper()
	warm, runs := 3, 11
	if !Hardware() {
		warm, runs = 1, 1
	}
	g, err := s.Capture(func(s *runtime.Stream) error {
		for i := range calls {
			if err := call(s, i); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	defer func() { _ = g.Close() }()
	x, err := g.Instantiate()
	require.NoError(t, err)
	defer func() { _ = x.Close() }()
	start, err := s.Context().NewTimingEvent()
	require.NoError(t, err)
	defer func() { _ = start.Close() }()
	end, err := s.Context().NewTimingEvent()
	require.NoError(t, err)
	defer func() { _ = end.Close() }()
	var all []float64
	for range warm + runs {
		require.NoError(t, start.Record(s))
		require.NoError(t, x.Launch(s))
		require.NoError(t, end.Record(s))
		require.NoError(t, s.Synchronize(t.Context()))
		took, err := end.Since(start)
		require.NoError(t, err)
		all = append(all, float64(took)/float64(time.Microsecond)/float64(calls))
	}
	all = all[warm:]
	slices.Sort(all)
	return all[len(all)/2]
}

// Run launches a kernel. Slices among the arguments are copied to the device and back. It gives the words of the report.
func (d *Device) Run(name string, shape gpu.Shape, args ...any) (report []uint64, err error) {
	a, err := d.Upload(args...)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	if err := d.Launch(name, shape, a); err != nil {
		return nil, err
	}
	for i := range a.n {
		if _, ok := a.slices[i]; !ok {
			continue
		}
		if err := d.Read(a, i); err != nil {
			return nil, err
		}
	}
	return d.Report(a)
}

// scalar makes an argument of a number; an argument stays as it is.
func scalar(a any) runtime.Arg {
	switch a := a.(type) {
	case runtime.Arg:
		return a
	case bool:
		b := uint8(0)
		if a {
			b = 1
		}
		return runtime.Value(b)
	case int8:
		return runtime.Value(a)
	case int:
		return runtime.Value(a)
	case int32:
		return runtime.Value(a)
	case uint32:
		return runtime.Value(a)
	case int64:
		return runtime.Value(a)
	case uint64:
		return runtime.Value(a)
	case float32:
		return runtime.Value(a)
	case float64:
		return runtime.Value(a)
	}
	panic(fmt.Sprintf("an argument of type %T", a))
}

// Same launches a kernel and runs it on the CPU, and compares what is in the slices. cpu gets copies of the arguments.
func (d *Device) Same(t testing.TB, name string, shape gpu.Shape, cpu func(t *gpu.Thread, args []any), args ...any) {
	t.Helper()
	for _, difference := range d.Compare(name, shape, cpu, args...) {
		t.Errorf("%s: %s", name, difference)
	}
}

// Compare is Same for who wants to see the differences.
func (d *Device) Compare(name string, shape gpu.Shape, cpu func(t *gpu.Thread, args []any), args ...any) (differences []string) {
	own := make([]any, len(args))
	for i, a := range args {
		own[i] = a
		v, tiles := sliceOf(a)
		if !v.IsValid() {
			continue
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		if tiles {
			of := reflect.New(reflect.TypeOf(a)).Elem()
			of.Set(reflect.ValueOf(a))
			of.FieldByName("Data").Set(c)
			c = of
		}
		own[i] = c.Interface()
	}
	if err := gpu.Run(shape, func(th *gpu.Thread) { cpu(th, own) }); err != nil {
		return []string{err.Error()}
	}
	report, err := d.Run(name, shape, args...)
	if err != nil {
		return []string{err.Error()}
	}
	if report[0] != 0 {
		return []string{fmt.Sprintf("check %d failed: %v", report[0], report)}
	}
	for i, a := range args {
		v, _ := sliceOf(a)
		w, _ := sliceOf(own[i])
		if !v.IsValid() || bytes.Equal(Bytes(v.Interface()), Bytes(w.Interface())) {
			continue
		}
		for j := 0; j < v.Len() && len(differences) < 3; j++ {
			if got, want := v.Index(j).Interface(), w.Index(j).Interface(); !equal(got, want) {
				differences = append(differences, fmt.Sprintf("argument %d: [%d] is %v, the CPU has %v", i, j, got, want))
			}
		}
	}
	return differences
}

// equal compares bits, but a NaN is a NaN.
func equal(a, b any) bool {
	if a == b || reflect.DeepEqual(a, b) {
		return true
	}
	type half interface{ Float32() float32 }
	if x, ok := a.(half); ok {
		y := b.(half)
		return x.Float32() != x.Float32() && y.Float32() != y.Float32()
	}
	v, w := reflect.ValueOf(a), reflect.ValueOf(b)
	return v.CanFloat() && v.Float() != v.Float() && w.Float() != w.Float()
}
