package cluster

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// Option changes what [Open], [Serve] or a call does. Options of Open hold for all calls, and the options of a call come after
// them.
type Option func(*config)

// Where an option is given.
const (
	atOpen  = "Open"
	atCall  = "calls"
	atServe = "Serve"
)

// option is an option for some doors. At another one nobody would read it, which is an error.
func option(name string, set func(*config), doors ...string) Option {
	return func(c *config) {
		if slices.Contains(doors, c.door) {
			set(c)
			return
		}
		c.misplaced = append(c.misplaced, driver.Errorf(driver.ErrInvalidArgument, "%s is an option of %s, and not of %s", name, strings.Join(doors, " and "), c.door))
	}
}

type config struct {
	door      string  // where the options are given
	misplaced []error // options that are not for it

	name     string
	storage  jetstream.StorageType
	replicas int   // or 0: as many as there are servers, up to three
	maxBytes int64 // or 0: the default
	ackWait  time.Duration

	retries  int
	deadline time.Duration
	patience time.Duration
	verify   float64
	progress func(done, n int)
	fallback func(ctx context.Context, p Piece) ([]byte, error)

	sameBuild bool
	log       *slog.Logger

	hostName string
	slots    int
	memory   int64
	drain    time.Duration
	roots    map[string]string
	urls     []string
	cacheDir string
	cacheMax int64
	cpu      map[string]func(ctx context.Context, r *isolate.Request) ([]byte, error)
	observe  func(Host)
	trace    *runtime.Trace
}

func configured(door string, base *config, options []Option) (*config, error) {
	c := &config{name: defaultName, storage: jetstream.MemoryStorage, ackWait: ackWait, retries: 2, deadline: time.Minute, patience: 10 * time.Second, memory: 4 << 30, log: slog.New(slog.DiscardHandler), drain: 30 * time.Second}
	if base != nil {
		*c = *base
	}
	c.door = door
	for _, o := range options {
		if o != nil {
			o(c)
		}
	}
	if len(c.misplaced) > 0 {
		return nil, errors.Join(c.misplaced...)
	}
	if c.sameBuild && Build() == "" {
		return nil, driver.Errorf(driver.ErrUnsupported, "WithSameBuild: the file of this program cannot be read")
	}
	if c.hostName == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "host"
		}
		c.hostName = tokenOf(host) + "-" + strconv.Itoa(os.Getpid())
	}
	for _, number := range []struct {
		option       string
		value, least int64
	}{
		{"WithReplicas", int64(c.replicas), 0}, {"WithMaxBytes", c.bytes(), minStream}, {"WithRetry", int64(c.retries), 0},
		{"WithPieceDeadline", int64(c.deadline), int64(time.Millisecond)}, {"WithPatience", int64(c.patience), 0},
		{"WithSlots", int64(c.slots), 0}, {"WithMemory", c.memory, 1 << 20}, {"WithDrain", int64(c.drain), 0}, {"WithCache", c.cacheMax, 0},
	} {
		if number.value < number.least {
			return nil, driver.Errorf(driver.ErrInvalidArgument, "%s(%d): want at least %d", number.option, number.value, number.least)
		}
	}
	if c.deadline > maxDeadline {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "WithPieceDeadline(%v): want at most %v", c.deadline, maxDeadline)
	}
	if !(c.verify >= 0 && c.verify <= 1) {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "WithVerify(%v): want 0 to 1", c.verify)
	}
	return c, errors.Join(checkToken("name of the cluster", c.name), checkToken("name of the host", c.hostName))
}

// WithName sets the name of the cluster, which begins all subjects. The default is "purecuda". It is an option of Open
// and Serve.
func WithName(name string) Option {
	return option("WithName", func(c *config) { c.name = name }, atOpen, atServe)
}

// WithFileStorage lets the server keep the queue on disk, where Open makes its streams. Streams that exist in memory are an error. Without it they are in
// memory, which is faster and good enough: the caller owns the truth. It is an option of Open.
func WithFileStorage() Option {
	return option("WithFileStorage", func(c *config) { c.storage = jetstream.FileStorage }, atOpen)
}

// WithReplicas sets on how many servers the streams of Open are. The default, 0, is as many as the servers are, up to three. Streams
// that exist are changed; by default they only get more. It is an option of Open.
func WithReplicas(n int) Option {
	return option("WithReplicas", func(c *config) { c.replicas = n }, atOpen)
}

// WithMaxBytes limits each of the streams of Open, and the object store that it makes. The default is 1 GiB, or what the streams have that
// exist. It is an option of Open.
func WithMaxBytes(n int64) Option {
	return option("WithMaxBytes", func(c *config) { c.maxBytes = n }, atOpen)
}

