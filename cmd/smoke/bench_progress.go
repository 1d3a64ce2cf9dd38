package main

import (
	"fmt"
	"os"
	"time"

	"github.com/purecuda/purecuda/cmd/smoke/internal/bench"
)

// benchProgress tells on stderr what is being measured, if that is a terminal.
type benchProgress struct {
	cases []bench.Case
	file  *os.File // nil: no terminal, or quiet
}

func (a *app) newBenchProgress(c benchConfig, cases []bench.Case, options bench.Options) *benchProgress {
	about := time.Duration(len(cases)) * (time.Duration(options.Count)*options.Time + options.Time/4)
	a.benchNote(c, "%s, %s of %s each: %s or more", plural(int64(len(cases)), "measurement"),
		plural(int64(options.Count), "round"), options.Time.Round(time.Microsecond), about.Round(max(about/100, time.Microsecond)).Round(time.Millisecond))
	if !c.progress {
		return &benchProgress{}
	}
	return &benchProgress{cases, a.terminal()}
}

func (p *benchProgress) started(index int) {
	if p.file != nil {
		rewrite(p.file, fmt.Sprintf("%-40.40s %d/%d", p.cases[index].Name, index, len(p.cases)))
	}
}

// clear makes room for a line.
func (p *benchProgress) clear() {
	if p.file != nil {
		rewrite(p.file, "")
	}
}
