package doctor

import (
	"context"
	"log/slog"

	"github.com/purecuda/purecuda/internal/artifact"
)

// Cache is the disk cache of compiled code.
type Cache struct {
	State      string `json:"state"`               // "on", "off" as asked, or "unusable"
	Directory  string `json:"directory,omitempty"` // where it is, or would be
	Reason     string `json:"reason,omitempty"`    // why it is unusable
	Entries    int    `json:"entries"`
	Bytes      int64  `json:"bytes"`
	LimitBytes int64  `json:"limit_bytes"`
}

func cache() Cache {
	heard := &trouble{}
	opened := artifact.Open(artifact.Config{Logger: slog.New(heard)})
	c := Cache{State: "on", Directory: opened.Dir(), LimitBytes: opened.Limit()}
	var err error
	switch {
	case heard.reason != "":
		c.State, c.Directory, c.Reason = "unusable", heard.dir, heard.reason
	case c.Directory == "":
		c.State = "off"
	default:
		if c.Entries, c.Bytes, err = opened.Size(); err != nil {
			c.State, c.Reason = "unusable", err.Error()
		}
	}
	return c
}

// trouble is a log that keeps why the cache is not used.
type trouble struct{ dir, reason string }

func (*trouble) Enabled(context.Context, slog.Level) bool { return true }
func (t *trouble) WithAttrs([]slog.Attr) slog.Handler     { return t }
func (t *trouble) WithGroup(string) slog.Handler          { return t }

func (t *trouble) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "dir":
			t.dir = a.Value.String()
		case "error":
			t.reason = oneLine(a.Value.String())
		}
		return true
	})
	return nil
}
