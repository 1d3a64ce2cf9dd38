package pool

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
)

// BreakEvenReport is what a [BreakEven] has measured.
type BreakEvenReport struct {
	Name    string
	Machine BreakEvenMachine
	When    time.Time
	// Kept is whether it comes from disk.
	Kept bool `json:"-"`
	// Points are what was measured, in the order of their sizes.
	Points []BreakEvenPoint
	// CPU and GPU are the lines through the points.
	CPU, GPU BreakEvenLine `json:"-"`
}

// BreakEvenMachine is what the times depend on.
type BreakEvenMachine struct {
	GPUs   string // "2 x NVIDIA H200 (9.0)"
	Driver string // "580.159.03, CUDA 13.0"
	CPU    string // "AMD EPYC 9554 64-Core Processor, GOMAXPROCS 16"
}

// BreakEvenPoint is what both sides took for a number of items; 0 where that was not measured.
type BreakEvenPoint struct {
	Items    int
	CPU, GPU time.Duration
}

// BreakEvenLine is the time of n items: Start + n*Item.
type BreakEvenLine struct {
	Start time.Duration
	Item  float64 // nanoseconds
}

// At is the time of n items.
func (l BreakEvenLine) At(n int) time.Duration {
	ns := float64(l.Start) + l.Item*float64(n)
	return time.Duration(min(ns, math.MaxInt64/2))
}

func (l BreakEvenLine) String() string {
	return fmt.Sprintf("%v + %v an item", threeDigits(l.Start), threeDigits(time.Duration(l.Item*1e3))/1e3)
}

func (r *BreakEvenReport) line(where Where) BreakEvenLine {
	if where == OnGPU {
		return r.GPU
	}
	return r.CPU
}

// wins tells whether the GPU is worth it for n items.
func (r *BreakEvenReport) wins(n int) bool {
	return float64(r.GPU.Start)+r.GPU.Item*float64(n) <= advantage*(float64(r.CPU.Start)+r.CPU.Item*float64(n))
}

// Size is the number of items from which on the GPUs win. It is false if there is none.
func (r *BreakEvenReport) Size() (items int, ok bool) {
	r = zero.Or(r)
	head := float64(r.GPU.Start) - advantage*float64(r.CPU.Start) // what the GPU is behind at the start
	gain := advantage*r.CPU.Item - r.GPU.Item                     // and what it makes good with each item
	if len(r.Points) > 0 && head <= 0 && gain >= 0 {
		return 1, true
	}
	n := math.Ceil(head / gain)
	if !(gain > 0) || n > math.MaxInt/2 {
		return 0, false
	}
	for items = max(int(n), 1); !r.wins(items); items++ { // the quotient may be a little too small
	}
	return items, true
}

// String is a table of the points and the size.
func (r *BreakEvenReport) String() string {
	r = zero.Or(r)
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s, driver %s; %s\n", r.Name, r.Machine.GPUs, r.Machine.Driver, r.Machine.CPU)
	table := tabwriter.NewWriter(&b, 10, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "items\tCPU\tGPU\tGPU is\t\n")
	for _, p := range r.Points {
		faster := ""
		if p.CPU > 0 && p.GPU > 0 {
			faster = fmt.Sprintf("%.3gx", float64(p.CPU)/float64(p.GPU))
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t\n", p.Items, cell(p.CPU), cell(p.GPU), faster)
	}
	_ = table.Flush() // a Builder takes all
	fmt.Fprintf(&b, "CPU: %v, GPU: %v\n", r.CPU, r.GPU)
	if n, ok := r.Size(); ok {
		fmt.Fprintf(&b, "the GPU wins from %d items on", n)
	} else {
		b.WriteString("there is no size from which on the GPU wins")
	}
	from := "measured"
	if r.Kept {
		from = "kept on disk since"
	}
	fmt.Fprintf(&b, " (%s %s)", from, r.When.UTC().Format(time.DateTime))
	return b.String()
}

func cell(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return threeDigits(d).String()
}

// threeDigits rounds to three digits.
func threeDigits(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// fit lays the lines through the points. An error counts relative to the time, since times
// span orders of magnitude. Neither part of a line is negative.
func (r *BreakEvenReport) fit() error {
	lines := [2]*BreakEvenLine{&r.CPU, &r.GPU}
	for i, l := range lines {
		// Sums with weights of 1/t^2: of 1, n, n^2, t and nt.
		var s, sn, snn, st, snt float64
		least := math.Inf(1)
		for _, p := range r.Points {
			n, t := float64(p.Items), float64([2]time.Duration{p.CPU, p.GPU}[i])
			if t == 0 {
				continue
			}
			w := 1 / (t * t)
			s, sn, snn, st, snt = s+w, sn+w*n, snn+w*n*n, st+w*t, snt+w*n*t
			least = min(least, t)
		}
		if s == 0 {
			return driver.Errorf(driver.ErrInvalidArgument, "a break-even needs a point of each side")
		}
		start, item := 0.0, snt/snn // of one point, or where the start would be negative
		if det := s*snn - sn*sn; det > 1e-12*s*snn {
			start, item = (st*snn-snt*sn)/det, (s*snt-sn*st)/det
		}
		switch {
		case start < 0:
			start, item = 0, snt/snn
		case item < 0:
			start, item = st/s, 0
		}
		l.Start, l.Item = time.Duration(start), item
		if l.Start == 0 && l.Item == 0 {
			l.Start = time.Duration(max(least, 1))
		}
	}
	return nil
}
