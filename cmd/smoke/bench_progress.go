package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/purecuda/purecuda/cmd/smoke/internal/bench"
)

// benchProgress tells on stderr what is being measured, if that is a terminal.
type benchProgress struct {
	cases []bench.Case
	bar   *progressbar.ProgressBar // nil: no terminal, or quiet
}

func (a *app) newBenchProgress(c benchConfig, cases []bench.Case, options bench.Options) *benchProgress {
	about := time.Duration(len(cases)) * (time.Duration(options.Count)*options.Time + options.Time/4)
	a.benchNote(c, "%s, %s of %s each: %s or more", plural(int64(len(cases)), "measurement"),
		plural(int64(options.Count), "round"), options.Time.Round(time.Microsecond), about.Round(max(about/100, time.Microsecond)).Round(time.Millisecond))
	file, ok := a.stderr.(*os.File)
	if !c.progress || !ok || !term.IsTerminal(int(file.Fd())) {
		return &benchProgress{}
	}
	return &benchProgress{cases: cases, bar: progressbar.NewOptions(len(cases),
		progressbar.OptionSetWriter(file),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(20),
	)}
}

func (p *benchProgress) started(index int) {
	if p.bar == nil {
		return
	}
	p.bar.Describe(fmt.Sprintf("%-40.40s", p.cases[index].Name))
	_ = p.bar.Set(index) // a terminal that went away is no reason to stop
}

// clear makes room for a line.
func (p *benchProgress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
