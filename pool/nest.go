package pool

import (
	"context"
	"reflect"
	goruntime "runtime"

	"github.com/purecuda/purecuda/driver"
)

// The callers' functions run below stack frames that encode a number of their pool. So the pool detects
// a call from such a function by the stack of its goroutine, whatever context the call has. That costs
// nothing until it is checked.

// withMark calls f below the frames of a number, the lowest bit first.
//
//go:noinline
func withMark(number uint64, f func() error) error { return markBit(number, f) }

func markBit(number uint64, f func() error) error {
	switch {
	case number == 0:
		return f()
	case number%2 == 0:
		return markZero(number/2, f)
	}
	return markOne(number/2, f)
}

//go:noinline
func markZero(rest uint64, f func() error) error { return markBit(rest, f) }

//go:noinline
func markOne(rest uint64, f func() error) error { return markBit(rest, f) }

var markEntry, zeroEntry, oneEntry = entry(withMark), entry(markZero), entry(markOne)

func entry(f func(uint64, func() error) error) uintptr { return reflect.ValueOf(f).Pointer() }

// maxFrameBytes is more than the bytes of code of each of these functions. It saves a search for most frames.
const maxFrameBytes = 4096

// marked reports whether the goroutine is below the frames of one of the numbers.
func marked(numbers ...uint64) bool {
	var frames [64]uintptr
	var number uint64
	for skip := 2; ; skip += len(frames) {
		n := goruntime.Callers(skip, frames[:])
		for _, pc := range frames[:n] {
			if pc-markEntry > maxFrameBytes && pc-zeroEntry > maxFrameBytes && pc-oneEntry > maxFrameBytes {
				continue
			}
			switch goruntime.FuncForPC(pc - 1).Entry() {
			case zeroEntry:
				number *= 2
			case oneEntry:
				number = 2*number + 1
			case markEntry:
				for _, of := range numbers {
					if number == of {
						return true
					}
				}
				number = 0
			}
		}
		if n < len(frames) {
			return false
		}
	}
}

// serving reports whether a function with a worker of the pool is on the stack of the goroutine.
func (p *Pool) serving() bool { return marked(p.number) }

// within is serving, but also for functions that run on the CPU.
func (p *Pool) within() bool { return marked(p.number, p.number+1) }

// onDevice calls a function with a worker of the pool.
func (p *Pool) onDevice(f func() error) error { return withMark(p.number, f) }

// onCPU calls a function that runs on the CPU.
func (p *Pool) onCPU(f func() error) error { return withMark(p.number+1, f) }

// turn is the context of a function that runs on the CPU.
type turn struct {
	context.Context
	pool *Pool
}

// turnOf is the key of its pool.
type turnOf struct{ pool *Pool }

// Value is that of the context, and marks it.
func (t *turn) Value(key any) any {
	if key == (turnOf{t.pool}) {
		return true
	}
	return t.Context.Value(key)
}

// hasTurn reports whether a call comes from a function that runs on the CPU. It must not wait for another turn, which
// may come only after that function.
func (p *Pool) hasTurn(ctx context.Context) bool {
	return ctx.Value(turnOf{p}) != nil || marked(p.number+1)
}

// within marks the contexts of the calls of a pool.
type within struct{ pool *Pool }

func errNested() error {
	return driver.Errorf(driver.ErrInvalidArgument, "a call within a call of the same pool would wait for its own device: "+
		"do the work with the Worker of the outer call, or open another pool")
}
