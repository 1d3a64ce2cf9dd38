package cufft_test

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/cufft"
	"github.com/purecuda/purecuda/libs/internal/beside"
	"github.com/purecuda/purecuda/runtime"
)

// baseline has the same calls in C.
var baseline = beside.Program{Name: "cufft", Library: func() (string, error) {
	lib, err := cufft.Open()
	return lib.Path(), err
}}

// BenchmarkHardware is what a call costs on the host (small) and how long the device transforms, beside C.
func BenchmarkHardware(b *testing.B) {
	bench, _ := onHardware(b)
	in, out := zeros(bench, 1<<24), zeros(bench, 1<<24)
	call := func(n, batch int) func() error {
		shape := cufft.Shape{N: []int{n}, Batch: batch}
		return func() error { return cufft.C2C(bench.h, cufft.Forward, shape, in, out) }
	}
	for _, c := range []beside.Call{
		{Name: "small", PerWait: 512, Do: call(64, 1)},
		{Name: "c2c-1x16777216", Flops: 5 * 24 << 24, PerWait: 8, Waiting: true, Do: call(1<<24, 1)},
		{Name: "c2c-1024x4096", Flops: 5 * 12 << 22, PerWait: 64, Waiting: true, Do: call(4096, 1024)},
	} {
		baseline.Benchmark(b, bench.s, c)
	}
}

// BenchmarkHardwareScale is what Shape.Scale costs.
func BenchmarkHardwareScale(b *testing.B) {
	bench, _ := onHardware(b)
	in, out := zeros(bench, 1<<24), zeros(bench, 1<<24)
	for _, scale := range []bool{false, true} {
		b.Run(fmt.Sprint("scale=", scale), func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, cufft.C2C(bench.h, cufft.Inverse, cufft.Shape{N: []int{1 << 24}, Scale: scale}, in, out))
				require.NoError(b, bench.s.Synchronize(bg))
			}
		})
	}
}

// BenchmarkHardwareNewPlan is how long a new plan takes, each time of another shape. The first of a process takes the longest.
func BenchmarkHardwareNewPlan(b *testing.B) {
	bench, _ := onHardware(b)
	n := 1 << 16
	for b.Loop() {
		require.NoError(b, bench.h.Prepare(cufft.TypeC2C, cufft.Shape{N: []int{n}}))
		n++
	}
}

func zeros(b bench, n int) *runtime.Ref[complex64] {
	b.Helper()
	ref, err := runtime.Alloc[complex64](b.s, n)
	require.NoError(b, err)
	require.NoError(b, runtime.Zero(b.s, ref))
	b.Cleanup(func() { require.NoError(b, ref.Close()) })
	return ref
}

// free is a cuFFT whose transforms cost nothing.
type free struct{ cufft.API }

func (free) Exec(cufft.RawPlan, cufft.Type, cufft.Direction, driver.DevicePtr, driver.DevicePtr) cufft.Status {
	return cufft.StatusSuccess
}

// ours are calls of cuFFT without cuFFT and without a driver.
func ours(t testing.TB) (*beside.Quiet, map[string]func() error) {
	_, gpu, lib := simulated(t)
	q := &beside.Quiet{API: gpu}
	b := on(t, q, free{lib})
	x, y := zeros(b, 4096), zeros(b, 4096)
	reals, err := runtime.Cast[float32](x)
	require.NoError(t, err)
	double, err := runtime.Cast[complex128](x)
	require.NoError(t, err)
	space := cufft.Shape{N: []int{4, 6, 8}, Batch: 3, Out: cufft.Padded(4, 6, 8)}
	calls := map[string]func() error{
		"C2C": func() error { return cufft.C2C(b.h, cufft.Forward, cufft.Shape{N: []int{64}}, x, y) },
		"C2R": func() error { return cufft.C2R(b.h, space, x, reals) },
		"two shapes": func() error {
			return cmp.Or(cufft.C2C(b.h, cufft.Forward, cufft.Shape{N: []int{64}}, x, y), cufft.C2C(b.h, cufft.Forward, cufft.Shape{N: []int{32}}, x, y))
		},
		"Z2Z": func() error {
			return cufft.Z2Z(b.h, cufft.Inverse, cufft.Shape{N: []int{8, 9}, Batch: 2}, double, double)
		},
	}
	for _, call := range calls { // which makes the plan
		require.NoError(t, call())
	}
	require.NoError(t, b.s.Synchronize(bg))
	return q, calls
}

// BenchmarkOurShare is what this package and runtime add to a call of cuFFT.
func BenchmarkOurShare(b *testing.B) {
	q, calls := ours(b)
	for name, call := range calls {
		b.Run(name, func(b *testing.B) { q.Benchmark(b, call) })
	}
}

func TestTransformsDoNotAllocate(t *testing.T) {
	q, calls := ours(t)
	for name, call := range calls {
		t.Run(name, func(t *testing.T) { q.NoAllocations(t, call) })
	}
}
