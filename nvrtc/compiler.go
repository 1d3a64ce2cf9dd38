package nvrtc

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/artifact"
	"github.com/purecuda/purecuda/internal/flight"
)

// Compiler compiles programs once. What was compiled before, by this process or an earlier one, is
// read from the disk cache. Callers that want the same at the same time share one compile. It is
// safe for concurrent use and needs no closing.
//
// It keeps nothing in memory. Without the disk cache, calls one after the other compile
// each time.
type Compiler struct {
	open    func() (*loaded, error) // at the first call; later ones return the same
	known   atomic.Pointer[facts]
	cache   *artifact.Cache
	flights flight.Group[artifact.Key, *Artifact]
	log     *slog.Logger
	config  Config

	compiles, failures, shared, uncached atomic.Uint64
	compileTime                          atomic.Int64
}

// Config says how a [Compiler] or a [Linker] caches. The zero value is right for most programs.
type Config struct {
	// CacheDir is the folder of the disk cache. The default is what PURECUDA_CACHE_DIR
	// says, or else "purecuda" in the user's cache directory. "off" turns it off.
	CacheDir string
	// CacheLimit is the size in bytes that the disk cache is kept below; 0 is 1 GiB.
	CacheLimit int64
	// Logger hears of trouble with the disk cache, and at level debug of every
	// compile. The default is silence.
	Logger *slog.Logger
}

// NewCompiler makes a compiler of an NVRTC that is loaded. A disk cache that cannot be used is
// no error: the log says so, and everything is compiled.
func NewCompiler(api API, config Config) (*Compiler, error) {
	known, err := factsOf(api)
	if err != nil {
		return nil, err
	}
	return newCompiler(known, func() (*loaded, error) { return &loaded{api, known}, nil }, config), nil
}

// OpenCompiler makes a compiler of the NVRTC of this machine. An earlier process may have left word
// in the disk cache of the one that it found. If that is still there, it is loaded when something
// has to be compiled, and not at all for what the cache has. Otherwise it is loaded at once. The
// error is from [Open].
func OpenCompiler(config Config) (*Compiler, error) {
	return openCompiler(config, func() (API, string, error) {
		library, err := Open()
		if err != nil {
			return nil, "", err
		}
		return library, library.file, nil
	})
}

// openCompiler is OpenCompiler with another way to load a library, which names its file.
func openCompiler(config Config, load func() (api API, file string, err error)) (*Compiler, error) {
	records := artifact.Open(artifact.Config{Dir: config.CacheDir, Limit: config.CacheLimit}) // the other one logs
	open := sync.OnceValues(func() (*loaded, error) {
		api, file, err := load()
		if err != nil {
			return nil, err
		}
		found, err := factsOf(api)
		if err != nil {
			return nil, err
		}
		remember(records, file, found)
		return &loaded{api, found}, nil
	})
	known := recall(records)
	if known == nil {
		l, err := open()
		if err != nil {
			return nil, err
		}
		known = l.facts
	}
	return newCompiler(known, open, config), nil
}

func newCompiler(known *facts, open func() (*loaded, error), config Config) *Compiler {
	c := &Compiler{open: open, log: config.Logger, config: config}
	c.known.Store(known)
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.cache = artifact.Open(artifact.Config{Dir: config.CacheDir, Limit: config.CacheLimit, Logger: config.Logger})
	return c
}

// load loads NVRTC to compile with, and returns what is known of it. If that is not what the
// record said, it is known from then on.
func (c *Compiler) load() (API, *facts, error) {
	l, err := c.open()
	if err != nil {
		return nil, nil, err
	}
	known := c.known.Load()
	if !l.facts.equal(known) {
		c.known.Store(l.facts)
		known = l.facts
	}
	return l.api, known, nil
}

// Config is what the compiler was made with.
func (c *Compiler) Config() Config {
	if c == nil {
		return Config{}
	}
	return c.config
}

// Version is NVRTC's.
func (c *Compiler) Version() driver.Version {
	if c.check() != nil {
		return 0
	}
	return c.known.Load().Version
}

// check refuses a compiler that was never made.
func (c *Compiler) check() error {
	if c == nil || c.known.Load() == nil {
		return driver.Errorf(driver.ErrInvalidArgument, "a compiler that was never made")
	}
	return nil
}

