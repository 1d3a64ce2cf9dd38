package ffi

import (
	"math"
	"structs"
)

// RegisterWords is the number of words that an argument block has at least. The trampolines load
// all argument registers without looking at how many are in use (six on amd64, eight on arm64).
// Shorter blocks are padded to it.
const RegisterWords = 8

// MaxWords is the largest number of argument words that every path can pass.
const MaxWords = 32

// Unavailable is what [Frame.Call] returns on a platform without a call path.
const Unavailable = ^uintptr(0)

// Frame heads the argument block of one C call. It must be the first field of
// the block, and the argument words follow it directly.
type Frame struct {
	_     structs.HostLayout
	fn    uintptr
	words uintptr
	ret   uintptr
}

// Within are calls around another one, on its thread: push(context), and where that has returned 0, pop(&off) at the end. Both
// return an int. If push has returned anything else, no other call is made.
type Within struct {
	_                  structs.HostLayout
	Push, Pop, Context uintptr
}

// Float64 is v as a word for [Frame.CallFloats].
func Float64(v float64) uintptr { return uintptr(math.Float64bits(v)) }

// Float32 is v as a word for [Frame.CallFloats]. The upper half is all ones: so RISC-V tells a float in
// a register from a double, and the others do not look at it.
func Float32(v float32) uintptr { return uintptr(0xffffffff<<32 | uint64(math.Float32bits(v))) }
