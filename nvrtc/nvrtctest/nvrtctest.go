package nvrtctest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/nvrtc"
)

// Config says what the simulated NVRTC is like. The zero value is NVRTC 13.0.
type Config struct {
	// Version is 1000*major + 10*minor. The default is 13000.
	Version driver.Version
	// Archs are the supported architectures, ascending. The default is 75, 80, 86, 87,
	// 88, 89, 90, 100, 103, 110, 120, 121.
	Archs []int
	// Delay is how long a compile takes.
	Delay time.Duration
	// Missing are functions that it does not have, "nvrtcGetLTOIR". Without
	// "nvrtcSetFlowCallback", which versions before 12.8 lack anyway, a compile cannot be
	// cancelled.
	Missing []string
}

// Compiler is a simulated NVRTC. It implements [nvrtc.API].
type Compiler struct {
	config Config

	mu       sync.Mutex
	sources  map[string]outcome
	programs map[nvrtc.Handle]*program
	next     nvrtc.Handle
	compiles []Compile
	running  int
	most     int
}

var _ nvrtc.API = (*Compiler)(nil)

// outcome is what compiling a source gives.
type outcome struct {
	ptx, log string
	result   nvrtc.Result
}

type program struct {
	source, name string
	headers      []nvrtc.Header
	expressions  []string
	compiled     bool
	outcome
	options []string
}

// Compile is a call of nvrtcCompileProgram.
type Compile struct {
	Source, Name string
	Headers      []nvrtc.Header
	Options      []string
	Result       nvrtc.Result
}

// New makes a simulated NVRTC.
func New(config Config) *Compiler {
	if config.Version == 0 {
		config.Version = 13000
	}
	if config.Archs == nil {
		config.Archs = []int{75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121}
	}
	return &Compiler{config: config, sources: map[string]outcome{}, programs: map[nvrtc.Handle]*program{}}
}

// ForTest makes a simulated NVRTC. At the end of the test, programs that were not
// destroyed are errors of it.
func ForTest(tb testing.TB, config Config) *Compiler {
	c := New(config)
	tb.Cleanup(func() {
		if n := c.Programs(); n > 0 {
			tb.Errorf("nvrtctest: %d programs were not destroyed", n)
		}
	})
	return c
}

// Add makes a source compile to a PTX text. A source that was never added does not compile.
func (c *Compiler) Add(source, ptx string) { c.add(source, outcome{ptx: ptx}) }

// AddFailure makes a source fail with a log.
func (c *Compiler) AddFailure(source string, result nvrtc.Result, log string) {
	c.add(source, outcome{log: log, result: result})
}

func (c *Compiler) add(source string, o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources[source] = o
}

// Compiles are the compiles that have ended, in the order of their ends.
func (c *Compiler) Compiles() []Compile {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.compiles)
}

// MostAtOnce is how many compiles ran at the same time at most.
func (c *Compiler) MostAtOnce() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

// Programs is how many programs are not destroyed.
func (c *Compiler) Programs() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.programs)
}

func (c *Compiler) missing(function string) bool { return slices.Contains(c.config.Missing, function) }

// Version implements [nvrtc.API].
func (c *Compiler) Version() (driver.Version, nvrtc.Result) { return c.config.Version, nvrtc.Success }

// Build implements [nvrtc.API].
func (c *Compiler) Build() string { return "simulated" }

// SupportedArchs implements [nvrtc.API].
func (c *Compiler) SupportedArchs() ([]int, nvrtc.Result) {
	return slices.Clone(c.config.Archs), nvrtc.Success
}

// CreateProgram implements [nvrtc.API].
func (c *Compiler) CreateProgram(source, name string, headers []nvrtc.Header) (nvrtc.Handle, nvrtc.Result) {
	if strings.Contains(source+name, "\x00") {
		return 0, nvrtc.ResultInvalidInput
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	c.programs[c.next] = &program{source: source, name: name, headers: slices.Clone(headers)}
	return c.next, nvrtc.Success
}

// DestroyProgram implements [nvrtc.API].
func (c *Compiler) DestroyProgram(h nvrtc.Handle) nvrtc.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.programs[h] == nil {
		return nvrtc.ResultInvalidProgram
	}
	delete(c.programs, h)
	return nvrtc.Success
}

// AddNameExpression implements [nvrtc.API].
func (c *Compiler) AddNameExpression(h nvrtc.Handle, expression string) nvrtc.Result {
	return c.with(h, func(p *program) nvrtc.Result {
		if p.compiled {
			return nvrtc.ResultNoNameExpressionsAfterCompilation
		}
		p.expressions = append(p.expressions, expression)
		return nvrtc.Success
	})
}

