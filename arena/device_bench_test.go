package arena_test

import (
	goruntime "runtime"
	"testing"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
)

// benchGoroutines is how many goroutines the parallel benchmarks have at least.
const benchGoroutines = 16

// benchMachines runs a benchmark on the simulated driver, and on hardware where there is
// some. A hit does not call the driver: there, both measure the same.
func benchMachines(b *testing.B, run func(b *testing.B, m *machine)) {
	b.Run("on=simulated", func(b *testing.B) {
		run(b, newMachine(b, drivertest.New(drivertest.Config{})))
	})
	b.Run("on=hardware", func(b *testing.B) { run(b, newMachine(b, hardware.Open(b))) })
}

// BenchmarkAllocFree is the allocation and the free of a block that the stream has free,
// on one goroutine.
func BenchmarkAllocFree(b *testing.B) {
	benchMachines(b, func(b *testing.B, m *machine) {
		d := m.device(b, arena.DeviceConfig{})
		s := m.stream(b, d)
		for _, size := range []struct {
			name  string
			bytes uint64
		}{{"4KiB", 4 << 10}, {"1MiB", 1 << 20}, {"64MiB", 64 << 20}} {
			b.Run("size="+size.name, func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					if err := pair(s, size.bytes); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}

func pair(s *arena.Stream, bytes uint64) error {
	block, err := s.Alloc(bytes)
	if err != nil {
		return err
	}
	return s.Free(block)
}

// BenchmarkAllocFreeParallel is the same on 16 goroutines or more: each with its own
// stream, and all with the same one. ns/op is wall time for a pair; with p processors one
// pair takes p times as long, which is reported as ns/pair.
func BenchmarkAllocFreeParallel(b *testing.B) {
	benchMachines(b, func(b *testing.B, m *machine) {
		d := m.device(b, arena.DeviceConfig{})
		shared := m.stream(b, d)
		own := make(chan *arena.Stream, 1024)
		for range max(benchGoroutines, goruntime.NumCPU()) + goruntime.NumCPU() {
			own <- m.stream(b, d)
		}
		for _, streams := range []string{"own", "shared"} {
			b.Run("stream="+streams, func(b *testing.B) {
				b.ReportAllocs()
				procs := goruntime.GOMAXPROCS(0)
				b.SetParallelism((benchGoroutines + procs - 1) / procs)
				b.RunParallel(func(pb *testing.PB) {
					s := shared
					if streams == "own" {
						s = <-own
						defer func() { own <- s }()
					}
					for pb.Next() {
						if err := pair(s, 1<<20); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)*float64(procs), "ns/pair")
			})
		}
	})
}
