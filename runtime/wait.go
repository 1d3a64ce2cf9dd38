package runtime

import (
	"context"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/wait"
)

// Synchronize waits until all work that is on the stream at the call is done, and returns the error
// of work that failed. When ctx ends first it returns ctx's cause; the work on the device goes on.
//
// A wait costs a goroutine, and neither a thread nor a core. It does not keep Close, Capture or
// Reset waiting.
func (s *Stream) Synchronize(ctx context.Context) error {
	if err := usable(ctx, s, "Stream.Synchronize"); err != nil {
		return err
	}
	return s.ctx.traceWait(ctx, s.id, func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		began := s.checks.begin()
		t, err := s.ticket("Stream.Synchronize")
		if err == nil {
			err = s.ctx.waited(ctx, t.Wait(ctx), s.id)
		}
		return s.checks.end(began, t.Number(), err)
	})
}

// AfterFunc runs f on a goroutine of its own. It calls f with nil once the work that is on the stream
// at the call is done. It calls f with the cause once the work has failed or will never be done. That
// is when the device is lost, after a Reset, and after a Close of the stream or the runtime. stop
// keeps f from running, and reports whether it did. Unless it is stopped, f runs exactly once.
//
// f may use CUDA and may block; nothing waits for it. A panic of f goes to the hook of
// [WithErrorHook].
func (s *Stream) AfterFunc(f func(error)) (stop func() bool) {
	none := func() bool { return false }
	if s == nil || s.ctx == nil {
		go contain.Call(func() error { f(errNothing("stream")); return nil }, func(error) {})
		return none
	}
	if f == nil {
		s.ctx.rt.report(driver.Errorf(driver.ErrInvalidArgument, "Stream.AfterFunc of no function"))
		return none
	}
	began := s.checks.beginPart()
	return s.afterWork(f, func(t wait.Ticket, err error) error { return s.checks.end(began, t.Number(), err) })
}

// afterWork runs f after the work that is on the stream, with what end makes of the outcome.
func (s *Stream) afterWork(f func(error), end func(wait.Ticket, error) error) (stop func() bool) {
	run := func(err error) {
		contain.Call(func() error { f(err); return nil }, s.ctx.rt.report)
	}
	t, err := s.ticket("Stream.AfterFunc")
	if err != nil {
		go run(err)
		return func() bool { return false }
	}
	return t.AfterFunc(func(err error) { run(end(t, s.ctx.waited(context.Background(), err, s.id))) })
}

// ticket marks the work that is on the stream. It leaves the gate before anybody waits, so that
// the beginning and the end of a capture, Close and Reset do not wait for that.
func (s *Stream) ticket(what string) (wait.Ticket, error) {
	if err := s.call(); err != nil {
		return wait.Ticket{}, err
	}
	defer s.end()
	if err := s.refuse(what, nothingRuns); err != nil {
		return wait.Ticket{}, err
	}
	s.stats.waits.Add(1)
	t, err := s.waits.Mark()
	return t, s.ctx.waited(context.Background(), err, s.id)
}

// waited names the stream, unless that is 0, in the error of a wait, which others may have as well.
// It puts the first cause in place of later sticky errors. What ctx ended with stays as it is.
func (c *Context) waited(ctx context.Context, err error, stream uint64) error {
	failed, ok := err.(*driver.Error)
	if !ok {
		return err
	}
	if own, _ := context.Cause(ctx).(*driver.Error); own == failed {
		return err
	}
	if first := c.rt.lost.Load(); first != nil && failed.Sticky {
		failed = first
	}
	named := *failed
	if named.Stream == 0 {
		named.Stream = stream
	}
	return &named
}

// openWaits prepares the waits of a generation. They have a binding of their own, because a call of
// a device that is lost may return when the context is another one.
func (c *Context) openWaits() (*wait.Device, error) {
	return c.rt.poller.Open(&driver.Binding{API: c.api, Context: c.bind.Context, Ordinal: c.device.Ordinal,
		NeedsCurrent: c.bind.NeedsCurrent, OnError: c.noteError, OnCleanup: c.rt.report}, wait.Config{})
}