// CompileProgram implements [nvrtc.API]. It asks stop every millisecond of the delay.
func (c *Compiler) CompileProgram(h nvrtc.Handle, options []string, stop func() bool) nvrtc.Result {
	if c.config.Version < 12080 || c.missing("nvrtcSetFlowCallback") {
		stop = nil
	}
	c.mu.Lock()
	p := c.programs[h]
	if p == nil {
		c.mu.Unlock()
		return nvrtc.ResultInvalidProgram
	}
	c.running++
	c.most = max(c.most, c.running)
	c.mu.Unlock()

	cancelled := c.wait(stop)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	p.compiled, p.options, p.outcome = true, slices.Clone(options), c.outcomeOf(p, options)
	if cancelled {
		p.outcome = outcome{result: nvrtc.ResultCancelled}
	}
	c.compiles = append(c.compiles, Compile{Source: p.source, Name: p.name, Headers: p.headers, Options: p.options, Result: p.result})
	return p.result
}

// wait passes the time of a compile, and reports whether it was cancelled.
func (c *Compiler) wait(stop func() bool) (cancelled bool) {
	for end := time.Now().Add(c.config.Delay); ; time.Sleep(min(time.Millisecond, time.Until(end))) {
		if stop != nil && stop() {
			return true
		}
		if !time.Now().Before(end) {
			return false
		}
	}
}

// outcomeOf is what compiling a program gives.
func (c *Compiler) outcomeOf(p *program, options []string) outcome {
	arch := 0
	for _, option := range options {
		value, ok := strings.CutPrefix(option, "--gpu-architecture=")
		if !ok {
			continue
		}
		value = strings.TrimPrefix(strings.TrimPrefix(value, "sm_"), "compute_")
		fmt.Sscanf(value, "%d", &arch)
	}
	if !slices.Contains(c.config.Archs, arch) {
		return outcome{result: nvrtc.ResultInvalidOption, log: "nvrtc: error: invalid value for --gpu-architecture (-arch)\n"}
	}
	o, ok := c.sources[p.source]
	if !ok {
		return outcome{result: nvrtc.ResultCompilation, log: p.name + "(1): error: nvrtctest does not know this source\n"}
	}
	return o
}

// with calls f with a program.
func (c *Compiler) with(h nvrtc.Handle, f func(p *program) nvrtc.Result) nvrtc.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.programs[h]
	if p == nil {
		return nvrtc.ResultInvalidProgram
	}
	return f(p)
}

// ProgramLog implements [nvrtc.API].
func (c *Compiler) ProgramLog(h nvrtc.Handle) (log string, r nvrtc.Result) {
	r = c.with(h, func(p *program) nvrtc.Result {
		log = p.log
		return nvrtc.Success
	})
	return log, r
}

// PTX implements [nvrtc.API].
func (c *Compiler) PTX(h nvrtc.Handle) ([]byte, nvrtc.Result) { return c.code(h, "nvrtcGetPTX") }

// CUBIN implements [nvrtc.API]. It gives the PTX, if the architecture was a real one.
func (c *Compiler) CUBIN(h nvrtc.Handle) ([]byte, nvrtc.Result) {
	return c.code(h, "nvrtcGetCUBIN")
}

// LTOIR implements [nvrtc.API]. It gives the PTX, if the program was compiled with -dlto.
func (c *Compiler) LTOIR(h nvrtc.Handle) ([]byte, nvrtc.Result) {
	return c.code(h, "nvrtcGetLTOIR")
}

// needed is the beginning of the option that each form of code needs.
var needed = map[string]string{
	"nvrtcGetPTX":   "",
	"nvrtcGetCUBIN": "--gpu-architecture=sm_",
	"nvrtcGetLTOIR": "-dlto",
}

func (c *Compiler) code(h nvrtc.Handle, function string) (code []byte, r nvrtc.Result) {
	if c.missing(function) {
		return nil, nvrtc.ResultSymbolMissing
	}
	r = c.with(h, func(p *program) nvrtc.Result {
		if !p.compiled || p.result != nvrtc.Success {
			return nvrtc.ResultInvalidProgram
		}
		if slices.ContainsFunc(p.options, func(o string) bool { return strings.HasPrefix(o, needed[function]) }) {
			code = []byte(p.ptx)
		}
		return nvrtc.Success
	})
	return code, r
}

// LoweredName implements [nvrtc.API]. It gives the expression with everything but letters,
// digits and underscores left out: the PTX of the test has to use such names.
func (c *Compiler) LoweredName(h nvrtc.Handle, expression string) (name string, r nvrtc.Result) {
	r = c.with(h, func(p *program) nvrtc.Result {
		if !p.compiled || p.result != nvrtc.Success {
			return nvrtc.ResultNoLoweredNamesBeforeCompilation
		}
		if !slices.Contains(p.expressions, expression) {
			return nvrtc.ResultNameExpressionNotValid
		}
		name = strings.Map(func(r rune) rune {
			if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
				return r
			}
			return -1
		}, expression)
		return nvrtc.Success
	})
	return name, r
}
