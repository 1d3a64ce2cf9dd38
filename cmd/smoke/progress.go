package main

import (
	"io"
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
	began       time.Time
	bar         *progressbar.ProgressBar // nil: no terminal
}

// newProgress returns a bar if stderr is a terminal and nobody asked for quiet.
func (a *app) newProgress(c config, total int64) *progress {
	file := a.terminal()
	if !c.progress || file == nil {
		return &progress{}
	}
	return &progress{total: total, began: time.Now(), bar: newBar(file, total)}
}

// terminal is stderr if that is a terminal, or nil.
func (a *app) terminal() *os.File {
	file, _ := a.stderr.(*os.File)
	if !isTerminal(a.stderr) {
		return nil
	}
	return file
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// add counts bytes that were hashed. The last of them go undrawn: the bar is about
// to make room for the report.
func (p *progress) add(bytes int64) {
	p.done += bytes
	if p.bar != nil && p.done < p.total && time.Since(p.began) > progressStep {
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
	bar := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(file),
		progressbar.OptionSetDescription("hashing"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowCount(), // without it the bar stands still between two percents
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionThrottle(progressStep),
		progressbar.OptionEnableColorCodes(color),
		progressbar.OptionSetTheme(theme),
		progressbar.OptionSetWidth(30),
	)
	bar.Reset() // its clock starts now, and not when it is drawn first
	return bar
}
