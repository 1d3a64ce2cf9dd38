package curand_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/libs/curand"
	"github.com/purecuda/purecuda/libs/internal/beside"
	"github.com/purecuda/purecuda/runtime"
)

// baseline has the same calls in C.
var baseline = beside.Program{Name: "curand", Library: func() (string, error) {
	lib, err := curand.Open()
	return lib.Path(), err
}}

// BenchmarkHardware is what a call costs on the host (small) and how long the device makes numbers, beside C.
func BenchmarkHardware(b *testing.B) {
	const many = 1 << 26
	bench := real(b)
	g, s := bench.generator(curand.Options{Seed: 1234}), bench.s
	all, err := runtime.Alloc[float32](s, many)
	require.NoError(b, err)
	defer all.Close()
	few := all.Slice(0, 1024)
	defer few.Close()
	for _, c := range []beside.Call{
		{Name: "small", PerWait: 512, Do: func() error { return g.Uniform(few) }},
		{Name: "uniform2^26", PerWait: 8, Waiting: true, Do: func() error { return g.Uniform(all) }},
		{Name: "normal2^26", PerWait: 8, Waiting: true, Do: func() error { return g.Normal(all, 0, 1) }},
	} {
		baseline.Benchmark(b, s, c)
	}
}

// free is a cuRAND whose numbers cost nothing.
type free struct{ curand.API }

func (free) Generate(curand.RawGenerator, *curand.Call) curand.Status { return curand.StatusSuccess }

// BenchmarkOurShare is what this package and runtime add to a call of cuRAND, on the simulated driver.
func BenchmarkOurShare(b *testing.B) {
	bench, _, lib := simulated(b)
	bench.api = free{lib}
	g := bench.generator(curand.Options{})
	to, err := runtime.Alloc[float32](bench.s, 4)
	require.NoError(b, err)
	defer to.Close()
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Uniform(to); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCPU is how fast the CPU makes the numbers.
func BenchmarkCPU(b *testing.B) {
	to := make([]float32, 1<<16)
	c := cpu(b, curand.Options{})
	b.SetBytes(int64(4 * len(to)))
	for b.Loop() {
		c.Uniform(to)
	}
}
