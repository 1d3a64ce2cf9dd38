// Package beside times calls of NVIDIA's libraries beside the same calls in C.
package beside

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purecuda/purecuda/runtime"
)

// Program is scripts/baseline/NAME.c, which takes the file of the library and prints a line for each call: its name, and
// nanoseconds. For hosts without a compiler PURECUDA_NAME_BASELINE names the program that it was compiled to.
type Program struct {
	Name    string
	Library func() (path string, err error)

	once  sync.Once
	times map[string]float64
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
		if p.times[c.Name] == 0 {
			b.Skip("not measured in C: " + p.why)
		}
		report(b, p.times[c.Name])
		if inGo > 0 {
			b.ReportMetric(inGo/p.times[c.Name], "go/c")
		}
	})
}

// measure runs the program.
func (p *Program) measure() {
	variable := "PURECUDA_" + strings.ToUpper(p.Name) + "_BASELINE"
	program := os.Getenv(variable)
	if program == "" {
		dir, err := os.MkdirTemp("", p.Name)
		if err != nil {
			p.why = err.Error()
			return
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, p.Name)
		if out, err := exec.Command("cc", "-O2", "-o", program, "../../scripts/baseline/"+p.Name+".c", "-ldl").CombinedOutput(); err != nil {
			p.why = "no baseline in C: " + err.Error() + string(out) + "; " + variable + " names a program that was built elsewhere"
			return
		}
	}
	library, err := p.Library()
	if err != nil {
		p.why = err.Error()
		return
	}
	cmd := exec.Command(program, library)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		p.why = "the baseline in C: " + err.Error()
		return
	}
	p.times = map[string]float64{}
	for line := range strings.Lines(string(out)) {
		name, ns, _ := strings.Cut(strings.TrimSpace(line), " ")
		p.times[name], _ = strconv.ParseFloat(ns, 64)
	}
}
