package driver

import (
	"errors"
	goruntime "runtime"
)

// Binding is a driver together with the context that calls are made in. It belongs to
// whoever made the context, and must not be copied or changed once it is in use. Its
// methods are safe for concurrent use.
//
// Calls that name a stream, an event or memory may be made on any thread, after Push and
// before Pop. Those that work in the current context (creating and allocating, above
// all) are made within Do. The methods with the names of those of [API] are such calls that Binding makes current where
// the driver wants that; all others are called by the field.
type Binding struct {
	API     API
	Context Context
	// Ordinal is the number of the device, for errors.
	Ordinal int
	// NeedsCurrent says that calls that name a stream need the context to be current on
	// this driver as well. None that was seen so far does; see runtime for the test.
	NeedsCurrent bool
	// OnError, if not nil, hears of every error that [Binding.Fault] makes, before the
	// caller does. It may add to the error, but must not keep it: the caller adds to it as
	// well. It may be called on any goroutine.
	OnError func(*Error)
	// OnCleanup, if not nil, hears of failures that no caller waits for.
	OnCleanup func(error)
}

func (b *Binding) check() error {
	if b == nil || b.API == nil {
		return Errorf(ErrInvalidArgument, "a Binding without a driver")
	}
	return nil
}

// Do runs f with the context current: on a locked thread, pushed before and popped
// after, so that a context that was current is current again.
func (b *Binding) Do(f func() error) error {
	if err := b.check(); err != nil {
		return err
	}
	if f == nil {
		return Errorf(ErrInvalidArgument, "Do takes a function that is not nil")
	}
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	if r := b.API.CtxPushCurrent(b.Context); r != Success {
		return b.Fault("cuCtxPushCurrent", r)
	}
	defer b.takeOff()
	return f()
}

// DoRelaxed is [Binding.Do] on a thread that takes no part in captures of streams. Calls that a
// capture forbids would otherwise end a capture of another goroutine.
func (b *Binding) DoRelaxed(f func() error) error {
	return b.Do(func() error {
		mode, r := b.API.ThreadExchangeStreamCaptureMode(CaptureRelaxed)
		switch {
		case r == Success:
			defer func() {
				if _, r := b.API.ThreadExchangeStreamCaptureMode(mode); r.Sticky() {
					b.Cleanup(b.Fault("cuThreadExchangeStreamCaptureMode", r))
				}
			}()
		case r.Sticky():
			return b.Fault("cuThreadExchangeStreamCaptureMode", r)
		}
		return f()
	})
}

// Push makes the context current where calls on a stream need that. It is the whole
// ceremony of the hot path: nothing, on drivers that were seen so far. After an error
// Pop must not be called.
func (b *Binding) Push() error {
	if b != nil && !b.NeedsCurrent {
		return nil
	}
	if err := b.check(); err != nil {
		return err
	}
	goruntime.LockOSThread()
	if r := b.API.CtxPushCurrent(b.Context); r != Success {
		goruntime.UnlockOSThread()
		return b.Fault("cuCtxPushCurrent", r)
	}
	return nil
}

// Pop ends what Push began.
func (b *Binding) Pop() {
	if b != nil && b.API != nil && b.NeedsCurrent {
		b.takeOff()
		goruntime.UnlockOSThread()
	}
}

// maxPops is how often a context is taken off a thread that stays there. A driver that fails as often does not work.
const maxPops = 32

// takeOff takes the context off the thread. If it stayed on, calls of others on this thread would go to the wrong device,
// or to a context that is gone after a reset. So it tries again as long as the context is there. No caller of ours can
// do anything about a driver that refuses.
func (b *Binding) takeOff() {
	_, first := b.API.CtxPopCurrent()
	for r, try := first, 1; r != Success && !r.Sticky() && try < maxPops; try++ {
		if current, asked := b.API.CtxGetCurrent(); asked == Success && current != b.Context {
			break // it is off all the same
		}
		if _, r = b.API.CtxPopCurrent(); r.Sticky() {
			first = r
		}
	}
	if first != Success {
		b.Cleanup(b.Fault("cuCtxPopCurrent", first))
	}
}

// Failed makes the error of a call, and nil of Success.
func (b *Binding) Failed(op string, r Result) error {
	if r == Success {
		return nil
	}
	return b.Fault(op, r)
}

// Fault makes the error of a result that is not Success, for callers that add to it.
func (b *Binding) Fault(op string, r Result) *Error {
	if b == nil {
		return Failed(op, r)
	}
	var e *Error
	if r == ResultSymbolMissing && b.API != nil {
		found, _ := b.API.DriverGetVersion()
		e = missingSymbol(op, found)
	} else {
		e = Failed(op, r)
	}
	if l, ok := b.API.(interface{ explain(function string) string }); ok && r == ResultImpossibleValue {
		e.Err = errors.New(l.explain(op))
	}
	e.Device = b.Ordinal
	if b.OnError != nil {
		b.OnError(e)
	}
	return e
}

// Cleanup reports an error that no caller waits for; nil is none.
func (b *Binding) Cleanup(err error) {
	if err != nil && b != nil && b.OnCleanup != nil {
		b.OnCleanup(err)
	}
}
