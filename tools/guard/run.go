package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A run has so many rounds. What seems worse then has up to as many more, for itself.
const baseRounds = 3

type run struct {
	ledger ledger
	sides  map[string]*side // "old", "new", and those in C by their command
	inC    string           // the folder of the programs in C
	only   string
	until  time.Time
	log    func(format string, args ...any)
}

func tableMain(args []string) (int, error) {
	if len(args) != 1 {
		return exitUsage, errors.New("usage: guard table FILE")
	}
	l, err := readLedger(args[0])
	if err != nil {
		return exitUsage, err
	}
	return l.result(os.Stdout)
}

func runMain(args []string) (int, error) {
	flags := flag.NewFlagSet("guard run", flag.ExitOnError)
	old := flags.String("old", "", "the guard of the old commit, with the arguments of serve behind it")
	new := flags.String("new", "", "the guard of the new commit, with the arguments of serve behind it")
	inC := flags.String("c", "", "the folder of the programs in C")
	commits := flags.String("commits", "old,new", "what the two are called")
	host := flags.String("host", "", "a file that describes the host")
	with := flags.String("with", "", "files of other ledgers to compare as well, with commas between them")
	out := flags.String("out", "guard.json", "the file for the raw results")
	only := flags.String("only", "", "measure only what has this in its name")
	budget := flags.Duration("budget", 4*time.Minute, "how long to measure")
	_ = flags.Parse(args)
	if *old == "" || *new == "" || flags.NArg() > 0 {
		flags.Usage()
		return exitUsage, errors.New("run takes -old and -new")
	}
	r := &run{
		sides: map[string]*side{"old": {command: strings.Fields(*old), lists: true}, "new": {command: strings.Fields(*new), lists: true}},
		inC:   *inC, only: *only, until: time.Now().Add(*budget),
		log: func(format string, args ...any) { fmt.Fprintf(os.Stderr, "guard: "+format+"\n", args...) },
	}
	r.ledger.Old, r.ledger.New, _ = strings.Cut(*commits, ",")
	if *host != "" {
		text, err := os.ReadFile(*host)
		if err != nil {
			return exitUsage, err
		}
		r.ledger.Host = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	start := time.Now()
	if code, err := r.measure(*budget); err != nil {
		return code, err
	}
	for _, path := range strings.FieldsFunc(*with, func(c rune) bool { return c == ',' }) {
		l, err := readLedger(path)
		if err != nil {
			return exitWorse, err
		}
		r.ledger.Figures = append(r.ledger.Figures, l.Figures...)
		r.ledger.Notes = append(r.ledger.Notes, l.Notes...)
	}
	r.ledger.Seconds = time.Since(start).Round(time.Second).Seconds()
	if err := r.ledger.write(*out); err != nil {
		return exitWorse, err
	}
	return r.ledger.result(os.Stdout)
}

// task is a benchmark of the list of a side.
type task struct{ name, program, inC string }

// measure runs the rounds.
func (r *run) measure(budget time.Duration) (int, error) {
	tasks, code, err := r.tasks()
	if err != nil {
		return code, err
	}
	// A turn has three tenths of what it would have if nothing but turns took time.
	least := budget * 3 / 10 / time.Duration(max(1, 6*baseRounds*len(tasks)))
	least = min(max(least, time.Millisecond), 200*time.Millisecond)
	all := tasks
	for r.ledger.Rounds < 2*baseRounds && len(tasks) > 0 {
		began := time.Now()
		r.log("round %d: %d benchmarks, turns of %v, %v left", r.ledger.Rounds+1, len(tasks), least.Round(time.Millisecond), time.Until(r.until).Round(time.Second))
		complete := r.round(tasks, least)
		took := time.Since(began)
		r.ledger.Rounds++
		if err := r.endAll(); err != nil {
			r.ledger.note("%v", err)
		}
		left := time.Until(r.until)
		if !complete {
			r.ledger.note("the time was over in round %d: some figures have fewer turns", r.ledger.Rounds)
			break
		}
		if more := baseRounds - r.ledger.Rounds; more > 0 {
			fit := float64(left) / float64(more) / float64(took) * 0.95
			least = time.Duration(float64(least) * min(1, fit))
			continue
		}
		suspects := r.ledger.worse()
		tasks = slices.DeleteFunc(slices.Clone(all), func(t task) bool { return !suspects[t.name] })
		if left < took*time.Duration(len(tasks))/time.Duration(len(all)) {
			break
		}
	}
	return 0, nil
}

// tasks asks both sides what they have.
func (r *run) tasks() (tasks []task, code int, err error) {
	has := map[string]map[string]bool{}
	for _, name := range []string{"old", "new"} {
		s := r.sides[name]
		if err := s.start(); err != nil {
			code = exitWorse
			if end, ok := errors.AsType[*endError](err); ok && end.code == exitNoGPU {
				code = exitNoGPU
			}
			return nil, code, errors.Join(err, r.endAll())
		}
		has[name] = map[string]bool{}
		for _, line := range s.list {
			fields := strings.Split(line, "\t")
			if len(fields) != 3 {
				return nil, exitWorse, fmt.Errorf("%q is no line of a list", line)
			}
			has[name][fields[0]] = true
			if name == "new" && strings.Contains(fields[0], r.only) {
				tasks = append(tasks, task{fields[0], fields[1], fields[2]})
			}
		}
	}
	var missing []string
	for _, t := range tasks {
		if family, _, _ := strings.Cut(t.name, "/"); !has["old"][t.name] && !slices.Contains(missing, family) {
			missing = append(missing, family)
		}
	}
	if len(missing) > 0 {
		r.ledger.note("not in %s: %s", r.ledger.Old, strings.Join(missing, ", "))
	}
	if len(tasks) == 0 {
		return nil, exitUsage, fmt.Errorf("no benchmark has %q in its name", r.only)
	}
	return tasks, 0, nil
}

// round measures each benchmark twice on each side, and reports whether there was time for all.
func (r *run) round(tasks []task, least time.Duration) bool {
	first, second := "old", "new"
	if r.ledger.Rounds%2 == 1 {
		first, second = second, first
	}
	for _, t := range tasks {
		if time.Now().After(r.until) {
			return false
		}
		for _, name := range []string{first, second, "C", "C", second, first} {
			if !r.turn(t, name, least) {
				break
			}
		}
	}
	return true
}

// turn measures a benchmark on a side. After a skip or a failure of the new commit it has no other turn in this round.
func (r *run) turn(t task, name string, least time.Duration) bool {
	s, asked := r.sides[name], t.name
	if name == "C" {
		if s, asked = r.programInC(t), t.inC; s == nil {
			return true
		}
	}
	values, err := s.ask(asked, least)
	switch {
	case err == nil && name == "C" && values == nil:
		r.ledger.note("%s: %s has no %s", t.name, s.command, asked)
	case err == nil:
		if name == "C" {
			values = withRate(values)
		}
		r.ledger.add(name, t.name, values)
	case errors.Is(err, errSkip):
		family, _, _ := strings.Cut(t.name, "/")
		r.ledger.note("%s: %v", family, err)
		return false
	case name == "new":
		failure := fmt.Sprintf("%s: %v", t.name, err)
		r.log("%s", failure)
		if !slices.Contains(r.ledger.Failures, failure) {
			r.ledger.Failures = append(r.ledger.Failures, failure)
		}
		return false
	default:
		r.log("%s: %s: %v", t.name, name, err)
		r.ledger.note("%s failed in %s: %v", t.name, map[string]string{"old": r.ledger.Old, "C": "C"}[name], err)
	}
	return true
}

// withRate adds the rate of requests, which programs in C do not print.
func withRate(values []value) []value {
	for _, v := range values {
		if v.unit == "ns/op" && v.v > 0 && slices.ContainsFunc(values, func(v value) bool { return v.unit == "p50-ns" }) {
			return append(slices.DeleteFunc(values, func(v value) bool { return v.unit == "ns/op" }), value{"req/s", 1e9 / v.v})
		}
	}
	return values
}

// programInC is the side of a benchmark in C, or nil if there is none.
func (r *run) programInC(t task) *side {
	if t.program == "" || r.inC == "" {
		return nil
	}
	s := r.sides[t.program]
	if s == nil {
		words := strings.Fields(t.program)
		at := slices.IndexFunc(words, func(w string) bool { return !strings.Contains(w, "=") })
		path := filepath.Join(r.inC, words[at])
		if _, err := os.Stat(path); err != nil {
			r.ledger.note("%s is not measured in C: %v", strconv.Quote(words[at]), err)
			return nil
		}
		words[at] = path
		s = &side{command: append(words, "-serve"), dir: r.inC}
		r.sides[t.program] = s
	}
	return s
}

// endAll ends all programs.
func (r *run) endAll() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(r.sides)) {
		errs = append(errs, r.sides[name].end(nil))
	}
	return errors.Join(errs...)
}
