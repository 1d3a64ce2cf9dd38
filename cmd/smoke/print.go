package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/purecuda/purecuda/internal/cleantext"
	"github.com/purecuda/purecuda/internal/job"
)

// form is how the report is printed.
type form int

const (
	formNone  form = iota // no job was asked for: --help, --version, completion
	formHuman             // lines for people
	formQuiet             // the root only
	formJSON              // one document
)

// finish prints the report and the error, and returns the exit code.
func (a *app) finish(err error) int {
	if err != nil {
		kind, detail := describe(err)
		a.report.Error = &reason{Kind: kind, Detail: detail}
	}
	_ = a.print(err == nil) // stdout keeps the error
	if lost := a.stdout.err; lost != nil && (err == nil || errors.Is(err, lost)) {
		f := unwritten("the report", lost)
		err, a.report.Error = f, &reason{Kind: f.kind, Detail: f.detail}
	}
	if err == nil {
		return exitOK
	}
	hint := ""
	if isUsage(err) {
		hint = " (see smoke --help)"
	}
	line(a.stderr, "smoke: %s%s", a.report.Error, hint)
	return exitCode(err)
}

// unwritten is the error for results that did not reach stdout.
func unwritten(what string, err error) *failure {
	return &failure{kind: string(job.OutputFailed), detail: "writing " + what + ": " + err.Error(), code: exitFailed}
}

func (a *app) print(done bool) error {
	switch {
	case a.form == formJSON && (a.report.Job != nil || a.report.Error != nil):
		return writeJSON(a.stdout, a.report)
	case a.form == formHuman && (done || a.report.Job != nil && a.report.Job.Partial):
		return a.report.Job.writeTable(a.stdout)
	case a.form == formQuiet && done:
		_, err := fmt.Fprintln(a.stdout, a.report.Job.Root)
		return err
	}
	return nil
}

// shownSkips is how many skipped entries the table names.
const shownSkips = 3

func (r *jobReport) writeTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", name, cleantext.String(fmt.Sprintf(format, args...))) // Flush tells
	}
	row("input", "%s (%s, %s)", r.Input, plural(r.Files, "file"), formatSize(r.Bytes))
	if n := r.Skipped.Count; n > 0 {
		names := make([]string, 0, shownSkips+1)
		for _, s := range r.Skipped.Entries[:min(len(r.Skipped.Entries), shownSkips)] {
			names = append(names, s.Path+" ("+s.Reason+")")
		}
		if n > shownSkips {
			names = append(names, "...")
		}
		row("skipped", "%d without content: %s", n, strings.Join(names, ", "))
	}
	row("chunks", "%d of up to %s%s", r.Chunks, formatSize(int64(r.ChunkBytes)), roundsText(r.Rounds))
	if r.Partial {
		row("partial", "interrupted after %.3f s: %d of %d chunks hashed, %s of %s; there is no root",
			r.Seconds, *r.DoneChunks, r.Chunks, formatSize(*r.DoneBytes), formatSize(r.Bytes))
		return w.Flush()
	}
	row("ran on", "%s, %s", r.RanOn, plural(int64(r.Workers), "worker"))
	if len(r.Shares) > 1 {
		for _, s := range r.Shares {
			row("", "%s: %d chunks, %s, busy %.3f s, %.2f GB/s", s.On, s.Chunks, formatSize(s.Bytes), s.BusySeconds, s.GBPerSecond)
		}
	}
	for i, c := range r.Children {
		name := "children"
		if i > 0 {
			name = ""
		}
		died := ""
		if c.Died > 0 {
			died = fmt.Sprintf(", %d died, the last one because: %s", c.Died, c.LastDeath)
		}
		row(name, "gpu %d: %d started%s", c.Ordinal, c.Started, died)
	}
	row("verified", "%s", r.verifiedText())
	row("time", "%.3f s, %.2f GB/s", r.Seconds, r.GBPerSecond)
	if r.Out != "" {
		row("digests", "%s", r.Out)
	}
	row("root", "%s", r.Root)
	return w.Flush()
}

func (r *jobReport) verifiedText() string {
	switch r.VerifyMode {
	case "none":
		return "nothing, as asked"
	case "sample":
		return fmt.Sprintf("%d of %d chunks with crypto/sha256, sample seed %d", r.Verified, r.Chunks, r.VerifySeed)
	default:
		return fmt.Sprintf("all %d chunks with crypto/sha256", r.Verified)
	}
}

func roundsText(rounds uint32) string {
	if rounds == 0 {
		return ""
	}
	return fmt.Sprintf(", %s more", plural(int64(rounds), "round"))
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
