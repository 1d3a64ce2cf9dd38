package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progressStep is how often the bar is drawn, and how long a job takes at least
// until it appears.
const progressStep = 200 * time.Millisecond

// progress is a bar on stderr while a job runs. The zero value shows nothing.
type progress struct {
	total, done int64
	bar         *progressbar.ProgressBar // nil: no terminal
}

// newProgress returns a bar if stderr is a terminal and nobody asked for quiet.
func (a *app) newProgress(c config, total int64) *progress {
	file, ok := a.stderr.(*os.File)
	if !c.progress || !ok || !term.IsTerminal(int(file.Fd())) {
		return &progress{}
	}
	return &progress{total: total, bar: newBar(file, total)}
}

// add counts bytes that were hashed. The last of them go undrawn: the bar is about
// to make room for the report.
func (p *progress) add(bytes int64) {
	p.done += bytes
	if p.bar != nil && p.done < p.total {
		_ = p.bar.Set64(p.done) // a terminal that went away is no reason to stop the job
	}
}

func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func newBar(file *os.File, total int64) *progressbar.ProgressBar {
	color := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	theme := progressbar.ThemeASCII
	if color {
		theme.Saucer, theme.SaucerHead = "[green]=[reset]", "[green]>[reset]"
	}
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(file),
		progressbar.OptionSetDescription("hashing"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionThrottle(progressStep),
		progressbar.OptionEnableColorCodes(color),
		progressbar.OptionSetTheme(theme),
		progressbar.OptionSetWidth(30),
	)
}
