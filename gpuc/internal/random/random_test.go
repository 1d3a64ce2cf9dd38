package random

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	"github.com/purecuda/purecuda/gpuc/internal/generate"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/runtime"
)

// batch is how many kernels are one program of Go's compiler.
const batch = 50

// modes are how each kernel is compiled.
var modes = []compile.Options{{Arch: 75, Checks: compile.ChecksReport}, {Arch: 90, Checks: compile.ChecksOff, Plain: true}}

// made are the kernels of a batch, compiled, and what Go makes of them. On a GPU host, which has no Go, they come from
// testdata/random, where a run with PURECUDA_WRITE_MODULES=1 has put them.
type made struct {
	Outcomes []Outcome
	Modules  [][]device.Module // by kernel and mode; of a kernel that is too large none
	Sites    [][]string        // of the first mode
	Refused  []bool
}

// campaign is what the seeds share.
type campaign struct {
	t        *testing.T
	host     device.Host
	mu       sync.Mutex
	batches  map[uint64]*made
	tooLarge atomic.Int64 // kernels
	refused  atomic.Int64
	all      atomic.Int64
}

// TestRandomKernels compiles kernels that are written by chance with Go and with gpuc, and compares what they compute.
func TestRandomKernels(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // else the packages of each batch cost a third of the time
	c := &campaign{t: t, host: device.Backend(t), batches: map[uint64]*made{}}
	seeds.Run(t, 200, func(seed uint64) *program { return &program{c, seed} })
	if n := c.tooLarge.Load(); n > 0 {
		t.Logf("%d kernels were too large for gpuc", n)
	}
	refused, all := c.refused.Load(), c.all.Load()
	t.Logf("%d of %d kernels were refused, each with the name of a variable", refused, all)
	if all > 50 && (refused == 0 || refused > all*2/3) {
		t.Errorf("%d of %d kernels were refused: then they say nothing of what compiles", refused, all)
	}
}

// program is one seed.
type program struct {
	c    *campaign
	seed uint64
}

// Describe is the source of the kernel.
func (p *program) Describe() string { return New(p.seed, fmt.Sprint("K", p.seed%batch)).Source }

// Run runs the kernel in each mode.
func (p *program) Run() error {
	m, err := p.c.batch(p.seed / batch * batch)
	if err != nil {
		return err
	}
	if device.Writing() {
		return nil
	}
	i := int(p.seed % batch)
	k, name := New(p.seed, fmt.Sprint("K", i)), fmt.Sprint("K", i)
	p.c.all.Add(1)
	if len(m.Modules[i]) == 0 {
		if m.Refused[i] {
			p.c.refused.Add(1)
		} else {
			p.c.tooLarge.Add(1)
		}
		return nil
	}
	if want := m.Outcomes[i]; !slices.Equal(want.Result, want.Loops) {
		return fmt.Errorf("the loops on the CPU give %v; Go has %v", want.Loops, want.Result)
	}
	for mode, o := range modes {
		if err := p.c.compare(k, name, m.Modules[i][mode], m.Outcomes[i], m.Sites[i], o.Checks == compile.ChecksReport); err != nil {
			return fmt.Errorf("sm_%d, plain=%v: %w", o.Arch, o.Plain, err)
		}
	}
	return nil
}

// compare launches a kernel and compares.
func (c *campaign) compare(k Kernel, name string, m device.Module, want Outcome, sites []string, reports bool) error {
	d, err := c.host.Load(m)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	run := func(n int) (*Args, []uint64, error) {
		a := NewArgs(n)
		report, err := d.Run(name, k.Shape, a.Out, a.In, a.F, a.H, a.Recs, a.Quads, a.Sums, a.Counts, a.Singles, runtime.Struct(&a.P), a.N)
		return a, report, err
	}
	a, report, err := run(11)
	switch {
	case err != nil:
		return err
	case report[0] != 0:
		return fmt.Errorf("a check failed: %s, %v", sites[report[0]-1], report)
	}
	for i, sum := range a.Result() {
		switch {
		case sum == want.Result[i]:
		case i == Threads:
			return fmt.Errorf("the atomics give %v %v %v", a.Sums, a.Counts, a.Singles)
		case len(want.Out) == 0:
			return fmt.Errorf("thread %d has %#x", i, a.Out[i*Results:(i+1)*Results])
		default:
			return fmt.Errorf("thread %d has %#x, %+v; Go has %#x", i, a.Out[i*Results:(i+1)*Results], a.Recs[i], want.Out[i*Results:(i+1)*Results])
		}
	}
	if !k.Fails || !reports {
		return nil
	}
	if _, report, err = run(Fails); err != nil {
		return err
	}
	if got := failure(report, sites); got != place(want.Failed) {
		return fmt.Errorf("%q fails; Go has %q", got, want.Failed)
	}
	return nil
}

var failed = regexp.MustCompile(`^gpu: (main.go:\d+: )(runtime error: )?([a-z ]*).* (in block .*)$`)

