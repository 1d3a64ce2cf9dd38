// Package ffi calls C functions by address, without cgo.
//
// A call is a block: a [Frame] followed by the C arguments, one machine word
// each, in the order of the C prototype. The caller declares the block as a
// struct whose pointer arguments are real Go pointers:
//
//	var c struct {
//		ffi.Frame
//		out   *uint64
//		bytes uintptr
//		_     [ffi.RegisterWords - 2]uintptr
//	}
//	c.out, c.bytes = &dptr, 4096
//	status := int32(c.Call(fn, 2))
//
// Typed fields are the point of this shape. The garbage collector and the
// copying of growing stacks see them, so that an argument may point to a local
// variable. A pointer that was turned into a uintptr in an earlier statement
// would silently go stale when the goroutine's stack moves.
//
// On linux/amd64 and linux/arm64 [Frame.Call] enters C through a trampoline of
// a few instructions: the block stays on the Go stack and a call allocates
// nothing. There, three rules follow:
//
//   - C must not keep a pointer to the block or to anything on the Go stack
//     past the call.
//   - C must not call back into Go on the calling thread while it uses such a
//     pointer: the callback may grow, and so move, the stack. Functions that
//     call back need a block that is certain not to be on the stack, such as a
//     variable of the package; new may still place it there.
//   - [Frame.Call] passes integers and pointers, and results are integers. The CUDA driver API has
//     no others. [Frame.CallFloats] passes float and double as well, which other libraries take.
//
// On every other platform that purego supports, the block moves to the heap and
// the call goes through purego.SyscallN. Where there is no loader at all, Call
// returns [Unavailable].
//
// Build tag purecuda_portable selects the portable path everywhere, which is how
// it is tested on Linux.
//
// Everything here is safe for concurrent use; a block belongs to one call.
package ffi
