package isolate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/zero"
)

const (
	// ErrChildDied is the kind of the error of a request whose child ended before it answered. The cause
	// that the child could still tell is behind it.
	ErrChildDied driver.Kind = "ChildDied"
	// ErrGaveUp is the kind of the error of a request that no device takes, because their children have
	// died too often.
	ErrGaveUp driver.Kind = "GaveUp"
)

// RemoteError is an error of a function that is no [driver.Error]. Its text is all that comes from the child.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return zero.Or(e).Text }

// told is an error as a child sends it.
type told struct {
	Text               string
	Canceled, Deadline bool
	Driver             bool // the rest is known
	Kind               driver.Kind
	Op, Kernel, Detail string
	Code               driver.Result
	Device             int
	Stream             uint64
	Bytes, Free, Total uint64
	Sticky             bool
	Log                string
	Cause              *driver.Result // of the error behind it
	Check              *launch.CheckError
}

const (
	// maxTold is how many bytes of each text of an error a child sends. maxEncoded is how many all of it takes as JSON, which
	// has six bytes for one that it escapes.
	maxTold    = 64 << 10
	maxEncoded = 3 << 20
)

// EncodeError encodes an error for another process or host. One whose methods panic, or never come back to their goroutine, becomes one
// that says so.
func EncodeError(err error) []byte {
	var t told
	if failed := contain.Hook(func() { t = tell(err) }); failed != nil {
		t = told{Text: fmt.Sprintf("an error of type %T, whose methods panic or end their goroutine", err)}
	}
	text, _ := json.Marshal(t) // of these types it does not fail
	return text
}

func tell(err error) told {
	t := told{Text: short(err.Error()), Canceled: errors.Is(err, context.Canceled), Deadline: errors.Is(err, context.DeadlineExceeded)}
	if e, _ := errors.AsType[*launch.CheckError](err); e != nil {
		t.Check = &launch.CheckError{Block: e.Block, Thread: e.Thread, Text: short(e.Text)}
	}
	switch e, ok := errors.AsType[*driver.Error](err); {
	case ok && e == nil:
		t.Text = "an error of type *driver.Error that is nil"
	case ok:
		t.Driver, t.Kind, t.Op, t.Kernel, t.Detail = true, e.Kind, short(e.Op), short(e.Kernel), short(e.Detail)
		t.Code, t.Device, t.Stream, t.Sticky = e.Code, e.Device, e.Stream, e.Sticky
		t.Bytes, t.Free, t.Total, t.Log = e.Bytes, e.Free, e.Total, short(e.Log)
		if cause, ok := errors.AsType[*driver.Error](e.Err); ok && cause != nil {
			t.Cause = &cause.Code
		}
	}
	return t
}

func short(text string) string {
	if len(text) <= maxTold {
		return text
	}
	n := maxTold
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "..."
}

// DecodeError decodes an error of a process that has a device. A [driver.Error] keeps its kind, code and detail, and the code behind it. Ends of contexts
// are what they were, as are failed checks of kernels ([*launch.CheckError]). Others are a [*RemoteError].
func DecodeError(text []byte, device int) error {
	var t told
	if len(text) > maxEncoded {
		return driver.Errorf(ErrChildDied, "the child of device %d sent an error of %d bytes: want at most %d", device, len(text), maxEncoded)
	}
	if err := json.Unmarshal(text, &t); err != nil {
		return driver.Errorf(ErrChildDied, "the child of device %d sent an error that cannot be read: %w", device, err)
	}
	switch {
	case t.Check != nil:
		return t.Check
	case t.Driver:
		e := &driver.Error{Kind: t.Kind, Op: t.Op, Code: t.Code, Device: device, Stream: t.Stream, Kernel: t.Kernel,
			Bytes: t.Bytes, Free: t.Free, Total: t.Total, Sticky: t.Sticky, Detail: t.Detail, Log: t.Log}
		if t.Cause != nil && *t.Cause != driver.Success {
			e.Err = &driver.Error{Kind: driver.ErrDriverCallFailed, Code: *t.Cause, Device: device}
		}
		return e
	case t.Deadline:
		return context.DeadlineExceeded
	case t.Canceled:
		return context.Canceled
	}
	return &RemoteError{t.Text}
}

// poisoned tells whether a child is lost by an error.
func poisoned(err error) bool {
	e, _ := errors.AsType[*driver.Error](err)
	return e != nil && (e.Sticky || e.Kind == driver.ErrDeviceLost)
}