// place is the part of an error that is the same on the CPU and in a report.
func place(text string) string { return failed.ReplaceAllString(text, "$1$3 $4") }

// failure is a report in the words of the CPU.
func failure(w []uint64, sites []string) string {
	if w[0] == 0 {
		return "nothing"
	}
	return place(fmt.Sprintf("gpu: %s in block %v, thread %v", sites[w[0]-1], gpu.Dim3{X: int(w[3]), Y: int(w[4]), Z: int(w[5])}, gpu.Dim3{X: int(w[6]), Y: int(w[7]), Z: int(w[8])}))
}

// batch returns the kernels from a seed on.
func (c *campaign) batch(first uint64) (*made, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.batches[first]; m != nil {
		return m, nil
	}
	if len(c.batches) > 3 { // of seeds that are done
		clear(c.batches)
	}
	file := filepath.Join("testdata", "random", fmt.Sprint(first))
	if device.Hardware() {
		m := &made{}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		z, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		c.batches[first] = m
		return m, gob.NewDecoder(z).Decode(m)
	}
	m, err := build(c.t, first)
	if err != nil {
		return nil, err
	}
	c.batches[first] = m
	if !device.Writing() {
		return m, nil
	}
	small := &made{slices.Clone(m.Outcomes), m.Modules, m.Sites, m.Refused}
	for i := range small.Outcomes {
		small.Outcomes[i].Out = nil // most of the file
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := errors.Join(gob.NewEncoder(z).Encode(small), z.Close(), os.MkdirAll(filepath.Dir(file), 0o777)); err != nil {
		return nil, err
	}
	return m, os.WriteFile(file, b.Bytes(), 0o666)
}

// names is what says why a kernel is refused.
var names = regexp.MustCompile(`: (.+) is read, and .+ may set it|: (\w+) is a variable, which .* sets|: (\w+) is an exported variable`)

// named is the variable for which a kernel is refused; empty where it is for something else.
func named(err error) string {
	m := names.FindStringSubmatch(strings.SplitN(err.Error(), "\n", 2)[0])
	if m == nil {
		return ""
	}
	if m[1] != "" {
		return m[1]
	}
	if name := m[2] + m[3]; slices.Contains(Refused, name) {
		return name
	}
	return ""
}

// build compiles a batch with gpuc, and then with Go, which runs it.
func build(t *testing.T, first uint64) (*made, error) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	dir := t.TempDir()
	defer func() { _ = os.RemoveAll(dir) }()
	write := func(name, text string) error {
		name = filepath.Join(dir, filepath.FromSlash(name))
		return errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666))
	}
	sums, err := os.ReadFile("../../go.sum")
	require.NoError(t, err)
	requires, err := os.ReadFile("../../../go.mod")
	require.NoError(t, err)
	mod := "module random\n\ngo 1.26.0\n\nrequire github.com/purecuda/purecuda v0.0.0\n\nrequire " + purego.FindString(string(requires)) + "\n\nreplace github.com/purecuda/purecuda => " + root + "\n"
	if err := errors.Join(write("go.mod", mod), write("go.sum", string(sums)), write("main.go", Program(first, batch)), write("other/other.go", otherPackage)); err != nil {
		return nil, err
	}
	p, err := compile.Load(compile.Config{Dir: dir, Pattern: "."})
	if err != nil {
		return nil, err
	}
	m := &made{Modules: make([][]device.Module, batch), Sites: make([][]string, batch), Refused: make([]bool, batch)}
	var kernels []*compile.Kernel
	var numbers []int
	large := 0
	for i := range batch {
		for mode, o := range modes {
			c, err := p.Compile(o, fmt.Sprint("K", i))
			if err != nil && strings.Contains(err.Error(), "becomes too large") && large < batch/10 {
				large++
				m.Modules[i] = nil
				break
			}
			if err != nil && named(err) != "" {
				m.Refused[i], m.Modules[i] = true, nil
				break
			}
			if err != nil {
				return nil, fmt.Errorf("seed %d: %w\n%s", first+uint64(i), err, New(first+uint64(i), fmt.Sprint("K", i)).Source)
			}
			m.Modules[i] = append(m.Modules[i], device.Of(c))
			if mode == 0 {
				m.Sites[i] = c.Sites
				kernels, numbers = append(kernels, c.Kernels...), append(numbers, i)
			}
		}
	}
	text, err := generate.Go(generate.Input{Package: p.Types, Program: p, Name: "kernels_gpu.go", Kernels: kernels})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(write("kernels_gpu.go", string(text)), write("loops.go", Loops(numbers))); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "-gcflags=random=-N", ".") // without Go's optimisations it builds faster
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, err
	}
	for list := json.NewDecoder(bytes.NewReader(out)); list.More(); {
		var o Outcome
		if err := list.Decode(&o); err != nil {
			return nil, err
		}
		m.Outcomes = append(m.Outcomes, o)
	}
	return m, nil
}

var purego = regexp.MustCompile(`github.com/ebitengine/purego v\S+`)

//go:embed testdata/other/other.go
var otherPackage string
