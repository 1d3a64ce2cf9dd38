package beside

import (
	"sync/atomic"
	"testing"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/allocs"
)

// Quiet is a simulated driver whose contexts are current at no cost while a call is measured. With a library whose calls cost
// nothing either, what is left is what a package and runtime add.
type Quiet struct {
	driver.API
	on atomic.Bool
}

// CtxPushCurrent implements [driver.API].
func (q *Quiet) CtxPushCurrent(c driver.Context) driver.Result {
	if q.on.Load() {
		return driver.Success
	}
	return q.API.CtxPushCurrent(c)
}

// CtxPopCurrent implements [driver.API].
func (q *Quiet) CtxPopCurrent() (driver.Context, driver.Result) {
	if q.on.Load() {
		return 0, driver.Success
	}
	return q.API.CtxPopCurrent()
}

// Benchmark times a call. The work before it must be done.
func (q *Quiet) Benchmark(b *testing.B, call func() error) {
	q.on.Store(true)
	defer q.on.Store(false)
	b.ReportAllocs()
	for b.Loop() {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
}

// NoAllocations fails the test if a call allocates. The work before it must be done.
func (q *Quiet) NoAllocations(t *testing.T, call func() error) {
	q.on.Store(true)
	defer q.on.Store(false)
	var failed error
	allocs.AtMost(t, 0, 100, func() {
		if err := call(); err != nil {
			failed = err
		}
	})
	if failed != nil {
		t.Error(failed)
	}
}
