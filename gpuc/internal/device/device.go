// Package device launches compiled kernels on the simulated driver, for tests.
package device

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/runtime"
)

// Device is a simulated GPU with a loaded module; where PURECUDA_REQUIRE_GPU is set, a real one.
type Device struct {
	stream *runtime.Stream
	module *runtime.Module
	m      Module
}

// Module is what is needed of a compiled module.
type Module struct {
	PTX     string
	Reports map[string]bool // by kernel: whether its last parameter is the report
}

// Of takes what is needed from a module.
func Of(m *compile.Module) Module {
	r := map[string]bool{}
	for _, k := range m.Kernels {
		r[k.Name] = k.Report
	}
	return Module{m.PTX, r}
}

// Compile compiles the kernels of a package that is loaded by load. In the bundle for GPU hosts there is no Go: there
// the module lies in testdata/modules, where a run with PURECUDA_WRITE_MODULES=1 has put it.
func Compile(t testing.TB, load func() *compile.Program, name string, o compile.Options) Module {
	t.Helper()
	file := fmt.Sprintf("testdata/modules/%s_sm_%d_%s_%v.json", name, o.Arch, o.Checks, o.Plain)
	var m Module
	if text, err := os.ReadFile(file); err == nil && hardware() {
		require.NoError(t, json.Unmarshal(text, &m))
		return m
	}
	compiled, err := load().Compile(o)
	require.NoError(t, err)
	m = Of(compiled)
	if os.Getenv("PURECUDA_WRITE_MODULES") != "" {
		text, err := json.Marshal(m)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll("testdata/modules", 0o777))
		require.NoError(t, os.WriteFile(file, text, 0o666))
	}
	return m
}

// hardware tells whether the tests are to run on a real device.
func hardware() bool { return os.Getenv("PURECUDA_REQUIRE_GPU") != "" }

// Open loads a module.
func Open(t testing.TB, m Module) *Device {
	t.Helper()
	var options []runtime.Option
	if !hardware() {
		options = append(options, runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{MaxSteps: 1 << 24})))
	}
	rt, err := runtime.Open(options...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rt.Close() })
	b, err := rt.Probe("test")
	require.NoError(t, err)
	module, err := b.Context.LoadModule(runtime.Image{Code: []byte(m.PTX)})
	require.NoError(t, err)
	return &Device{b.Stream, module, m}
}

// Bytes is the memory of a slice.
func Bytes(slice any) []byte {
	v := reflect.ValueOf(slice)
	return unsafe.Slice((*byte)(v.UnsafePointer()), uintptr(v.Len())*v.Type().Elem().Size())
}

// Run launches a kernel. Slices among the arguments are copied to the device and back. It gives the words of the report.
func (d *Device) Run(name string, shape gpu.Shape, args ...any) (report []uint64, err error) {
	reports, ok := d.m.Reports[name]
	if !ok {
		return nil, fmt.Errorf("the module has no kernel %s", name)
	}
	report = make([]uint64, compile.ReportWords)
	if reports {
		args = append(slices.Clone(args), report)
	}
	ctx := context.Background()
	var list []runtime.Arg
	type pair struct {
		ref *runtime.Ref[byte]
		to  []byte
	}
	var back []pair
	defer func() {
		for _, p := range back {
			_ = p.ref.Close()
		}
	}()
	for n, a := range args {
		if reflect.TypeOf(a).Kind() != reflect.Slice {
			list = append(list, scalar(a))
			continue
		}
		memory := Bytes(a)
		ref, err := runtime.Alloc[byte](d.stream, max(1, len(memory)))
		if err != nil {
			return nil, err
		}
		back = append(back, pair{ref, memory})
		if err := runtime.Upload(ctx, d.stream, ref.Slice(0, len(memory)), memory); err != nil {
			return nil, err
		}
		list = append(list, runtime.InOut(ref))
		if n < len(args)-1 || !reports {
			list = append(list, runtime.Value(int64(reflect.ValueOf(a).Len())))
		}
	}
	k, err := d.module.Kernel(name)
	if err != nil {
		return nil, err
	}
	dim := func(d gpu.Dim3) runtime.Dim3 {
		return runtime.Dim3{X: uint32(d.X), Y: uint32(d.Y), Z: uint32(d.Z)}
	}
	if err := k.Launch(d.stream, runtime.LaunchConfig{Grid: dim(shape.Grid), Block: dim(shape.Block), SharedBytes: uint32(shape.SharedBytes)}, list...); err != nil {
		return nil, err
	}
	for _, p := range back {
		if err := runtime.Download(ctx, d.stream, p.to, p.ref.Slice(0, len(p.to))); err != nil {
			return nil, err
		}
	}
	return report, nil
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
		if v := reflect.ValueOf(a); v.Kind() == reflect.Slice {
			c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(c, v)
			own[i] = c.Interface()
		}
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
		v := reflect.ValueOf(a)
		if v.Kind() != reflect.Slice || bytes.Equal(Bytes(a), Bytes(own[i])) {
			continue
		}
		w := reflect.ValueOf(own[i])
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
	v, w := reflect.ValueOf(a), reflect.ValueOf(b)
	return v.CanFloat() && v.Float() != v.Float() && w.Float() != w.Float()
}