// TargetFor is [TargetFor] with the compiler's NVRTC.
func (c *Compiler) TargetFor(device int, version driver.Version) (Target, error) {
	if err := c.check(); err != nil {
		return Target{}, err
	}
	return c.known.Load().target(device, version)
}

// Compile returns the program as code for the target, from the disk cache or compiled. In the one
// case it blocks for about 0.1 ms, and for as long as it takes to read the headers on disk that the
// program may include. In the other it blocks as long as [Compile]. The image may be shared with
// other callers: do not change it.
//
// When ctx ends, the wait ends with its cause. The compile ends too once nobody waits
// for it, if NVRTC can (12.8 on); otherwise it runs to its end and fills the cache.
//
// Errors are as from [Compile], and are not cached. A program that may read what is not
// known (a header named by a macro, options in Extra that name files) is not cached: it is
// compiled at every call.
func (c *Compiler) Compile(ctx context.Context, p Program, t Target) (*Artifact, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, errNoContext()
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	known := c.known.Load()
	wanted, why := key(p, t, known)
	if why != "" {
		c.uncached.Add(1)
		c.log.Debug("purecuda: a program is not cached", "program", p.name(), "reason", why)
		api, _, err := c.load()
		if err != nil {
			return nil, err
		}
		return c.count(Compile(ctx, api, p, t))
	}
	image, shared, err := c.flights.Do(ctx, wanted, func(ctx context.Context) (*Artifact, error) {
		if image, ok := c.cached(wanted, t); ok {
			return image, nil
		}
		api, found, err := c.load()
		if err != nil {
			return nil, err
		}
		image, err := c.count(compile(ctx, api, found.Version, p, t))
		if err == nil && found == known { // otherwise the key belongs to another NVRTC
			c.cache.Put(wanted, image.encode())
		}
		return image, err
	})
	if shared {
		c.shared.Add(1)
	}
	return image, err
}

// cached reads an image from the disk cache.
func (c *Compiler) cached(key artifact.Key, t Target) (*Artifact, bool) {
	content, ok := c.cache.Get(key)
	if !ok {
		return nil, false
	}
	return decodeArtifact(content, t)
}

// count counts a compile.
func (c *Compiler) count(image *Artifact, err error) (*Artifact, error) {
	if err != nil {
		c.failures.Add(1)
		return nil, err
	}
	c.compiles.Add(1)
	c.compileTime.Add(int64(image.CompileTime))
	c.log.Debug("purecuda: compiled", "target", image.Target.String(), "bytes", len(image.Code), "took", image.CompileTime)
	return image, nil
}

// Stats counts what a compiler has done.
type Stats struct {
	Compiles    uint64        // by NVRTC, that succeeded
	Failures    uint64        // programs that did not compile, and compiles that were cancelled
	CompileTime time.Duration // of Compiles, together
	Shared      uint64        // calls that shared another call's result
	Uncached    uint64        // calls whose program cannot be cached

	// The disk cache: entries found and not found, and the bytes of code and names.
	Hits, Misses            uint64
	BytesRead, BytesWritten uint64
	Evictions               uint64 // entries removed to make room
	CacheErrors             uint64 // damaged entries, files that could not be read or written
}

// Stats returns the counters.
func (c *Compiler) Stats() Stats {
	if c.check() != nil {
		return Stats{}
	}
	a := c.cache.Stats()
	return Stats{
		Compiles: c.compiles.Load(), Failures: c.failures.Load(), CompileTime: time.Duration(c.compileTime.Load()),
		Shared: c.shared.Load(), Uncached: c.uncached.Load(),
		Hits: a.Hits, Misses: a.Misses, BytesRead: a.BytesRead, BytesWritten: a.BytesWritten,
		Evictions: a.Evictions, CacheErrors: a.Errors,
	}
}

// CacheDir is the directory of the disk cache, or "" when it is off.
func (c *Compiler) CacheDir() string {
	if c.check() != nil {
		return ""
	}
	return c.cache.Dir()
}

// CacheSize returns how many entries the disk cache has, and their bytes. It reads the
// directory.
func (c *Compiler) CacheSize() (entries int, bytes int64, err error) {
	if err := c.check(); err != nil {
		return 0, 0, err
	}
	return c.cache.Size()
}

// ClearCache empties the disk cache, for all programs of the user.
func (c *Compiler) ClearCache() error {
	if err := c.check(); err != nil {
		return err
	}
	return c.cache.Clear()
}
