// Package beside times calls of NVIDIA's libraries beside the same calls in C.
package beside

import (
	"sync"
	"testing"
	"time"

	"github.com/purecuda/purecuda/runtime"
)

// Program is scripts/baseline/NAME.c: see Run.
type Program struct {
	Name    string
	Library func() (path string, err error)

	once  sync.Once
	times map[string][2]float64
	why   string // it was not measured
}

// Call is a call on a stream.
type Call struct {
	Name    string // as in C
	Flops   float64
	PerWait int  // how many before the stream is waited for
	Waiting bool // with that in the time
	Do      func() error
}

// Benchmark times a call in Go and takes the time in C, and tells the ratio.
func (p *Program) Benchmark(b *testing.B, s *runtime.Stream, c Call) {
	var inGo float64
	report := func(b *testing.B, ns float64) {
		b.ReportMetric(ns, "ns/op")
		if c.Flops > 0 {
			b.ReportMetric(c.Flops/ns/1000, "TFLOP/s")
		}
	}
	b.Run("call="+c.Name+"/impl=go", func(b *testing.B) {
		b.ReportAllocs()
		for range c.PerWait {
			if err := c.Do(); err != nil {
				b.Skip(err)
			}
		}
		wait := func() {
			if err := s.Synchronize(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		wait()
		var took time.Duration
		for left := b.N; left > 0; left -= c.PerWait {
			start := time.Now()
			for range min(left, c.PerWait) {
				if err := c.Do(); err != nil {
					b.Fatal(err)
				}
			}
			enqueued := time.Since(start)
			wait()
			if c.Waiting {
				enqueued = time.Since(start)
			}
			took += enqueued
		}
		inGo = float64(took.Nanoseconds()) / float64(b.N)
		report(b, inGo)
	})
	b.Run("call="+c.Name+"/impl=c", func(b *testing.B) {
		p.once.Do(p.measure)
		if p.times[c.Name][0] == 0 {
			b.Skip("not measured in C: " + p.why)
		}
		report(b, p.times[c.Name][0])
		if inGo > 0 {
			b.ReportMetric(inGo/p.times[c.Name][0], "go/c")
		}
	})
}

// measure runs the program.
func (p *Program) measure() {
	library, err := p.Library()
	if err == nil {
		p.times, err = Run(p.Name, library)
	}
	if err != nil {
		p.why = err.Error()
	}
}
