package runtime

import (
	"errors"

	"github.com/purecuda/purecuda/driver"
)

// refuse is the error of a call that a stream cannot record, which makes the capture
// fail as well, or nil if the stream is not captured.
func (s *Stream) refuse(what, why string) error {
	c := s.capture.Load()
	if c == nil {
		return nil
	}
	err := s.captureError(what, why)
	c.fail(err)
	return err
}

func (s *Stream) captureError(what, why string) *driver.Error {
	err := driver.Errorf(driver.ErrCaptureFailed, "%s while the stream is captured: %s", what, why)
	err.Device, err.Stream = s.ctx.device.Ordinal, s.id
	return err
}

const (
	nothingRuns = "nothing runs that could be waited for"
	pageable    = "it copies from or to Go memory and waits; use a HostBuffer"
)

// mayWait refuses to wait for an event that marks a place in a graph. The event was entered.
func (e *Event) mayWait(what string) error {
	c := e.capture.Load()
	if c == nil {
		return nil
	}
	err := driver.Errorf(driver.ErrCaptureFailed, "%s of an event that was recorded while its stream was captured: "+
		"it marks a place in a graph, and no work, until it is recorded again", what)
	err.Device = e.ctx.device.Ordinal
	if !c.sealed.Load() {
		c.fail(err)
	}
	return err
}

// joins is the capture that a stream joins by waiting for an event, which was entered, or nil.
func (s *Stream) joins(e *Event) (*capture, error) {
	c := e.capture.Load()
	own := s.capture.Load()
	switch {
	case c == nil || c == own:
		return nil, nil
	case c.sealed.Load():
		return nil, e.mayWait("Stream.Wait")
	case own != nil:
		return nil, s.refuse("Stream.Wait", "the event was recorded in another capture, and two do not merge")
	}
	return c, nil
}

// capturedError is why a device is not waited for while a stream of it is captured.
func (c *Context) capturedError(what string) error {
	err := driver.Errorf(driver.ErrCaptureFailed, "%s while a stream of the device is captured: %s", what, nothingRuns)
	err.Device = c.device.Ordinal
	return err
}

// isCaptured reports whether an error is from capturedError, and not from the driver.
func isCaptured(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && e != nil && e.Kind == driver.ErrCaptureFailed && e.Code == driver.Success
}

// explainCapture says what the driver's errors about captures mean.
func explainCapture(e *driver.Error) {
	texts := map[driver.Result]string{
		driver.ResultStreamCaptureUnsupported: "this cannot be done while a stream is captured",
		driver.ResultStreamCaptureInvalidated: "an earlier call has made the capture fail",
		driver.ResultStreamCaptureMerge:       "this would merge two captures",
		driver.ResultStreamCaptureUnjoined:    "a stream that joined the capture has work that the first stream does not wait for: record an event there and wait for it here",
		driver.ResultStreamCaptureIsolation:   "the stream waits for an event that was recorded outside of the capture: wait before, or record it within",
		driver.ResultStreamCaptureImplicit:    "this would make the legacy default stream part of the capture",
		driver.ResultCapturedEvent:            "the event marks a place in a graph, and no work",
	}
	if e.Detail == "" {
		e.Detail = texts[e.Code]
	}
}
