package doctor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// mark begins the lines in which a probe tells what it has found.
const mark = "smoke-probe: "

// Serve is the whole life of the child process: it runs the probe that is asked for and
// writes what it finds. When stdin ends, which means that the parent is gone, it ends the process and what a
// library has forked.
func Serve(ctx context.Context, request string, stdin io.Reader, stdout io.Writer) error {
	var r Request
	if err := json.Unmarshal([]byte(request), &r); err != nil {
		return fmt.Errorf("the request of a probe: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		killOwnGroup()
		os.Exit(1)
	}()
	var failed error
	Libraries{}.Run(ctx, r, func(f Finding) {
		line, err := json.Marshal(f)
		if err == nil {
			_, err = fmt.Fprintf(stdout, "\n%s%s\n", mark, line) // a line of its own, whatever a library has printed
		}
		if err != nil {
			failed = err
		}
	})
	return failed
}

// Prober runs a probe, and returns what it found. ended is how it ended before it was done:
// "was ended by SIGSEGV (segmentation violation), at cuInit".
type Prober func(ctx context.Context, r Request) (f Finding, ended string)

// InProcess is a prober without a child process: for simulated drivers.
func (l Libraries) InProcess(ctx context.Context, r Request) (f Finding, ended string) {
	l.Run(ctx, r, func(told Finding) { f = told })
	return f, ""
}

// Child runs each probe in a process of its own. What a library forks in it ends with the probe, unless it has
// left the process group, as a daemon does.
type Child struct {
	Program string // the executable, whose "doctor probe REQUEST" calls Serve
	Limit   time.Duration
	// Slow is called once in a probe that takes longer than SlowAfter; nil for none.
	Slow      func(doing string)
	SlowAfter time.Duration
}

// leaveAfter is how long a killed child may take to end. One that the kernel holds is left.
const leaveAfter = 2 * time.Second

// Probe is a [Prober].
func (c Child) Probe(ctx context.Context, r Request) (Finding, string) {
	request, err := json.Marshal(r)
	if err != nil {
		return Finding{}, err.Error()
	}
	cmd := exec.Command(c.Program, "doctor", "probe", string(request))
	// A traceback of Go says nothing about a library, and a core file is not wanted.
	cmd.Env = append(os.Environ(), "GOTRACEBACK=none")
	cmd.WaitDelay = leaveAfter
	ownGroup(cmd)
	told := &listener{}
	complaint := &head{}
	cmd.Stdout, cmd.Stderr = told, complaint
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return Finding{}, "could not be started: " + err.Error()
	}
	defer stdin.Close()
	defer killGroup(cmd)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	kill := func() {
		killGroup(cmd)
		select {
		case <-ended:
		case <-time.After(leaveAfter):
		}
	}
	limit, slow := time.NewTimer(c.Limit), time.NewTimer(c.SlowAfter)
	defer limit.Stop()
	defer slow.Stop()
	for {
		select {
		case err := <-ended:
			f := told.last()
			if told.done() {
				return f, "" // what it does after that is its own affair
			}
			return f, "was ended by " + how(complaint.String(), err) + in(f)
		case <-slow.C:
			if c.Slow != nil {
				c.Slow(told.last().Doing)
			}
		case <-limit.C:
			kill()
			f := told.last()
			return f, fmt.Sprintf("was ended after %v without an answer%s", c.Limit, in(f))
		case <-ctx.Done():
			kill()
			return told.last(), "was interrupted"
		}
	}
}

func in(f Finding) string {
	if f.Doing == "" {
		return ""
	}
	return ", at " + f.Doing
}

// faults are how the Go runtime tells of a signal that C code has caused.
var faults = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^\[signal (SIG[A-Z]+): ([a-z ]+?)(?: code=.*)?\]`),
	regexp.MustCompile(`(?m)^(SIG[A-Z]+): (.+)$`),
}

// how says how a child ended, from what it has written and from its status.
func how(stderr string, err error) string {
	for _, fault := range faults {
		if m := fault.FindStringSubmatch(stderr); m != nil {
			return fmt.Sprintf("%s (%s)", m[1], m[2])
		}
	}
	if err == nil {
		return "itself"
	}
	text := err.Error()
	if first, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n"); first != "" {
		text += ": " + first
	}
	return text
}

// listener takes what a probe tells. The last word counts.
type listener struct {
	mu      sync.Mutex
	pending []byte
	finding Finding
	heard   bool
}

func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, p...)
	for {
		line, rest, ok := bytes.Cut(l.pending, []byte("\n"))
		if !ok {
			if !bytes.HasPrefix(line, []byte(mark)) && len(line) > bufio.MaxScanTokenSize {
				l.pending = l.pending[:0] // a library that prints without end
			}
			return len(p), nil
		}
		if text, ours := bytes.CutPrefix(line, []byte(mark)); ours {
			var f Finding
			if json.Unmarshal(text, &f) == nil {
				l.finding, l.heard = f, true
			}
		}
		l.pending = rest
	}
}

func (l *listener) last() Finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.finding
}

// done reports whether the last word was the end.
func (l *listener) done() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard && l.finding.Doing == ""
}

// head keeps the beginning of what is written to it.
type head struct {
	mu   sync.Mutex
	text []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	const most = 64 << 10
	h.text = append(h.text, p[:min(len(p), most-len(h.text))]...)
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.text)
}
