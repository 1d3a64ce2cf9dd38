package drivertest

import (
	"fmt"
	goruntime "runtime"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/callsite"
)

// Finding is a mistake of the program under test: one that the real driver may
// answer with an error, with wrong data or with a crash.
type Finding struct {
	// Op is the function that was called, or whose work ran into the mistake.
	Op string
	// Result is what the program was told.
	Result driver.Result
	// Detail says what is wrong.
	Detail string
	// Addr and Bytes are the memory that was accessed; 0 where there is none.
	Addr  driver.DevicePtr
	Bytes uint64
	// Allocation is the memory that Addr lies in, behind or, if it is freed, lay in.
	Allocation string
	// Kernel, Block, Thread and Line (of the PTX) are where the device was, if its PTX
	// ran into the mistake: Kernel is empty and Line 0 otherwise.
	Kernel        string
	Block, Thread driver.Dim3
	Line          int
	// Where is the place of the call, "file.go:12", or its stack.
	Where string
}

func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Op, f.Detail)
	if f.Allocation != "" {
		fmt.Fprintf(&b, " (%s)", f.Allocation)
	}
	fmt.Fprintf(&b, ": %v", f.Result)
	if f.Where != "" {
		fmt.Fprintf(&b, ", called at %s", f.Where)
	}
	return b.String()
}

// Findings returns what was found so far, oldest first. At most 1000 are kept.
func (of *Driver) Findings() []Finding {
	d := of.simulated
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Finding(nil), d.findings...)
}

const maxFindings = 1000

func (d *simulated) report(f Finding) {
	if len(d.findings) < maxFindings {
		d.findings = append(d.findings, f)
	}
}

// found records a mistake in the arguments of a call.
func (c call) found(r driver.Result, format string, args ...any) {
	c.d.report(Finding{Op: c.op, Result: r, Detail: fmt.Sprintf(format, args...), Where: c.where()})
}

func (c call) where() string { return c.made.place(c.d.config.Stacks) }

// fault is an access to memory, or an end of a kernel, that the hardware does not
// let pass.
type fault struct {
	result     driver.Result
	detail     string
	addr       driver.DevicePtr
	bytes      uint64
	allocation string
	site       site // of a kernel in PTX
}

// finding is the fault of what a call put on the device.
func (f *fault) finding(c call) Finding {
	return Finding{Op: c.op, Result: f.result, Detail: f.detail, Addr: f.addr, Bytes: f.bytes, Allocation: f.allocation,
		Kernel: f.site.kernel, Block: f.site.block, Thread: f.site.thread, Line: f.site.line, Where: c.where()}
}

// site is the place in a kernel that a thread has reached.
type site struct {
	kernel        string
	block, thread driver.Dim3
	line          int
}

// text is the place in words, with the line of the image.
func (s site) text(img *image) string {
	text := fmt.Sprintf("kernel %s, block (%d,%d,%d), thread (%d,%d,%d), PTX line %d", s.kernel,
		s.block.X, s.block.Y, s.block.Z, s.thread.X, s.thread.Y, s.thread.Z, s.line)
	if s.line >= 1 && s.line <= len(img.lines) {
		line := strings.Join(strings.Fields(img.lines[s.line-1]), " ")
		text += fmt.Sprintf(" `%s`", line[:min(len(line), maxQuote)])
		text += source(img.lines[:s.line-1])
	}
	return text
}

// source is the line of the source that the last .loc of some lines of PTX names, where their function has one.
func source(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		words := strings.Fields(lines[i])
		switch {
		case len(words) > 2 && words[0] == ".loc":
			for _, l := range lines {
				if name, ok := strings.CutPrefix(strings.TrimSpace(l), ".file "+words[1]+" "); ok {
					return fmt.Sprintf(" of %s:%s", strings.Trim(name, `"`), words[2])
				}
			}
			return ""
		case len(words) > 0 && (words[0] == ".func" || words[0] == ".entry" || words[0] == ".visible"):
			return ""
		}
	}
	return ""
}

// maxQuote bounds a line that a finding quotes.
const maxQuote = 120

func (f *fault) Error() string {
	text := f.result.Name() + ": " + f.detail
	if f.allocation != "" {
		text += " (" + f.allocation + ")"
	}
	return text
}

// Unwrap makes errors.Is match the result.
func (f *fault) Unwrap() error { return f.result }

// misuse turns a fault into the answer of a call that checks its arguments.
func (c call) misuse(f *fault) driver.Result {
	c.d.report(Finding{Op: c.op, Result: driver.ResultInvalidValue, Detail: f.detail,
		Addr: f.addr, Bytes: f.bytes, Allocation: f.allocation, Where: c.where()})
	return driver.ResultInvalidValue
}

// origin is the call that made an object.
type origin struct {
	op  string
	pcs *[originDepth]uintptr
}

const originDepth = 40

// here is called by enter.
func here(op string) origin {
	o := origin{op: op, pcs: new([originDepth]uintptr)}
	callsite.Callers(3, o.pcs[:])
	return o
}

// ownFrames begins the names of this package's functions.
var ownFrames = callsite.Package("driver/drivertest")

// text is String, or the whole stack.
func (o origin) text(stack bool) string {
	if place := o.place(stack); place != "" {
		return o.op + " at " + place
	}
	return o.op
}

func (o origin) String() string { return o.text(false) }

// place is the file and line of the program's call, or its whole stack.
func (o origin) place(stack bool) string {
	switch {
	case o.pcs == nil:
		return ""
	case !stack:
		return callsite.Outside(o.pcs[:], ownFrames)
	}
	var lines []string
	frames := goruntime.CallersFrames(o.pcs[:])
	for {
		frame, more := frames.Next()
		if frame.PC != 0 && !strings.HasPrefix(frame.Function, ownFrames) {
			lines = append(lines, frame.Function+" "+callsite.Line(frame))
		}
		if !more {
			return strings.Join(lines, " < ")
		}
	}
}
