package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// ledger is what a run has measured: its raw results, and what could not be measured.
type ledger struct {
	Old     string   `json:"old,omitempty"` // the commit
	New     string   `json:"new,omitempty"`
	Host    []string `json:"host,omitempty"`
	Rounds  int      `json:"rounds,omitempty"`
	Seconds float64  `json:"seconds,omitempty"`
	// Notes say what was left out and why, and Failures what of the new commit failed.
	Notes    []string `json:"notes,omitempty"`
	Failures []string `json:"failures,omitempty"`
	Figures  []figure `json:"figures"`
}

// figure is one unit of one benchmark: a value for each turn of each side.
type figure struct {
	Name string    `json:"name"`
	Unit string    `json:"unit"`
	Old  []float64 `json:"old,omitempty"`
	New  []float64 `json:"new,omitempty"`
	C    []float64 `json:"c,omitempty"`
}

// unit says how values are compared and printed. Units that are not here are dropped.
type unit struct {
	higher bool // is better
	told   bool // and never worse: it pays for another one
	format func(float64) string
}

var units = map[string]unit{
	"ns/op":     {format: formatNanoseconds},
	"p50-ns":    {format: formatNanoseconds},
	"p99-ns":    {format: formatNanoseconds},
	"req/s":     {higher: true, format: func(v float64) string { return fmt.Sprintf("%.0f/s", v) }},
	"allocs/op": {format: func(v float64) string { return fmt.Sprintf("%.0f", v) }},
	"cores":     {told: true, format: func(v float64) string { return fmt.Sprintf("%.1f", v) }},
}

func formatNanoseconds(v float64) string {
	names := []string{"ns", "us", "ms", "s"}
	i := 0
	for ; v >= 1000 && i < len(names)-1; i++ {
		v /= 1000
	}
	return fmt.Sprintf("%.*f %s", max(0, 2-int(math.Log10(max(v, 1)))), v, names[i])
}

// The rule. A figure is worse if the median of the new turns is worse than the old median by more than tolerance and
// the noise together. The noise of a side is the ratio of the quartiles of its turns. That of new/old is the root of the sum of
// the squares of both, all in logarithms, because times have a long tail. So turns of the same code, with normal noise of any size, are
// worse in 1 of 180 cases after three rounds. What is worse is measured again: after six rounds it is 1 of thousands. A loss
// of 10 % is seen beside noise of 2 % (standard deviation), and one of 7 % beside 1 %. Less than fewest turns say nothing.
//
// Turns are short, and the sides take them one after the other, in an order that turns around: old, new, C, C, new, old. So a
// clock that drifts is the same for all. Each round has new processes, so that the luck of a process is in the noise.
const (
	tolerance = 0.05
	fewest    = 3
)

type verdict int

const (
	same verdict = iota
	better
	worse
	tooFew
	notInOld
)

var verdicts = [...]string{"", "better", "WORSE", "too few turns", "not in old"}

// compare returns new/old, its noise, and what that means.
func (f figure) compare() (ratio, noise float64, v verdict) {
	if len(f.Old) == 0 {
		return math.NaN(), math.NaN(), notInOld
	}
	u := units[f.Unit]
	before, after := quantile(f.Old, 0.5), quantile(f.New, 0.5)
	ratio, noise = divide(after, before), math.Expm1(math.Hypot(spread(f.Old), spread(f.New)))
	if min(len(f.Old), len(f.New)) < fewest {
		return ratio, noise, tooFew
	}
	loss := ratio
	if u.higher {
		loss = divide(before, after)
	}
	switch {
	case u.told:
	case loss > (1+tolerance)*(1+noise):
		v = worse
	case divide(1, loss) > (1+tolerance)*(1+noise):
		v = better
	}
	return ratio, noise, v
}

// divide is 1 for 0/0: none before, and none now.
func divide(a, b float64) float64 {
	if a == 0 && b == 0 {
		return 1
	}
	return a / b
}

// spread is the noise of one side, as a logarithm.
func spread(turns []float64) float64 {
	return math.Log(divide(quantile(turns, 0.75), quantile(turns, 0.25)))
}

// quantile is the value below which the part of all lies, between two values if need be; NaN if there are none.
func quantile(turns []float64, part float64) float64 {
	if len(turns) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(turns))
	at := part * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// side is the turns of a side.
