package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// progressStep is how often the bar is drawn, and how long a job takes at least
// until it appears.
const progressStep = 200 * time.Millisecond

// progress is a bar on stderr while a job runs. The zero value shows nothing.
type progress struct {
	total, done  int64
	began, drawn time.Time
	file         *os.File // nil: no terminal
	width        int      // of the bar itself, in characters
	green, plain string   // what changes the colour of a terminal, and takes that back
}

// newProgress returns a bar if stderr is a terminal and nobody asked for quiet.
func (a *app) newProgress(c config, total int64) *progress {
	file := a.terminal()
	if !c.progress || file == nil {
		return &progress{}
	}
	p := &progress{total: total, began: time.Now(), file: file, width: 30}
	if columns, _ := terminalWidth(file); columns > 0 {
		p.width = max(5, min(p.width, columns-65)) // there is text beside it
	}
	if os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		p.green, p.plain = "\x1b[32m", "\x1b[0m"
	}
	return p
}

// terminal is stderr if that is a terminal, or nil.
func (a *app) terminal() *os.File {
	file, _ := a.stderr.(*os.File)
	if !isTerminal(a.stderr) {
		return nil
	}
	return file
}

// add counts bytes that were hashed. The last of them go undrawn: the bar is about
// to make room for the report.
func (p *progress) add(bytes int64) {
	p.done += bytes
	now := time.Now()
	if p.file == nil || p.done >= p.total || now.Sub(p.began) < progressStep || now.Sub(p.drawn) < progressStep {
		return
	}
	p.drawn = now
	rewrite(p.file, p.line(now.Sub(p.began)))
}

// line is the bar after some time: the share, the sizes, the rate, and the time that it took and that is left.
func (p *progress) line(took time.Duration) string {
	share := float64(p.done) / float64(p.total)
	left := time.Duration(float64(took) * (1 - share) / share)
	full := int(share * float64(p.width))
	return fmt.Sprintf("hashing %3.0f%% [%s%s>%s%s] (%s/%s, %s/s) [%s:%s]", 100*share, p.green, strings.Repeat("=", full), p.plain,
		strings.Repeat(" ", p.width-full), formatSize(p.done), formatSize(p.total),
		formatSize(int64(float64(p.done)/took.Seconds())), took.Round(time.Second), left.Round(time.Second))
}

func (p *progress) clear() {
	if p.file != nil {
		rewrite(p.file, "")
	}
}

// rewrite writes a line of a terminal in place of the one before. A terminal that went away is no reason to stop.
func rewrite(file *os.File, line string) { _, _ = file.WriteString("\r\x1b[K" + line) }
