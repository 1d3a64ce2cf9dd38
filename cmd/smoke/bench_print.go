package main

import (
	"fmt"
	goruntime "runtime"
	"strconv"
	"strings"
	"time"

	"github.com/purecuda/purecuda/cmd/smoke/internal/bench"
	"github.com/purecuda/purecuda/internal/cleantext"
	"github.com/purecuda/purecuda/internal/machine"
)

// benchReport is the JSON document of smoke bench; doc.go says what the members mean.
type benchReport struct {
	SchemaVersion int           `json:"schema_version"`
	Tool          tool          `json:"tool"`
	Host          host          `json:"host"`
	CPU           string        `json:"cpu,omitempty"`
	GPU           string        `json:"gpu,omitempty"`
	Driver        string        `json:"driver,omitempty"`
	CUDA          string        `json:"cuda,omitempty"`
	Date          time.Time     `json:"date"`
	Simulated     bool          `json:"simulated"`
	Outcome       outcome       `json:"outcome"`
	Reason        *reason       `json:"reason"`
	Devices       []device      `json:"devices"`
	RoundSeconds  float64       `json:"round_seconds"`
	Count         int           `json:"count"`
	Partial       bool          `json:"partial"`
	Results       []benchResult `json:"results"`
	Error         *reason       `json:"error"`
}

// benchResult is what was measured of one case in one unit.
type benchResult struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"` // one for each round
	Median float64   `json:"median"`
	Table  string    `json:"table,omitempty"`
}

// benchPrinter prints results as they come, or the document at the end.
type benchPrinter struct {
	app      *app
	doc      *benchReport
	measured int   // cases
	err      error // the first of writing
}

func (a *app) newBenchPrinter(m *bench.Machine, options bench.Options) *benchPrinter {
	doc := &benchReport{
		SchemaVersion: schemaVersion, Tool: a.report.Tool, Host: a.report.Host, CPU: machine.CPU(),
		GPU: gpuNames(m.Devices), Date: time.Now().Truncate(time.Second), Simulated: m.Simulated,
		Outcome: a.report.Outcome, Reason: a.report.Reason, Devices: a.report.Devices,
		RoundSeconds: options.Time.Seconds(), Count: options.Count, Results: []benchResult{},
	}
	if m.Runtime != nil {
		doc.CUDA, doc.Driver = m.Runtime.Version().String(), machine.DriverVersion()
	}
	if m.Simulated {
		doc.Driver = "simulated"
	}
	return &benchPrinter{app: a, doc: doc}
}

func (p *benchPrinter) printf(format string, args ...any) {
	if p.err == nil && p.app.form != formJSON {
		_, p.err = fmt.Fprintf(p.app.stdout, format, args...)
	}
}

// header prints what holds for all lines, as go test does.
func (p *benchPrinter) header() {
	for _, line := range [][2]string{
		{"goos", goruntime.GOOS}, {"goarch", goruntime.GOARCH}, {"cpu", p.doc.CPU}, {"gpu", p.doc.GPU},
		{"driver", p.doc.Driver}, {"cuda", p.doc.CUDA},
	} {
		if line[1] != "" {
			p.printf("%s: %s\n", line[0], cleantext.String(line[1]))
		}
	}
}

// add prints a line for each round.
func (p *benchPrinter) add(r bench.Result) {
	p.measured++
	for _, unit := range r.Units() {
		result := benchResult{Name: r.Name, Unit: unit, Median: r.Median(unit), Table: r.Table}
		for _, round := range r.Rounds {
			result.Values = append(result.Values, r.Value(round, unit))
		}
		p.doc.Results = append(p.doc.Results, result)
	}
	for _, round := range r.Rounds {
		p.printf("Benchmark%s%s\t%8d", r.Name, procsSuffix(p.doc.Host.CPUs), round.N)
		for _, unit := range r.Units() {
			p.printf("\t%s %s", benchNumber(r.Value(round, unit)), unit)
		}
		p.printf("\n")
	}
	for line := range strings.Lines(r.Table) {
		p.printf("# %s\n", cleantext.String(strings.TrimSuffix(line, "\n")))
	}
}

// procsSuffix is how Go's benchmarks tell the number of cores.
func procsSuffix(cores int) string {
	if cores == 1 {
		return ""
	}
	return fmt.Sprintf("-%d", cores)
}

// benchNumber has four significant digits or more and no exponent.
func benchNumber(v float64) string {
	digits := 4
	for limit := 1.0; digits > 0 && v >= limit; limit *= 10 {
		digits--
	}
	return fmt.Sprintf("%12s", strconv.FormatFloat(v, 'f', digits, 64))
}

// finish prints the document, or that the lines are not all. err is what the run has led to.
func (p *benchPrinter) finish(err error) error {
	if err != nil {
		kind, detail := describe(err)
		p.doc.Error = &reason{Kind: kind, Detail: detail}
		if p.doc.Partial {
			p.printf("# partial: %s\n", cleantext.String(p.doc.Error.String()))
		}
	}
	if p.app.form == formJSON {
		p.err = writeJSON(p.app.stdout, p.doc)
		p.app.form = formNone // the document is printed, with its error
	}
	if p.err != nil {
		return unwritten("the results", p.err)
	}
	return nil
}
