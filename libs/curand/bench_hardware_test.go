package curand_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/libs/curand"
	"github.com/purecuda/purecuda/runtime"
)

// baselineVariable names the program that scripts/baseline/curand.c is compiled to, for hosts without a compiler.
const baselineVariable = "PURECUDA_CURAND_BASELINE"

// baseline is what the calls cost in C, by name, or why that is not known. It runs once.
var baseline = sync.OnceValues(func() (times map[string]float64, why string) {
	program := os.Getenv(baselineVariable)
	if program == "" {
		dir, err := os.MkdirTemp("", "curand")
		if err != nil {
			return nil, err.Error()
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "curand")
		if out, err := exec.Command("cc", "-O2", "-o", program, "../../scripts/baseline/curand.c", "-ldl").CombinedOutput(); err != nil {
			return nil, "no baseline in C: " + err.Error() + string(out) + "; " + baselineVariable + " names a program that was built elsewhere"
		}
	}
	lib, err := curand.Open()
	if err != nil {
		return nil, err.Error()
	}
	cmd := exec.Command(program, lib.Path())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, "the baseline in C: " + err.Error()
	}
	times = map[string]float64{}
	for line := range strings.Lines(string(out)) {
		name, ns, _ := strings.Cut(strings.TrimSpace(line), " ")
		times[name], _ = strconv.ParseFloat(ns, 64)
	}
	return times, ""
})

// BenchmarkHardware is what a call costs on the host (small) and how fast the device makes numbers, beside C.
func BenchmarkHardware(b *testing.B) {
	const many = 1 << 26
	bench := real(b)
	g, s := bench.generator(curand.Options{Seed: 1234}), bench.s
	all, err := runtime.Alloc[float32](s, many)
	require.NoError(b, err)
	defer all.Close()
	few := all.Slice(0, 1024)
	defer few.Close()
	for _, c := range []struct {
		name    string
		perWait int
		waiting bool
		call    func() error
	}{
		{"small", 512, false, func() error { return g.Uniform(few) }},
		{"uniform2^26", 8, true, func() error { return g.Uniform(all) }},
		{"normal2^26", 8, true, func() error { return g.Normal(all, 0, 1) }},
	} {
		report := func(b *testing.B, ns float64) {
			b.ReportMetric(ns, "ns/op")
			if c.waiting {
				b.ReportMetric(4*many/ns, "GB/s")
			}
		}
		b.Run("call="+c.name+"/impl=go", func(b *testing.B) {
			b.ReportAllocs()
			for range c.perWait {
				require.NoError(b, c.call())
			}
			require.NoError(b, s.Synchronize(bg))
			var took time.Duration
			for left := b.N; left > 0; left -= c.perWait {
				start := time.Now()
				for range min(left, c.perWait) {
					if err := c.call(); err != nil {
						b.Fatal(err)
					}
				}
				enqueued := time.Since(start)
				require.NoError(b, s.Synchronize(bg))
				if c.waiting {
					enqueued = time.Since(start)
				}
				took += enqueued
			}
			report(b, float64(took.Nanoseconds())/float64(b.N))
		})
		b.Run("call="+c.name+"/impl=c", func(b *testing.B) {
			times, why := baseline()
			if times[c.name] == 0 {
				b.Skip("not measured in C: " + why)
			}
			report(b, times[c.name])
		})
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
