package main

import (
	"context"
	"fmt"
	"log/slog"
	"text/tabwriter"

	"github.com/purecuda/purecuda/cmd/smoke/internal/cli"
	"github.com/purecuda/purecuda/internal/artifact"
	"github.com/purecuda/purecuda/internal/cleantext"
	"github.com/purecuda/purecuda/internal/job"
)

// cacheCommand tells of the disk cache of compiled code, which all programs of the user
// share, and empties it.
func (a *app) cacheCommand() *cli.Command {
	command := func(name, usage string, f func() error, sub ...*cli.Command) *cli.Command {
		return &cli.Command{
			Name: name, Usage: usage, Commands: sub,
			Action: func(_ context.Context, cmd *cli.Command) error {
				if err := refuse(cmd); err != nil {
					return err
				}
				return f()
			},
		}
	}
	return command("cache", "show where compiled kernels are kept, and how much there is", a.showCache,
		command("clear", "remove all compiled kernels, those of other programs of the user too", a.clearCache))
}

// cacheReport is what the command prints. Directory is empty where the cache is off.
type cacheReport struct {
	Directory  string `json:"directory"`
	Entries    int    `json:"entries"`
	Bytes      int64  `json:"bytes"`
	LimitBytes int64  `json:"limit_bytes"`
}

func (a *app) showCache() error {
	cache := a.openCache()
	entries, bytes, err := cache.Size()
	if err != nil {
		return cacheError(job.ReadFailed, "the cache cannot be read", err)
	}
	return a.printCache(cacheReport{Directory: cache.Dir(), Entries: entries, Bytes: bytes, LimitBytes: cache.Limit()})
}

func (a *app) clearCache() error {
	if err := a.openCache().Clear(); err != nil {
		return cacheError(job.OutputFailed, "the cache cannot be emptied", err)
	}
	return a.showCache()
}

// openCache opens the cache that programs use. Why it cannot be used is one line on stderr.
func (a *app) openCache() *artifact.Cache {
	lines := slog.NewTextHandler(a.stderr, &slog.HandlerOptions{ReplaceAttr: func(_ []string, at slog.Attr) slog.Attr {
		if at.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return at
	}})
	return artifact.Open(artifact.Config{Logger: slog.New(lines)})
}

func cacheError(kind job.Kind, what string, err error) error {
	return &failure{kind: string(kind), detail: what + ": " + err.Error(), code: exitFailed}
}

func (a *app) printCache(r cacheReport) error {
	if a.form == formJSON {
		return writeJSON(a.stdout, r)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	if r.Directory == "" {
		_, _ = fmt.Fprintf(w, "directory\tnone, the cache is off (%s)\n", artifact.DirVariable)
		return w.Flush()
	}
	_, _ = fmt.Fprintf(w, "directory\t%s\n", cleantext.String(r.Directory)) // Flush tells
	_, _ = fmt.Fprintf(w, "size\t%s, %s\n", plural(int64(r.Entries), "kernel file"), formatSize(r.Bytes))
	_, _ = fmt.Fprintf(w, "limit\t%s\n", formatSize(r.LimitBytes))
	return w.Flush()
}
