package callsite

import (
	"reflect"
	"runtime"
)

// A number is put on the stack of a goroutine: a function runs below stack frames that encode it. So a call finds out whether it
// comes from such a function, whatever context it has. That costs nothing until it is asked.

// enter calls f below the frames of a number, the lowest bit first.
//
//go:noinline
func enter(code uint64, f func()) { bit(code, f) }

func bit(code uint64, f func()) {
	switch {
	case code == 0:
		f()
	case code%2 == 0:
		zero(code/2, f)
	default:
		one(code/2, f)
	}
}

//go:noinline
func zero(rest uint64, f func()) { bit(rest, f) }

//go:noinline
func one(rest uint64, f func()) { bit(rest, f) }

var enterEntry, zeroEntry, oneEntry = entry(enter), entry(zero), entry(one)

func entry(f func(uint64, func())) uintptr { return reflect.ValueOf(f).Pointer() }

// maxFrameBytes is more than the bytes of code of each of these functions. It saves a search for most frames.
const maxFrameBytes = 4096

// marked returns the innermost number in a stack of [runtime.Callers].
func marked(stack []uintptr) (number uint64, found bool) {
	for _, pc := range stack {
		if pc-enterEntry > maxFrameBytes && pc-zeroEntry > maxFrameBytes && pc-oneEntry > maxFrameBytes {
			continue
		}
		f := runtime.FuncForPC(pc - 1)
		if f == nil {
			continue
		}
		switch f.Entry() {
		case zeroEntry:
			number *= 2
		case oneEntry:
			number = 2*number + 1
		case enterEntry:
			return number, true
		}
	}
	return 0, false
}
