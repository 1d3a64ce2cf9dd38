package pool

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
)

// BreakEvenReport is what a [BreakEven] has measured.
type BreakEvenReport struct {
	Name    string
	Machine string // what the times depend on: "2 x NVIDIA H200 (9.0), driver 580.159.03, CUDA 13.0; AMD EPYC 9554 64-Core Processor, GOMAXPROCS 16"
	When    time.Time
	// Kept is whether it comes from disk.
	Kept bool `json:"-"`
	// Points are what was measured, in the order of their sizes.
	Points []BreakEvenPoint

	size int // see Size; 0 if there is none
}

// BreakEvenPoint is what both sides took for a number of items; 0 where that was not measured.
type BreakEvenPoint struct {
	Items    int
	CPU, GPU time.Duration
}

// took is the time of a side, or 0.
func (p *BreakEvenPoint) took(where Place) time.Duration {
	if where == OnGPU {
		return p.GPU
	}
	return p.CPU
}

// at is what a side takes for n items: on the line between the points beside n, or through the last two.
// It is 0 if there is no point.
func (r *BreakEvenReport) at(where Place, n int) time.Duration {
	var items, before int
	var took, tookBefore time.Duration
	for _, p := range r.Points {
		if p.took(where) == 0 {
			continue
		}
		before, tookBefore = items, took
		if items, took = p.Items, p.took(where); items >= n {
			break
		}
	}
	item := float64(max(took-tookBefore, 0)) / float64(max(items-before, 1))
	return time.Duration(min(float64(took)+item*float64(n-items), math.MaxInt64/2))
}

// settle finds the size: the smallest point from which on the GPUs win at all points.
func (r *BreakEvenReport) settle() error {
	if r.at(OnCPU, math.MaxInt) == 0 || r.at(OnGPU, math.MaxInt) == 0 {
		return driver.Errorf(driver.ErrInvalidArgument, "a break-even needs a point of each side")
	}
	r.size = 0
	for _, p := range slices.Backward(r.Points) {
		if float64(r.at(OnGPU, p.Items)) > advantage*float64(r.at(OnCPU, p.Items)) {
			break
		}
		r.size = p.Items
	}
	return nil
}

// between is a number of items between the largest point below the size and the size, or 0 if they are as near
// as the size has to be known.
func (r *BreakEvenReport) between() int {
	below := 0
	for _, p := range r.Points {
		if p.Items < r.size {
			below = p.Items
		}
	}
	if below == 0 || r.size-below <= max(r.size/precision, 1) {
		return 0
	}
	return below + (r.size-below)/2
}

// wins tells whether the GPU is worth it for n items.
func (r *BreakEvenReport) wins(n int) bool { return r.size > 0 && n >= r.size }

// Size is the number of items from which on the GPUs win, at all larger numbers that were measured. It is
// false if there is none.
func (r *BreakEvenReport) Size() (items int, ok bool) {
	r = zero.Or(r)
	return r.size, r.size > 0
}

// String is a table of the points and the size.
func (r *BreakEvenReport) String() string {
	r = zero.Or(r)
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s\n", r.Name, r.Machine)
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
	if n, ok := r.Size(); ok {
		fmt.Fprintf(&b, "the GPU wins from %d items on", n)
	} else {
		b.WriteString("the GPU does not win")
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
