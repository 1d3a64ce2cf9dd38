package nvrtc

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/purecuda/purecuda/driver"
)

// failed is the error of a function of NVRTC that has nothing to say about a program.
func failed(api API, op string, r Result) error {
	kind := driver.ErrDriverCallFailed
	if r == ResultSymbolMissing {
		kind = driver.ErrUnsupported
	}
	e := driver.Errorf(kind, "%s: %w%s", op, r, explain(api, r))
	e.Op = op
	return e
}

// explain says which value of NVRTC cannot be true, or is empty.
func explain(api API, r Result) string {
	if l, ok := api.(interface{ explain() string }); ok && r == ResultImpossibleValue {
		return ": " + l.explain()
	}
	return ""
}

// errorLine is how NVRTC begins a message about a line: "program.cu(3): error: ...".
var errorLine = regexp.MustCompile(`(?m)^([^\n]+?)\((\d+)\): ((?:catastrophic )?error[^\n]*)`)

// compileFailed is the error of a program that does not compile. Its detail has the first
// error, the version, the architecture and the options; its log is NVRTC's, followed by
// the numbered lines around each error.
func compileFailed(api API, op string, r Result, p Program, log string, version driver.Version, options []string) error {
	log = strings.TrimSpace(log)
	first, _, _ := strings.Cut(log, "\n")
	if m := errorLine.FindString(log); m != "" {
		first = m
	}
	if first != "" {
		first = ": " + first
	}
	first = explain(api, r) + first
	e := driver.Errorf(driver.ErrKernelCompileFailed, "%s: %w%s [NVRTC %v, %s]", op, r, first, version, strings.Join(options, " "))
	e.Op = op
	e.Log = strings.TrimSpace(log + "\n\n" + excerpts(p, log))
	return e
}

// excerpts are the lines around every error of a log that lies in the program's source or in one of
// its headers. They are numbered, with a mark at the line that is meant.
func excerpts(p Program, log string) string {
	const around = 2
	var b strings.Builder
	shown := map[string]bool{}
	for _, m := range errorLine.FindAllStringSubmatch(log, -1) {
		place, file := m[1]+":"+m[2], m[1]
		text, known := p.Headers[file]
		if file == p.name() {
			text, known = p.Source, true
		}
		line, err := strconv.Atoi(m[2])
		lines := strings.Split(text, "\n")
		if !known || shown[place] || err != nil || line < 1 || line > len(lines) {
			continue
		}
		shown[place] = true
		fmt.Fprintf(&b, "%s: %s\n", place, m[3])
		for n := max(line-around, 1); n <= min(line+around, len(lines)); n++ {
			mark := ' '
			if n == line {
				mark = '>'
			}
			fmt.Fprintf(&b, "%c %4d | %s\n", mark, n, strings.TrimRight(lines[n-1], "\r"))
		}
	}
	return b.String()
}

func errNoAPI() error {
	return driver.Errorf(driver.ErrInvalidArgument, "no NVRTC: the API is nil")
}

func errNoContext() error {
	return driver.Errorf(driver.ErrInvalidArgument, "Compile takes a context that is not nil")
}
