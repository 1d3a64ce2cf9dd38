// Package compile turns Go functions into PTX.
//
// It walks go/ssa's form of a kernel once and writes instructions as it goes. Functions that a kernel calls are inlined,
// so every call knows what is constant in it. A file is a subject:
//
//	load, bodies, directive  the package, what of others is read, and which of its functions are kernels
//	kernel, param        one kernel, from its parameters to its text
//	frame, flow, unroll  calls, jumps, what moves along them, and loops that run a known number of times
//	several              loops that count to a number that is not known
//	value, pointer, types what a value is while a kernel is compiled: a constant, a register, a tree of values, a pointer
//	instr, arith, memory  what each instruction of go/ssa becomes
//	call, stdlib, intrinsics  calls: of functions with source, of packages math and math/bits, of package gpu
//	check, range, gather  bounds checks, what makes them unnecessary, and one branch for several
//	between, ahead       checks that two others answer, and those of a loop that come before it
//	join                 conditions that lead to one place, and what is computed before them
//	poly                 integers that are sums of products: one register for one address
//	fold, opt, clean     constants; registers and loops; what has no use
//	divide, carry        divisions of 64 bits in 32; rotations, and sums of several words
//	emit, write          instructions, and their text
//
// Two maps are kept from one attempt at a kernel to the next. They hold variables that have to lie in memory, and the
// address space of pointers that meet in a loop or after a condition. Where an attempt finds one of them wrong, it begins
// again.
package compile