// WithRetry sets how often a piece that failed is repeated, on another host where there is one. The default is 2.
func WithRetry(times int) Option {
	return option("WithRetry", func(c *config) { c.retries = times }, atOpen, atCall)
}

// WithPieceDeadline sets how long a piece may run on a host, up to 30 days. The default is a minute.
func WithPieceDeadline(d time.Duration) Option {
	return option("WithPieceDeadline", func(c *config) { c.deadline = d }, atOpen, atCall)
}

// WithPatience sets how long a call goes on without a host that serves its function, without a connection, or with streams that
// accept and acknowledge nothing. The default is 10 s.
func WithPatience(d time.Duration) Option {
	return option("WithPatience", func(c *config) { c.patience = d }, atOpen, atCall)
}

// WithVerify has a sample of the pieces done again on another host, and compares the results. 0.01 is one in a hundred.
// A difference is [ErrMismatch]. The default is 0.
func WithVerify(share float64) Option {
	return option("WithVerify", func(c *config) { c.verify = share }, atOpen, atCall)
}

// WithProgress sets a function that hears how many of the n pieces of a call are done. It must return soon.
func WithProgress(f func(done, n int)) Option {
	return option("WithProgress", func(c *config) { c.progress = f }, atOpen, atCall)
}

// WithFallback sets a function that does pieces in this process where the hosts do not. It is called on all cores, as with
// pool.Parallel, and may use a pool of this machine. The report says why.
func WithFallback(f func(ctx context.Context, p Piece) ([]byte, error)) Option {
	return option("WithFallback", func(c *config) { c.fallback = f }, atOpen, atCall)
}

// WithHostName sets the name of a host in reports, of letters, digits, - and _. It is part of subjects, and the rights of a user of
// the server can be bound to it ([HostPermissions]). Two Serves of one name count as the same host for [WithVerify].
// The default is the machine's name and the number of the process. It is an option of Serve.
func WithHostName(name string) Option {
	return option("WithHostName", func(c *config) { c.hostName = name }, atServe)
}

// WithSlots sets how many pieces each device has at the same time. The default is 2: one gets its data while the other
// is computed. It is an option of Serve.
func WithSlots(n int) Option { return option("WithSlots", func(c *config) { c.slots = n }, atServe) }

// WithMemory limits the bytes that the data of pieces take on the host, and in the memory that it shares with its children. A
// quarter is for data that come with messages: pieces without room go to other hosts. The rest is for references, for what comes
// through the object store and for [Piece.Result]: pieces wait for room, and one that needs more than the rest fails. What functions
// return comes on top, at most 16 MiB for each slot. The default is 4 GiB. It is an option of Serve.
func WithMemory(bytes int64) Option {
	return option("WithMemory", func(c *config) { c.memory = bytes }, atServe)
}

// WithDrain sets how long pieces may run on after the context of Serve has ended. The default is 30 s. It is an option of
// Serve.
func WithDrain(limit time.Duration) Option {
	return option("WithDrain", func(c *config) { c.drain = limit }, atServe)
}

// WithRoot lets references name the files below a folder, as "file:NAME/PATH". Links out of the folder are refused. It is an
// option of Serve.
func WithRoot(name, folder string) Option {
	return option("WithRoot", func(c *config) {
		roots := map[string]string{name: folder}
		for k, v := range c.roots {
			if k != name {
				roots[k] = v
			}
		}
		c.roots = roots
	}, atServe)
}

// WithURL lets references name what lies below a URL, such as "https://data.example.org/set/". It is an option of Serve.
func WithURL(prefix string) Option {
	return option("WithURL", func(c *config) { c.urls = append(c.urls[:len(c.urls):len(c.urls)], prefix) }, atServe)
}

// WithCache keeps data of references that have a digest in a folder, up to a number of bytes. The folder belongs to one
// Serve at a time. It is an option of Serve.
func WithCache(folder string, bytes int64) Option {
	return option("WithCache", func(c *config) { c.cacheDir, c.cacheMax = folder, bytes }, atServe)
}

// WithCPU sets what a host without usable CUDA does in place of a function. It needs a pool in place of a group. It is an
// option of Serve.
func WithCPU(name string, f func(ctx context.Context, r *isolate.Request) ([]byte, error)) Option {
	return option("WithCPU", func(c *config) {
		all := map[string]func(ctx context.Context, r *isolate.Request) ([]byte, error){name: f}
		for k, v := range c.cpu {
			if k != name {
				all[k] = v
			}
		}
		c.cpu = all
	}, atServe)
}

// WithObserver sets a function that gets what a host tells about itself, once a second and at the end. Probes and metrics come
// from there. It is an option of Serve.
func WithObserver(f func(Host)) Option {
	return option("WithObserver", func(c *config) { c.observe = f }, atServe)
}
