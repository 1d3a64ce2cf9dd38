package isolate

import (
	"io"
	"os"
	"slices"
	"time"

	"github.com/purecuda/purecuda/driver"
)

// Option changes what [Open] or [Group.Do] does. Options of Open hold for all calls, and a call's come after them.
type Option func(*config)

type config struct {
	ofOpen      string // an option that a call must not have
	devices     []int
	streams     int
	queue       int
	queueWait   bool
	retries     int
	buffers     []*Buffer
	grace       time.Duration
	ready       time.Duration
	standby     bool
	restarts    int
	within      time.Duration
	environment []string
	output      io.Writer
	fallback    Fallback
	key         string
	keyed       bool // WithKey was given
	ofWorker    bool // Call: the devices are that of the worker
	keys        int
	stateBytes  int64
}

func defaults() config {
	return config{streams: 16, queue: 1024, grace: 50 * time.Millisecond, ready: 30 * time.Second,
		restarts: 3, within: time.Minute, output: os.Stderr, keys: 1024, stateBytes: 1 << 30}
}

// WithDevices keeps the devices with the given ordinals of the parent; without it there is a child for each.
func WithDevices(ordinals ...int) Option {
	return func(c *config) { c.devices = slices.Clone(ordinals) }
}

// WithStreams sets how many requests a child runs at the same time, each on a stream of its own. The default is 16. It is
// an option of Open only.
func WithStreams(n int) Option {
	return func(c *config) { c.streams, c.ofOpen = n, "WithStreams" }
}

// WithQueue sets how many requests may wait for a child. One more is [pool.ErrQueueFull]. The default is 1024. It is an
// option of Open only.
func WithQueue(requests int) Option {
	return func(c *config) { c.queue, c.ofOpen = requests, "WithQueue" }
}

// WithQueueWait lets a request wait until its context ends where the queue is full.
func WithQueueWait() Option { return func(c *config) { c.queueWait = true } }

// WithRetry repeats a request that failed, at most the given number of times, on another device where there is one. Part of
// the work may so be done twice: the function must give the same result then.
func WithRetry(times int) Option { return func(c *config) { c.retries = times } }

// WithBuffers gives the function buffers, as [Request.Buffers].
func WithBuffers(buffers ...*Buffer) Option {
	return func(c *config) { c.buffers = slices.Clone(buffers) }
}

// WithGrace sets how long a function may take to return after the context of its request has ended, before its child is killed.
// The default is 50 ms.
func WithGrace(d time.Duration) Option { return func(c *config) { c.grace = d } }

// WithReady sets how long a child may take to get ready; the default is 30 s. It is an option of Open only.
func WithReady(d time.Duration) Option {
	return func(c *config) { c.ready, c.ofOpen = d, "WithReady" }
}

// WithStandby keeps a second process for each device whose child is ready. It becomes the child when that dies, and then
// serves at once: it has opened the device, so that it takes the memory of a context there. It is an option of Open only.
func WithStandby() Option {
	return func(c *config) { c.standby, c.ofOpen = true, "WithStandby" }
}

// WithRestarts sets how often the child of a device may die within a time before the device is left out
// for as long. The default is 3 in a minute. The next child starts at once, or after a pause where the last two have never got ready. It is an option of Open only.
func WithRestarts(times int, within time.Duration) Option {
	return func(c *config) { c.restarts, c.within, c.ofOpen = times, within, "WithRestarts" }
}

// WithEnvironment gives the children these variables ("NAME=value") besides the parent's variables that they get in any case.
// These are what the system, Go, purecuda and NVIDIA's driver document, name by name. docs/isolation.md has the list. Tokens
// and keys are not among them. It is an option of Open only.
func WithEnvironment(variables ...string) Option {
	return func(c *config) { c.environment, c.ofOpen = slices.Clone(variables), "WithEnvironment" }
}

// WithOutput sets where the standard output and error of the children go; the default is the standard error of the
// parent. Write may block or panic: one goroutine at a time calls it, and up to 1 MiB waits for it. What is more is dropped, and a line
// says how much. It is an option of Open only.
func WithOutput(w io.Writer) Option {
	return func(c *config) { c.output, c.ofOpen = w, "WithOutput" }
}

// apply applies the options and checks the numbers.
func (c *config) apply(options []Option) error {
	for _, o := range options {
		if o != nil {
			o(c)
		}
	}
	for _, number := range []struct {
		option       string
		value, least int64
	}{
		{"WithStreams", int64(c.streams), 1}, {"WithQueue", int64(c.queue), 0}, {"WithRetry", int64(c.retries), 0},
		{"WithGrace", int64(c.grace), 0}, {"WithReady", int64(c.ready), 1},
		{"WithRestarts", int64(c.restarts), 1}, {"WithRestarts", int64(c.within), 1},
		{"WithStates", int64(c.keys), 0}, {"WithStates", c.stateBytes, 0},
	} {
		if number.value < number.least {
			return driver.Errorf(driver.ErrInvalidArgument, "%s(%d): want at least %d", number.option, number.value, number.least)
		}
	}
	if c.output == nil {
		c.output = io.Discard
	}
	return nil
}
