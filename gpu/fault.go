package gpu

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Error is why a kernel ended on the CPU: a panic in one of its threads, or a barrier that not all reach.
type Error struct {
	Block, Thread Dim3   // a negative number in Thread is not known: loops that gpuc writes do not always keep it
	Place         string // file:line of the kernel; empty where it is not known
	Err           error
}

// Error says what, where, and in which thread.
func (e *Error) Error() string {
	place := e.Place
	if place != "" {
		place += ": "
	}
	thread := fmt.Sprintf(", thread %v", e.Thread)
	if min(e.Thread.X, e.Thread.Y, e.Thread.Z) < 0 {
		thread = ""
	}
	return fmt.Sprintf("gpu: %s%v in block %v%s", place, e.Err, e.Block, thread)
}

// Unwrap returns the cause: the error that the kernel panicked with, if it was one.
func (e *Error) Unwrap() error { return e.Err }

// misuse is a panic of this package.
type misuse string

func fault(format string, args ...any) { panic(misuse(fmt.Sprintf(format, args...))) }

// abort ends a thread that waits while the launch has failed.
type abort struct{}

// failed makes the error of a thread that has panicked. It is called while the panic's stack is still there.
func failed(t *Thread, cause any) *Error {
	e := &Error{Block: t.block, Thread: t.thread, Place: place(3)}
	switch cause := cause.(type) {
	case error:
		e.Err = cause
	case misuse:
		e.Err = errors.New(string(cause))
	default:
		e.Err = fmt.Errorf("panic: %v", cause)
	}
	return e
}

// place is the first line on the stack that is neither Go's runtime nor this package: it is the kernel's.
func place(skip int) string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(skip, pcs[:])])
	for {
		f, more := frames.Next()
		own := strings.HasPrefix(f.Function, ownPackage+".") && !strings.HasSuffix(f.File, "_test.go")
		if f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") && !own {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}

const ownPackage = "github.com/purecuda/purecuda/gpu"
