// Package exec runs PTX kernels on the CPU: every instruction for 32 lanes at a time,
// blocks in parallel on as many goroutines as there are cores.
//
//	m, err := ptx.Parse(src)           // *ptx.SyntaxError
//	p, unknown, err := exec.Compile(m) // *exec.UnsupportedError, *exec.InvalidError
//	addrs := place(p.Globals())        // and fill them with p.Initial
//	l, err := p.Link(addrs)
//	err = l.Entry("saxpy").Launch(ctx, exec.Launch{
//		Grid: [3]uint32{64, 1, 1}, Block: [3]uint32{256, 1, 1},
//		Params: params, Memory: memory,
//	})                                 // *exec.Fault
//
// # How it works
//
// Compile decodes each kernel, with the functions it calls, to a flat list of instructions whose
// operands are slots: registers of a warp (32 values of 64 bits) or constants. Basic blocks are put
// in an order in which parted lanes meet again as early as they can (order.go). PTX's endless
// registers are packed into few slots by linear scan (regalloc.go). A warp (warp.go) runs groups of
// lanes that are at one place; a block (block.go) gives its warps turns on one goroutine; a launch
// (launch.go) deals blocks to workers.
//
// # What holds
//
// An instruction that does not run is found by Compile, never in a launch. Arithmetic
// has the bits that PTX specifies; functions with a stated error (sin.approx, mma, ...)
// stay within it. Accesses outside of live allocations, misaligned ones, traps, failed
// asserts and deadlocks end the launch with a *Fault that names kernel, block, thread,
// line and address. Lanes of a warp, warps of a block and, in a cooperative launch,
// blocks may wait for each other. Atomics, volatile and relaxed accesses to global
// memory are sync/atomic's; other accesses are as plain as the kernel's.
package exec
