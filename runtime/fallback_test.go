package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// logged replaces the default logger, and returns what it has written.
func logged(t *testing.T) *bytes.Buffer {
	log, before := new(bytes.Buffer), slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	return log
}

// Work that goes to the CPU is logged once for each reason, by the default logger of the moment.
func TestFallBackIsLogged(t *testing.T) {
	for _, c := range []struct {
		name, level string
		config      drivertest.Config
		options     []runtime.Option
		lose        bool
	}{
		{name: "absent", level: "INFO", config: drivertest.Config{InitResult: driver.ResultNoDevice}},
		{name: "off", level: "INFO", options: []runtime.Option{runtime.WithPolicy(runtime.PolicyOff)}},
		{name: "lost", level: "WARN", lose: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			gpu := drivertest.New(c.config)
			rt, err := runtime.Open(append([]runtime.Option{runtime.WithDriver(gpu)}, c.options...)...)
			require.NoError(t, err)
			defer rt.Close()
			if c.lose {
				s := newStream(t, contextOf(t, rt))
				gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
				_, err := s.Query()
				require.Error(t, err)
			}
			log := logged(t)
			var calls sync.WaitGroup
			for range 8 {
				calls.Go(func() { assert.NoError(t, rt.FallBack("first", rt.Err())) })
			}
			calls.Wait()
			assert.Equal(t, 1, strings.Count(log.String(), "\n"), log)
			assert.Contains(t, log.String(), "level="+c.level)
			assert.Contains(t, log.String(), "reason=first")
			var e *driver.Error
			require.ErrorAs(t, rt.Err(), &e)
			assert.Contains(t, log.String(), string(e.Kind))
			assert.NoError(t, rt.FallBack("second", nil))
			assert.Equal(t, 2, strings.Count(log.String(), "\n"), log)
		})
	}
}

// After a loss nothing goes to the CPU under the policy required, and the cause stays in the error.
func TestFallBackWhereAGPUIsRequired(t *testing.T) {
	log := logged(t)
	rt, gpu := openFaulty(t, drivertest.Config{}, runtime.WithPolicy(runtime.PolicyRequired))
	s := newStream(t, contextOf(t, rt))
	gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
	_, err := s.Query()
	require.Error(t, err)
	said := strings.Count(log.String(), "\n")
	err = rt.FallBack("lost", rt.Err())
	require.ErrorIs(t, err, driver.ErrRequired)
	assert.ErrorIs(t, err, driver.ErrDeviceLost)
	assert.ErrorIs(t, err, driver.ResultIllegalAddress)
	assert.ErrorIs(t, rt.FallBack("no cause", nil), driver.ErrRequired)
	assert.Equal(t, said, strings.Count(log.String(), "\n"), log)
	assert.Contains(t, log.String(), "CUDA is lost for this process")
}

// badHandler is a log handler that fails as it is told.
type badHandler struct {
	slog.Handler
	fail func()
}

func (h badHandler) Enabled(context.Context, slog.Level) bool { h.fail(); return true }

// badError is an error whose method panics where it is a nil pointer.
type badError struct{ text string }

func (e *badError) Error() string { return e.text }

// Loggers and errors of the program whose methods panic, or end the goroutine, end nothing of the runtime.
func TestBadLoggersAndErrors(t *testing.T) {
	for name, fail := range map[string]func(){
		"panic":  func() { panic((*badError)(nil)) },
		"goexit": func() { goruntime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			rt, gpu := openFaulty(t, drivertest.Config{}, runtime.WithLogger(slog.New(badHandler{fail: fail})),
				runtime.WithErrorHook(func(error) { fail() }))
			s := newStream(t, contextOf(t, rt))
			assert.NoError(t, rt.FallBack("test", errors.New("cause")))
			gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
			_, err := s.Query()
			assert.ErrorIs(t, err, driver.ErrDeviceLost)
			assert.ErrorIs(t, rt.Err(), driver.ErrDeviceLost)
		})
	}
	log := logged(t)
	rt := openOn(t, drivertest.ForTest(t, drivertest.Config{}))
	assert.NoError(t, rt.FallBack("typed nil", (*badError)(nil)))
	assert.Contains(t, log.String(), "typed nil")
}
