// Package stack makes room on the stack of a new goroutine before it has much to move.
package stack

const room = 6 << 10

// Grow makes a stack large enough for most functions of a pool. A new goroutine has 2 KiB. Each time that it needs more, all frames
// are looked up and copied. Deep in a call that takes microseconds.
func Grow() { frame(-1) }

// frame has a frame as large as the room, which is neither filled nor read.
//
//go:noinline
func frame(at int) byte {
	if at < 0 {
		return 0
	}
	var bytes [room]byte
	bytes[at%room] = 1
	return bytes[at*7%room]
}
