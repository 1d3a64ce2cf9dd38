// Package mark puts numbers on the stack of a goroutine: functions run below stack frames that encode one. So a call finds out
// whether it comes from such a function, whatever context it has. That costs nothing until it is asked.
package mark

import (
	"reflect"
	"runtime"
)

// Kind keeps the numbers of different users apart.
type Kind uint64

const (
	Build  Kind = iota // a build of runtime.ProbeOnce
	Caller             // the stack of the goroutine that waits, for package callsite
	kinds
)

// Do calls f below the frames of a number.
func Do(of Kind, number uint64, f func() error) error {
	return enter(number*uint64(kinds)+uint64(of), f)
}

// enter calls f below the frames of a code, the lowest bit first.
//
//go:noinline
func enter(code uint64, f func() error) error { return bit(code, f) }

func bit(code uint64, f func() error) error {
	switch {
	case code == 0:
		return f()
	case code%2 == 0:
		return zero(code/2, f)
	}
	return one(code/2, f)
}

//go:noinline
func zero(rest uint64, f func() error) error { return bit(rest, f) }

//go:noinline
func one(rest uint64, f func() error) error { return bit(rest, f) }

var enterEntry, zeroEntry, oneEntry = entry(enter), entry(zero), entry(one)

func entry(f func(uint64, func() error) error) uintptr { return reflect.ValueOf(f).Pointer() }

// maxFrameBytes is more than the bytes of code of each of these functions. It saves a search for most frames.
const maxFrameBytes = 4096

// Below reports whether the goroutine is below the frames of a number that matches, the innermost first.
func Below(of Kind, match func(number uint64) bool) bool {
	var frames [64]uintptr
	var code uint64
	for skip := 2; ; skip += len(frames) {
		n := runtime.Callers(skip, frames[:])
		if scan(frames[:n], of, &code, match) {
			return true
		}
		if n < len(frames) {
			return false
		}
	}
}

// Find returns the innermost number of a kind in a stack of [runtime.Callers].
func Find(of Kind, stack []uintptr) (number uint64, found bool) {
	var code uint64
	found = scan(stack, of, &code, func(n uint64) bool { number = n; return true })
	return number, found
}

func scan(frames []uintptr, of Kind, code *uint64, match func(uint64) bool) bool {
	for _, pc := range frames {
		if pc-enterEntry > maxFrameBytes && pc-zeroEntry > maxFrameBytes && pc-oneEntry > maxFrameBytes {
			continue
		}
		f := runtime.FuncForPC(pc - 1)
		if f == nil {
			continue
		}
		switch f.Entry() {
		case zeroEntry:
			*code *= 2
		case oneEntry:
			*code = 2**code + 1
		case enterEntry:
			number, kind := *code/uint64(kinds), Kind(*code%uint64(kinds))
			*code = 0
			if kind == of && match(number) {
				return true
			}
		}
	}
	return false
}
