package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/purecuda/purecuda/cmd/smoke/internal/bench"
	"github.com/purecuda/purecuda/cmd/smoke/internal/cli"
	"github.com/purecuda/purecuda/cmd/smoke/internal/plot"
	"github.com/purecuda/purecuda/internal/job"
)

// plots says where charts are drawn: it begins the paths of their files. If it is empty, nothing is drawn.
type plots string

func (p *plots) parse(cmd *cli.Command) error {
	switch path := cmd.String(flagPlot); {
	case !cmd.IsSet(flagPlot):
		return nil
	case path == "":
		return usageError("--%s is empty; it needs a path", flagPlot)
	case os.IsPathSeparator(path[len(path)-1]) || isFolder(path):
		*p = plots(filepath.Clean(path) + string(filepath.Separator))
	default:
		*p = plots(path + "-")
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// check says before a minute is spent that there will be nothing to draw, or no place for it.
func (p plots) check(cases []bench.Case) error {
	if p == "" {
		return nil
	}
	if len(copyLines(cases)) == 0 && len(scalingLines(cases)) == 0 {
		return usageError("--%s has nothing to draw: it needs copies between host and device, or work on two numbers of devices or cores, and there are %s", flagPlot, families(cases))
	}
	folder := filepath.Dir(string(p) + "x")
	if os.IsPathSeparator(p[len(p)-1]) {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return usageError("--%s: %v", flagPlot, err)
		}
	}
	if !isFolder(folder) {
		return usageError("--%s: the folder %s does not exist", flagPlot, job.Printable(folder))
	}
	return nil
}

// draw writes the charts that there are values for, and tells their paths.
func (p plots) draw(doc *benchReport, notes io.Writer) error {
	if p == "" {
		return nil
	}
	for _, chart := range []struct {
		name  string
		chart plot.Chart
	}{{"copy", copyChart(doc)}, {"scaling", scalingChart(doc)}} {
		if len(chart.chart.Lines) == 0 {
			continue
		}
		path := string(p) + chart.name + ".svg"
		if err := writeChart(path, chart.chart); err != nil {
			return &failure{kind: string(job.OutputFailed), detail: err.Error(), code: exitFailed}
		}
		_, _ = fmt.Fprintf(notes, "smoke: drew %s\n", job.Printable(path))
	}
	return nil
}

func writeChart(path string, chart plot.Chart) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = chart.Write(f)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// machineLine is what a chart says about where it was measured.
func (r *benchReport) machineLine() string {
	var parts []string
	if r.GPU != "" {
		parts = append(parts, r.GPU)
	}
	switch {
	case r.Simulated:
		parts = append(parts, "simulated: this says nothing about a GPU")
	case r.CUDA != "":
		parts = append(parts, strings.TrimSpace("driver "+r.Driver)+" (CUDA "+r.CUDA+")")
	}
	cpu := r.CPU
	if cpu == "" {
		cpu = r.Host.Arch
	}
	parts = append(parts, fmt.Sprintf("%s, %s", cpu, plural(int64(r.Host.CPUs), "core")), r.Date.Format("2006-01-02"))
	return strings.Join(parts, "  |  ")
}

// lineOf is a line of a chart with the cases that are on it.
type lineOf struct {
	name string
	of   func(bench.Case) bool
}

// copyLines are the lines of the chart of copies that there are cases for.
func copyLines(cases []bench.Case) (lines []lineOf) {
	for _, dir := range []string{"upload", "download"} {
		for _, host := range [][2]string{{"pinned", "page-locked memory"}, {"slice", "Go slice"}} {
			of := func(c bench.Case) bool {
				return c.Family() == "Copy" && c.Param("dir") == dir && c.Param("host") == host[0]
			}
			if slices.ContainsFunc(cases, of) {
				lines = append(lines, lineOf{dir + ", " + host[1], of})
			}
		}
	}
	return lines
}

func copyChart(doc *benchReport) plot.Chart {
	chart := plot.Chart{
		Title: "Copies between host and device", Note: doc.machineLine(),
		X: plot.Axis{Label: "size of a copy, each waited for", Log2: true, Format: func(v float64) string { return formatSize(int64(v)) }},
		Y: plot.Axis{Label: "GB/s"},
	}
	for _, l := range copyLines(casesOf(doc.measured)) {
		line := plot.Line{Name: l.name}
		for _, r := range doc.measured {
			if l.of(r.Case) {
				line.Points = append(line.Points, plot.Point{X: float64(r.Bytes), Y: r.Median(bench.Rate) / 1e3})
			}
		}
		chart.Lines = append(chart.Lines, line)
	}
	return chart
}

func casesOf(results []bench.Result) []bench.Case {
	cases := make([]bench.Case, len(results))
	for i, r := range results {
		cases[i] = r.Case
	}
	return cases
}

// scalingOver are the numbers that work scales with, the first that there are two of is drawn.
var scalingOver = []struct{ key, noun string }{{"devices", "device"}, {"cores", "core"}}

// scalingLines are the lines of work that was measured on at least two numbers of devices, or
// else of cores.
func scalingLines(cases []bench.Case) (lines []lineOf) {
	for _, over := range scalingOver {
		for _, work := range [][2]string{{"Scaling", "SHA-256 in memory, pool.Scatter"}, {"SHA256", "SHA-256 in memory"}, {"Job", "main job"}} {
			of := func(c bench.Case) bool { return c.Family() == work[0] && c.Param(over.key) != "" }
			counts := map[string]bool{}
			for _, c := range cases {
				if of(c) {
					counts[c.Param(over.key)] = true
				}
			}
			if len(counts) > 1 {
				lines = append(lines, lineOf{work[1], of})
			}
		}
		if len(lines) > 0 {
			return lines
		}
	}
	return nil
}

// on is the number of devices, or else of cores, that a case runs on.
func on(c bench.Case) (n float64, noun string) {
	for _, over := range scalingOver {
		if n, err := strconv.Atoi(c.Param(over.key)); err == nil {
			return float64(n), over.noun
		}
	}
	return 0, ""
}

// scalingChart has the rates as multiples of the rate of one device or core, so that work of
// different units shares an axis. The legend has the rates themselves.
func scalingChart(doc *benchReport) plot.Chart {
	chart := plot.Chart{Note: doc.machineLine()}
	var most float64
	for _, l := range scalingLines(casesOf(doc.measured)) {
		var results []bench.Result
		for _, r := range doc.measured {
			if l.of(r.Case) {
				results = append(results, r)
			}
		}
		first, last := results[0], results[len(results)-1]
		least, noun := on(first.Case)
		high, _ := on(last.Case)
		unit := first.Units()[1]
		one := first.Median(unit) / least
		line := plot.Line{Name: fmt.Sprintf("%s: %s on %.0f, %s on %.0f", l.name,
			rateText(first.Median(unit), unit), least, rateText(last.Median(unit), unit), high)}
		for _, r := range results {
			n, _ := on(r.Case)
			line.Points = append(line.Points, plot.Point{X: n, Y: r.Median(unit) / one})
		}
		chart.Lines = append(chart.Lines, line)
		chart.Title = "Scaling over " + noun + "s"
		chart.X, chart.Y = plot.Axis{Label: noun + "s"}, plot.Axis{Label: "times the rate of one " + noun}
		most = max(most, high)
	}
	if len(chart.Lines) > 0 {
		chart.Lines = append(chart.Lines, plot.Line{Name: "ideal", Dashed: true, Points: []plot.Point{{X: 1, Y: 1}, {X: most, Y: most}}})
	}
	return chart
}

// rateText is a rate for people.
func rateText(v float64, unit string) string {
	if unit == bench.Rate {
		return fmt.Sprintf("%.3g GB/s", v/1e3)
	}
	for _, prefix := range []struct {
		one  float64
		name string
	}{{1e9, " G "}, {1e6, " M "}, {1e3, " k "}} {
		if v >= prefix.one {
			return fmt.Sprintf("%.3g%s%s", v/prefix.one, prefix.name, unit)
		}
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}
