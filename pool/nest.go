package pool

import (
	"context"
	"slices"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/mark"
)

// The callers' functions run below stack frames that encode a number of their pool. So the pool detects
// a call from such a function by the stack of its goroutine, whatever context the call has. That costs
// nothing until it is checked.

// withMark calls f below the frames of a number.
func withMark(number uint64, f func() error) error { return mark.Do(mark.Pool, number, f) }

// marked reports whether the goroutine is below the frames of one of the numbers.
func marked(numbers ...uint64) bool {
	return mark.Below(mark.Pool, func(number uint64) bool { return slices.Contains(numbers, number) })
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
