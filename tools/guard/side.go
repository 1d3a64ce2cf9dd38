package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// patience is how long a benchmark may take beyond its time, with the start of its program.
const patience = 60 * time.Second

// side is a program that measures what it is asked for: see serve. It starts when it is asked for the first time.
type side struct {
	command []string // NAME=VALUE for the environment may stand before the program
	dir     string   // where it runs; "" for here
	lists   bool     // it begins with a list

	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	said  tail // on stderr
	list  []string
}

// start starts the program, and reads its list.
func (s *side) start() error {
	if s.cmd != nil {
		return nil
	}
	words := s.command
	environment := os.Environ()
	for strings.Contains(words[0], "=") {
		environment, words = append(environment, words[0]), words[1:]
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = s.dir, environment, &s.said
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := make(chan string, 64)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	s.cmd, s.in, s.lines = cmd, in, lines
	if s.lists {
		s.list, err = s.answer(patience)
	}
	return err
}

// answer reads up to an empty line. A program that ends or takes too long is gone after that.
func (s *side) answer(limit time.Duration) (answer []string, err error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				return nil, s.end(errors.New("it ended"))
			}
			if line == "" {
				return answer, nil
			}
			answer = append(answer, line)
		case <-timer.C:
			_ = s.cmd.Process.Kill()
			return nil, s.end(fmt.Errorf("it took longer than %v, and was ended", limit))
		}
	}
}

// ask measures. Without an error and without values the program does not have the benchmark.
func (s *side) ask(name string, least time.Duration) ([]value, error) {
	if err := s.start(); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(s.in, "%g %s\n", least.Seconds(), name); err != nil {
		return nil, s.end(err)
	}
	answer, err := s.answer(10*least + patience)
	if err != nil || len(answer) == 0 {
		return nil, err
	}
	if reason, found := strings.CutPrefix(answer[0], "skip: "); found {
		return nil, fmt.Errorf("%w: %s", errSkip, strings.TrimPrefix(reason, errSkip.Error()+": "))
	}
	if reason, found := strings.CutPrefix(answer[0], "error: "); found {
		return nil, errors.New(reason)
	}
	return parseLine(answer[0])
}

// parseLine reads the values of a line in the format of Go benchmarks.
func parseLine(line string) (values []value, err error) {
	fields := strings.Fields(line)
	if len(fields) < 4 || len(fields)%2 != 0 || !strings.HasPrefix(line, "Benchmark") {
		return nil, fmt.Errorf("%q is no line of a benchmark", line)
	}
	for i := 2; i < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no line of a benchmark: %w", line, err)
		}
		values = append(values, value{fields[i+1], v})
	}
	return values, nil
}

// end waits for the program, and says how it ended. It is started again if it is asked again.
func (s *side) end(why error) error {
	if s.cmd == nil {
		return nil
	}
	_ = s.in.Close()
	kill := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	for range s.lines {
	}
	err := s.cmd.Wait()
	kill.Stop()
	code := s.cmd.ProcessState.ExitCode()
	s.cmd = nil
	if err == nil && why == nil {
		return nil
	}
	return &endError{code, fmt.Errorf("%s: %w (%v): %s", filepath.Base(s.command[0]), errors.Join(why, err), s.command, s.said.text)}
}

// endError is the end of a program.
type endError struct {
	code int
	err  error
}

func (e *endError) Error() string { return e.err.Error() }
func (e *endError) Unwrap() error { return e.err }

// tail keeps the end of what is written.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-1000):]
	return len(p), nil
}
