package curand_test

import (
	"testing"
	"time"

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

// timed is a cuRAND that notes how long generating takes.
type timed struct {
	curand.API
	took time.Duration
}

func (l *timed) Generate(g curand.RawGenerator, c *curand.Call) curand.Status {
	defer func(from time.Time) { l.took += time.Since(from) }(time.Now())
	return l.API.Generate(g, c)
}

// BenchmarkHardwareInside is how much of a small call passes within cuRAND. The rest makes the context current, and is ours.
func BenchmarkHardwareInside(b *testing.B) {
	bench := real(b)
	lib := &timed{API: bench.api}
	bench.api = lib
	g := bench.generator(curand.Options{Seed: 1234})
	few, err := runtime.Alloc[float32](bench.s, 1024)
	require.NoError(b, err)
	defer few.Close()
	for left := b.N; left > 0; left -= 512 {
		for range min(left, 512) {
			if err := g.Uniform(few); err != nil {
				b.Fatal(err)
			}
		}
		require.NoError(b, bench.s.Synchronize(bg))
	}
	b.ReportMetric(float64(lib.took.Nanoseconds())/float64(b.N), "inside-ns/op")
}

// free is a cuRAND whose numbers cost nothing.
type free struct{ curand.API }

func (free) Generate(curand.RawGenerator, *curand.Call) curand.Status { return curand.StatusSuccess }

// ours are calls of cuRAND without cuRAND and without a driver.
func ours(t testing.TB) (*beside.Quiet, map[string]func() error) {
	_, gpu, lib := simulated(t)
	q := &beside.Quiet{API: gpu}
	b := on(t, q, free{lib})
	g := b.generator(curand.Options{})
	words, err := runtime.Alloc[uint32](b.s, 4)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, words.Close()) })
	floats, err := runtime.Cast[float32](words)
	require.NoError(t, err)
	doubles, err := runtime.Cast[float64](words)
	require.NoError(t, err)
	require.NoError(t, b.s.Synchronize(bg))
	return q, map[string]func() error{
		"Uint32":       func() error { return g.Uint32(words) },
		"Uniform":      func() error { return g.Uniform(floats) },
		"NormalDouble": func() error { return g.NormalDouble(doubles, 1, 2) },
		"Poisson":      func() error { return g.Poisson(words, 3) },
	}
}

// BenchmarkOurShare is what this package and runtime add to a call of cuRAND.
func BenchmarkOurShare(b *testing.B) {
	q, calls := ours(b)
	for name, call := range calls {
		b.Run(name, func(b *testing.B) { q.Benchmark(b, call) })
	}
}

func TestGeneratorsDoNotAllocate(t *testing.T) {
	q, calls := ours(t)
	for name, call := range calls {
		t.Run(name, func(t *testing.T) { q.NoAllocations(t, call) })
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
