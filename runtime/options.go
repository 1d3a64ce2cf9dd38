package runtime

import (
	"log/slog"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/refs"
)

// Option changes what [Open] does.
type Option func(*config)

type config struct {
	policy    Policy
	hasPolicy bool
	api       driver.API
	devices   []string
	score     func(Device) float64
	budget    func(Device) uint64
	logger    *slog.Logger
	nvml      func() (nvml.API, func() error, error) // nil where the driver is not the machine's
	memory    arena.DeviceConfig
	pinned    arena.PinnedConfig
	onState   func(refs.Change)
	onError   func(error)
	trace     *Trace

	compiler    *nvrtc.Compiler
	moduleCache uint64
}

// WithPolicy sets the policy; without it the environment variable
// PURECUDA_POLICY does.
func WithPolicy(p Policy) Option {
	return func(c *config) { c.policy, c.hasPolicy = p, true }
}

// WithDriver uses api in place of the machine's driver library, for example a
// simulated one from package drivertest.
func WithDriver(api driver.API) Option { return func(c *config) { c.api = api } }

// WithDevices keeps only the named devices: an ordinal ("0"), or a UUID or the
// beginning of one. "GPU-" before it may be left out unless only digits are left. It
// filters what CUDA_VISIBLE_DEVICES has left over. A name that no device has is an error of Open.
func WithDevices(names ...string) Option { return func(c *config) { c.devices = names } }

// WithScore replaces [Score], by which devices are ordered. FreeBytes of its argument is the free memory as NVML tells it, or
// 0. A score that panics is an error of Open. One of the program can ask package driver/nvml for more, such as how busy a device is.
func WithScore(score func(Device) float64) Option {
	return func(c *config) {
		if c.score = score; score == nil {
			c.score = Score
		}
	}
}

// WithBudget replaces [Budget], the memory that one job may plan with.
func WithBudget(budget func(Device) uint64) Option {
	return func(c *config) {
		if c.budget = budget; budget == nil {
			c.budget = Budget
		}
	}
}

// WithMemory says how the memory of each device is kept: how much is cached and how much
// may be used, whether it is zeroed or poisoned. With Sites,
// [Context.Leaks] names the lines that allocated. By default a thirty-second of the device's memory is cached, and
// [arena.DefaultCacheBytes] at least.
func WithMemory(memory arena.DeviceConfig) Option { return func(c *config) { c.memory = memory } }

// WithPinned says how much page-locked memory each context may have for [LeaseHost] and for copies of
// Go slices together, 128 MiB unless it is set. It says whether
// writes to returned buffers are looked for. [WithErrorHook] hears of these. A lease makes the copies
// give up buffers that they do not use. Where there is no memory for a buffer, the driver copies by
// itself, slower, and Stats.Copier says why. [AllocHost] does not count.
func WithPinned(pinned arena.PinnedConfig) Option { return func(c *config) { c.pinned = pinned } }

// WithStateHook sets a function that hears when a context stops to accept work, is rebuilt or
// lost. It may be called on any goroutine, must not block, and must not use CUDA.
func WithStateHook(f func(refs.Change)) Option { return func(c *config) { c.onState = f } }

// WithModuleCache sets how many bytes of code [Context.CachedModule] and [Context.Compile]
// keep loaded on each device: cubins and PTX as they are, which is about what they take there.
// What is in use counts and is never unloaded. The default is 256 MiB; with 0 a module is
// unloaded when its last lease is closed.
func WithModuleCache(bytes uint64) Option { return func(c *config) { c.moduleCache = bytes } }

// WithCompiler uses a compiler in place of the NVRTC of the machine, with the disk cache that
// it was made with: for example a simulated one from package nvrtctest.
func WithCompiler(compiler *nvrtc.Compiler) Option {
	return func(c *config) { c.compiler = compiler }
}

// WithLogger makes the runtime log what it finds and what it cannot report otherwise. Without it [slog.Default] hears of
// losses, and of the first work that goes to the CPU for each reason. With slog.DiscardHandler nothing is logged. A logger
// must not use CUDA.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// WithErrorHook sets a function that hears of failures while cleaning up, which
// no caller waits for. It may be called from any goroutine and must not block.
func WithErrorHook(f func(error)) Option {
	return func(c *config) {
		if c.onError = f; f == nil {
			c.onError = func(error) {}
		}
	}
}
