package refs

import (
	"errors"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
)

// The reasons why a Ref is stale, in the order in which they are looked at.
const (
	reasonDropped   = "device state closed"
	reasonSuspended = "device shutting down"
	reasonRebuilt   = "context rebuilt"
)

// Check is why memory of a generation must not be used, or nil: the errors of [Ref.Access].
// Memory that is yet to be allocated has generation 0.
func (s *State) Check(of uint64) error {
	s = zero.Or(s)
	generation, status := split(s.word.Load())
	switch {
	case generation == 0:
		return driver.Errorf(driver.ErrInvalidArgument, "a State that was never made")
	case status == Closed:
		return s.stale(reasonDropped)
	case status == Suspended || status == Drained:
		return s.stale(reasonSuspended)
	case status == Lost:
		return s.lostError()
	case of != 0 && of != generation:
		return s.stale(reasonRebuilt)
	}
	return nil
}

// stale makes an error of kind RefStale. If the device was lost before, it shows the cause.
func (s *State) stale(reason string) *driver.Error {
	return &driver.Error{Kind: driver.ErrRefStale, Device: s.device, Detail: reason, Err: s.Lost()}
}

func (s *State) lostError() *driver.Error {
	err := &driver.Error{Kind: driver.ErrDeviceLost, Device: s.device, Sticky: true,
		Detail: "an earlier error has ended the use of CUDA in this process, and only a new process gets it back",
		Err:    s.Lost()}
	var first *driver.Error
	if err.Err == nil || errors.As(err.Err, &first) && !first.Sticky { // other devices go on
		err.Sticky, err.Detail = false, "an earlier error has ended the use of the device until it is revived"
	}
	return err
}

func (s *State) errorf(kind driver.Kind, format string, args ...any) *driver.Error {
	err := driver.Errorf(kind, format, args...)
	err.Device = s.device
	return err
}
