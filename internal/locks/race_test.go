//go:build race && (amd64 || arm64)

package locks

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOrder(t *testing.T) {
	var first, another Mutex[Guard]
	var own, home Mutex[Stripe] // of which there may be many
	var second, third Mutex[Device]
	var shared Mutex[Workers]
	var last Mutex[State]

	first.Lock()
	assert.PanicsWithValue(t, "locks: locks.Guard is taken while [locks.Guard] are held, which come after it", another.Lock)
	second.Lock()
	own.Lock()
	home.Lock()
	home.Unlock()
	assert.PanicsWithValue(t, "locks: locks.Device is taken while [locks.Device locks.Stripe] are held, which come after it", third.Lock)
	own.Unlock()
	last.Lock()
	assert.PanicsWithValue(t, "locks: locks.Device is taken while [locks.Device locks.State] are held, which come after it", third.Lock)
	assert.Panics(t, shared.Lock, "it comes before State")
	assert.PanicsWithValue(t, "locks: the goroutine blocks while it holds [locks.Device locks.State]", Block)
	assert.True(t, third.TryLock(), "whoever only tries waits for nobody")
	assert.True(t, shared.TryLock())
	assert.False(t, shared.TryLock())
	assert.False(t, third.TryLock())

	var other sync.WaitGroup
	other.Go(func() { // which holds nothing
		Block()
		var mine Mutex[Device]
		mine.Lock()
		mine.Unlock()
	})
	other.Wait()

	third.Unlock()
	shared.Unlock()
	last.Unlock()
	second.Unlock()
	Block() // a turn may be held over a call of the driver
	assert.Panics(t, func() { var opening Mutex[Memory]; opening.Lock() })
	first.Unlock()
	var opening Mutex[Memory]
	opening.Lock()
	opening.Unlock()
	assert.True(t, shared.TryLock())
	shared.Unlock()
	shared.Lock()
	shared.Unlock()
}

// The bookkeeping finds its way with many goroutines, and is empty when they have ended.
func TestManyGoroutines(t *testing.T) {
	var shared Mutex[Memory]
	var all sync.WaitGroup
	for range 300 {
		all.Go(func() {
			var turn Mutex[Object]
			for range 100 {
				turn.Lock()
				shared.Lock()
				Block()
				shared.Unlock()
				turn.Unlock()
			}
			assert.Nil(t, slot(false), "nothing is held")
		})
	}
	all.Wait()
	for i := range slots {
		assert.Zero(t, slots[i].goroutine.Load())
		assert.Zero(t, slots[i].locks.Load())
	}
}
