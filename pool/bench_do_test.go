package pool_test

import (
	goruntime "runtime"
	"testing"

	"github.com/purecuda/purecuda/pool"
)

// What a request costs by itself: no work, and no call of the driver.
func BenchmarkDoNothing(b *testing.B) {
	nothing := func(*pool.Worker) error { return nil }
	p, _ := open(b, machine(2))
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := p.Do(b.Context(), nothing); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("256 goroutines", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(max(256/goruntime.GOMAXPROCS(0), 1))
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := p.Do(b.Context(), nothing); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
