package ffi

import "structs"

// RegisterWords is the number of words that an argument block has at least: the
// trampolines load all argument registers without looking at how many are in
// use (six on amd64, eight on arm64). Shorter blocks are padded to it.
const RegisterWords = 8

// MaxWords is the largest number of argument words that every path can pass.
const MaxWords = 15

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
