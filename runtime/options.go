package runtime

import (
	"log/slog"

	"github.com/purecuda/purecuda/driver"
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
	onError   func(error)
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

// WithScore replaces [Score], by which devices are ordered.
func WithScore(score func(Device) float64) Option { return func(c *config) { c.score = score } }

// WithBudget replaces [Budget], the memory that one job may plan with.
func WithBudget(budget func(Device) uint64) Option { return func(c *config) { c.budget = budget } }

// WithLogger makes the runtime log what it finds and what it cannot report
// otherwise. Without it nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// WithErrorHook sets a function that hears of failures while cleaning up, which
// no caller waits for. It may be called from any goroutine and must not block.
func WithErrorHook(f func(error)) Option { return func(c *config) { c.onError = f } }
