package runtime

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
)

// FallBack is asked before the CPU does work that a device should do. The reason is a few words that do not change,
// and the cause is the error behind it, or nil. It returns nil where the CPU may do the work. Under PolicyRequired it
// returns an error with the cause.
//
// The first call for each reason is logged: see [WithLogger]. It is a warning, or information where CUDA is absent. FallBack is safe for
// concurrent use. It makes no call of the driver, and later calls for a reason do not allocate.
func (rt *Runtime) FallBack(reason string, cause error) error {
	if rt == nil || rt.life == nil {
		return errNothing("runtime")
	}
	if rt.cfg.policy == PolicyRequired {
		e := driver.Errorf(driver.ErrRequired, "the policy is required, and the CPU must not do the work (%s)", reason)
		if cause == nil {
			return e
		}
		return fmt.Errorf("%w: %w", e, cause)
	}
	rt.mu.Lock()
	said := rt.fallbacks[reason]
	rt.fallbacks[reason] = true
	rt.mu.Unlock()
	if !said {
		level := slog.LevelWarn
		if rt.Outcome() == Absent {
			level = slog.LevelInfo
		}
		rt.log(level, "the CPU does work of a GPU, which is said once for each reason", "reason", reason, "cause", cause)
	}
	return nil
}

// log logs with the logger of the runtime, whatever that does. Without one, [slog.Default] hears what concerns where work is
// done, and nothing of less importance than slog.LevelInfo.
func (rt *Runtime) log(level slog.Level, text string, args ...any) {
	if rt.cfg.logger == nil && level < slog.LevelInfo {
		return
	}
	_ = contain.Hook(func() {
		logger := cmp.Or(rt.cfg.logger, slog.Default()) // of this moment
		logger.Log(context.Background(), level, text, args...)
	})
}
