package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Pieces are those of a function that a host did, since the beginning.
type Pieces struct {
	Done, Failed uint64
	// Ran is how long they ran together.
	Ran time.Duration
}

// build is read once, because it takes some milliseconds.
var build = sync.OnceValue(func() string {
	f, err := os.Open("/proc/self/exe") // also where the file was replaced since
	if err != nil {
		var name string
		if name, err = os.Executable(); err == nil {
			f, err = os.Open(name)
		}
	}
	if err != nil {
		return ""
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
})

// Build names the build of this program: the first 16 digits of SHA-256 of its file. It is empty where the file cannot be read. It is
// safe for concurrent use.
func Build() string { return build() }

// WithSameBuild lets hosts and callers of this build meet no others: on the server and in [Host.Functions], "/" and [Build] follow the name
// of a function. Rights are for these names ([HostPermissions]). The server forgets the consumer of a function of a build when nobody has
// asked it for pieces for a day. It is an option of Open, of calls and of Serve, and both sides need it.
func WithSameBuild() Option {
	return option("WithSameBuild", func(c *config) { c.sameBuild = true }, atOpen, atCall, atServe)
}

// keepBuild is how long the server keeps what hosts take the pieces of a build from, while none asks.
const keepBuild = 24 * time.Hour

// wire is the name of a function on the server.
func (c *config) wire(function string) string {
	if c.sameBuild {
		return function + "/" + Build()
	}
	return function
}

// WithLogger sets who hears what nobody else is told. That is changes of what a host can run, results that could not be published,
// streams that were made again, and work of the fallback. Pieces that failed are of level debug. The default discards all. It is an option
// of Open and Serve.
func WithLogger(l *slog.Logger) Option {
	return option("WithLogger", func(c *config) {
		if c.log = l; l == nil {
			c.log = slog.New(slog.DiscardHandler)
		}
	}, atOpen, atServe)
}
