package stack

import (
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// After Grow what needs little does not move the stack of a new goroutine.
func TestGrow(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it makes stacks small again
	done := make(chan bool)
	go func() {
		Grow()
		before := here()
		deep()
		done <- before == here()
	}()
	assert.True(t, <-done)
}

//go:noinline
func here() uintptr {
	var at byte
	return uintptr(unsafe.Pointer(&at))
}

//go:noinline
func deep() byte {
	var bytes [room - 1<<10]byte
	bytes[here()%uintptr(len(bytes))] = 1
	return bytes[0]
}