func (f *figure) side(name string) *[]float64 {
	return map[string]*[]float64{"old": &f.Old, "new": &f.New, "C": &f.C}[name]
}

// add notes a turn.
func (l *ledger) add(side, name string, values []value) {
	for _, v := range values {
		if _, known := units[v.unit]; !known {
			continue
		}
		i := slices.IndexFunc(l.Figures, func(f figure) bool { return f.Name == name && f.Unit == v.unit })
		if i < 0 {
			i = len(l.Figures)
			l.Figures = append(l.Figures, figure{Name: name, Unit: v.unit})
		}
		turns := l.Figures[i].side(side)
		*turns = append(*turns, rounded(v.v))
	}
}

// rounded keeps four digits: a file of raw results is small.
func rounded(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// worse are the names of the benchmarks with a figure that is worse.
func (l *ledger) worse() map[string]bool {
	names := map[string]bool{}
	for _, f := range l.Figures {
		if _, _, v := f.compare(); v == worse {
			names[f.Name] = true
		}
	}
	return names
}

// note keeps a note once.
func (l *ledger) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(l.Notes, text) {
		l.Notes = append(l.Notes, text)
	}
}

// print writes the table, and what was left out. It counts the verdicts.
func (l *ledger) print(out io.Writer) map[verdict]int {
	for _, line := range l.Host {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintf(out, "old: %s\nnew: %s\nrounds: %d, in %.0f s\n\n", l.Old, l.New, l.Rounds, l.Seconds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "benchmark (medians)\tunit\told\tnew\tC\tnew/old\tnoise\tnew/C\tverdict")
	text := func(f figure, turns []float64) string {
		if len(turns) == 0 {
			return "-"
		}
		return units[f.Unit].format(quantile(turns, 0.5))
	}
	number := func(format string, v float64) string {
		if math.IsNaN(v) {
			return "-"
		}
		return fmt.Sprintf(format, v)
	}
	counts := map[verdict]int{}
	var losses []string
	for _, f := range l.Figures {
		ratio, noise, v := f.compare()
		counts[v]++
		row := fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", f.Name, f.Unit, text(f, f.Old), text(f, f.New), text(f, f.C),
			number("%.3f", ratio), number("%.3f", noise), number("%.2f", divide(quantile(f.New, 0.5), quantile(f.C, 0.5))), verdicts[v])
		fmt.Fprintln(w, row)
		if v == worse {
			losses = append(losses, strings.ReplaceAll(row, "\t", "  "))
		}
	}
	w.Flush()
	fmt.Fprintf(out, "\n%d figures: %d worse, %d better, %d not in old, %d with too few turns\n",
		len(l.Figures), counts[worse], counts[better], counts[notInOld], counts[tooFew])
	for _, text := range l.Notes {
		fmt.Fprintln(out, "note:", text)
	}
	for _, text := range l.Failures {
		fmt.Fprintln(out, "failed:", text)
	}
	for _, row := range losses {
		fmt.Fprintln(out, "worse:", row)
	}
	return counts
}

// result prints the table, and returns the exit code of a run and its error. What was not measured is not passed.
func (l *ledger) result(out io.Writer) (int, error) {
	counts := l.print(out)
	var errs []error
	if n := len(l.Failures); n > 0 {
		errs = append(errs, fmt.Errorf("%d benchmarks failed", n))
	}
	if n := counts[worse]; n > 0 {
		errs = append(errs, fmt.Errorf("%d figures are more than %.0f %% worse beyond the noise", n, 100*tolerance))
	}
	if n := counts[tooFew]; n > 0 {
		errs = append(errs, fmt.Errorf("%d figures have less than %d turns: a larger -budget makes more", n, fewest))
	}
	if counts[same]+counts[better]+counts[worse]+counts[tooFew] == 0 {
		errs = append(errs, errors.New("nothing was compared"))
	}
	if err := errors.Join(errs...); err != nil {
		return exitWorse, err
	}
	return 0, nil
}

func readLedger(path string) (*ledger, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l := new(ledger)
	if err := json.Unmarshal(text, l); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

func (l *ledger) write(path string) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	// A figure a line, for people and for git.
	lines := strings.ReplaceAll(string(text), `{"name"`, "\n"+`{"name"`)
	return os.WriteFile(path, []byte(lines+"\n"), 0o666)
}
