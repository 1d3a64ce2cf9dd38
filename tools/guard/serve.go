package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// inC is what measures the same in C: a program of scripts/baseline with its arguments, and the name that it has there.
type inC struct {
	program []string
	name    string
}

// benchmark is one measurement.
type benchmark struct {
	name string
	c    inC
	run  func(least time.Duration) ([]value, error)
}

// value is what was measured, in a unit.
type value struct {
	unit string
	v    float64
}

// suite is benchmarks that share what open makes. It is opened before the first one of them runs, and closed before one
// of another suite does.
type suite struct {
	open func(c *closers) error
	all  []benchmark
}

func (s *suite) add(b benchmark) { s.all = append(s.all, b) }

// suites makes all suites. Each file adds its own.
var suites []func(m *machine) *suite

// errSkip is the error of what this machine cannot measure.
var errSkip = errors.New("not on this machine")

func skip(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errSkip, fmt.Sprintf(format, args...))
}

// serve first prints a line for each benchmark, with tabs between its name, the program in C and the name there, and an
// empty line. A line that it reads has the seconds to measure for, and a name. It answers with a line in the format
// of Go benchmarks, or with one that begins with "skip:" or "error:", and an empty line. The programs in scripts/baseline
// answer in the same way with -serve.
func serve(m *machine, in io.Reader, out io.Writer) error {
	var list []*suite
	for _, f := range suites {
		if s := f(m); s != nil {
			list = append(list, s)
		}
	}
	for _, s := range list {
		for _, b := range s.all {
			fmt.Fprintf(out, "%s\t%s\t%s\n", b.name, strings.Join(b.c.program, " "), b.c.name)
		}
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	var (
		opened *suite
		open   closers
		failed error // of opening the suite
	)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		text, name, _ := strings.Cut(lines.Text(), " ")
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("a request is %q, and begins with no number of seconds: %w", lines.Text(), err)
		}
		answer := ""
		for _, s := range list {
			i := slices.IndexFunc(s.all, func(b benchmark) bool { return b.name == name })
			if i < 0 {
				continue
			}
			if s != opened {
				if err := open.close(); err != nil {
					return err
				}
				opened, failed = s, s.open(&open)
			}
			answer = answerOf(s.all[i], failed, time.Duration(seconds*float64(time.Second)))
		}
		if _, err := fmt.Fprintf(out, "%s\n", answer); err != nil {
			return err
		}
	}
	return open.close()
}

func answerOf(b benchmark, err error, least time.Duration) string {
	var values []value
	if err == nil {
		values, err = b.run(least)
	}
	if err != nil {
		word := "error"
		if errors.Is(err, errSkip) {
			word = "skip"
		}
		return fmt.Sprintf("%s: %s\n", word, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	line := "Benchmark" + b.name + "\t1"
	for _, v := range values {
		line += fmt.Sprintf("\t%.2f %s", v.v, v.unit)
	}
	return line + "\n"
}

// closers close what was opened, the last first.
type closers struct{ all []func() error }

func (c *closers) later(f func() error) { c.all = append(c.all, f) }

func (c *closers) close() error {
	var errs []error
	for _, f := range slices.Backward(c.all) {
		errs = append(errs, f())
	}
	c.all = nil
	return errors.Join(errs...)
}

// opened notes that a value is to be closed, and passes it and the error on.
func opened[T interface{ Close() error }](c *closers, value T, err error) (T, error) {
	if err == nil {
		c.later(value.Close)
	}
	return value, err
}
