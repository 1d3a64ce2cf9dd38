package cufft_test

import (
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

// BenchmarkOurShare is what this package and runtime add to a call of cuFFT, on the simulated driver.
func BenchmarkOurShare(b *testing.B) {
	_, gpu, lib := simulated(b)
	bench := on(b, gpu, free{lib})
	x := zeros(bench, 64)
	shape := cufft.Shape{N: []int{64}}
	b.ReportAllocs()
	for b.Loop() {
		if err := cufft.C2C(bench.h, cufft.Forward, shape, x, x); err != nil {
			b.Fatal(err)
		}
	}
}
