package zero_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/internal/zero"
)

type large struct {
	first byte
	_     [4 << 10]byte
}

func TestOr(t *testing.T) {
	assert.Zero(t, zero.Or[large](nil).first)
	p := &large{first: 7}
	assert.Same(t, p, zero.Or(p))
}

// A method of nothing needs no room for its zero value while there is a value.
func TestOrHasNoFrame(t *testing.T) {
	p := &large{first: 7}
	deep(100) // the stack is large enough now, and stays where it is
	var here byte
	below, got := first(p)
	assert.EqualValues(t, 7, got)
	assert.Less(t, uintptr(unsafe.Pointer(&here))-below, unsafe.Sizeof(*p))
}

// first is a method of large, and tells where its frame ends.
//
//go:noinline
func first(p *large) (below uintptr, got byte) {
	got = zero.Or(p).first
	return end(), got
}

//go:noinline
func end() uintptr {
	var here byte
	return uintptr(unsafe.Pointer(&here))
}

//go:noinline
func deep(n int) byte {
	var room [1 << 10]byte
	room[n] = 1
	if n > 0 {
		return deep(n-1) + room[n]
	}
	return room[0]
}
