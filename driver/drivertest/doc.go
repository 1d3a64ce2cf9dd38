// Package drivertest is a simulated CUDA driver in Go: it is to CUDA what net/http/httptest is to
// HTTP. A [Driver] implements [driver.API]. So a program that takes that interface can be tested
// without a GPU, with the race detector on, and with faults that no GPU gives on demand.
//
//	func TestScale(t *testing.T) {
//		gpu := drivertest.ForTest(t, drivertest.Config{
//			Devices: drivertest.Devices(2, drivertest.H100()),
//		})
//		gpu.Fail("cuMemAllocFromPoolAsync", 3, driver.ResultOutOfMemory) // the third one fails
//		run(gpu)                                           // the program under test
//	}
//
// These are errors of the test, at its end: what the program did not free, mistakes that the driver
// has found ([Finding]), and faults that never struck. [New] makes a driver without a test.
//
// # What is simulated
//
// Devices are what [Config] says; an allocation takes real memory, all of its size,
// when it is first used, so that 80 GiB cost nothing. The current context belongs to
// the thread: a goroutine must be locked to its thread as with the real driver.
// Streams run in order and at the same time as each other, on a goroutine that exists
// only while the stream has work. Events, stream-ordered memory and pools, capture of
// streams into graphs with forks and joins, graph update and replay, peer access,
// modules and libraries work. Managed memory is host memory that kernels reach. Virtual memory is
// reserved, made, mapped and opened to devices in CUDA's order. On Linux it has real file descriptors:
// another process opens the same memory, and so it is with the Ipc functions and memory of cuMemAlloc. Such
// memory stays until Close, also when the program has freed it. Copies and fills cross from one mapping into the next. A kernel in Go (Config.Kernels) reaches
// one mapping at a time.
//
// Addresses are never used twice, and every access is checked. A stray address, an overrun, a
// double free, and memory that is used after its free or before its allocation is a [Finding] that
// names the allocation and the calls. A call that checks its arguments returns ResultInvalidValue
// then. Work that runs into it on the device poisons the process, as measured on hardware. The
// launch returns Success and the next synchronisation ResultIllegalAddress. From then on all calls
// return that, on all devices, and DevicePrimaryCtxReset does not help. Fresh memory is filled with
// 0xCD, up to 64 MiB, and shared and local memory of each block with 0xFF: on hardware they are not zero either.
// A register that is read before it is written has all bits set.
//
// # Kernels
//
// Images are PTX text, and their kernels run: an interpreter executes them on all cores, a warp at
// a time, with shared memory, barriers, shuffles and atomics. Module-scope variables have memory in
// each context. Loading fails for PTX that is newer than the driver (ResultUnsupportedPTXVersion),
// or made for a newer device or wrong (ResultInvalidPTX). The log names line and instruction in the
// words of NVIDIA's assembler. Looking up a kernel with an instruction that the interpreter does
// not know gives ResultNotSupported, and the log says why. An image with no other kernel does not
// load. Blocks of a cooperative launch may wait for each other, also by cooperative groups'
// this_grid().sync().
//
// A thread that leaves its memory, traps, fails an assertion or never ends makes the
// launch fail as on hardware (ResultIllegalAddress, ResultMisalignedAddress,
// ResultLaunchFailed, ResultAssert, ResultLaunchTimeout after Config.MaxSteps). The Finding
// has the kernel, block, thread, PTX line and address, and says in, behind or formerly
// in which allocation that is. The race detector finds a kernel and a copy that nothing has
// put in order. It does not find races between the threads of a kernel: `x[0] += 1` in two
// blocks may lose one of both, as on hardware, and nothing reports it.
//
// The registers that a kernel counts as using are the interpreter's, which is
// near to what ptxas needs. They bound its blocks and its occupancy.
//
// Config.Kernels replaces kernels by Go functions. That is for kernels with instructions that the
// interpreter does not know, and for those that it is too slow for. (A core executes some hundred
// million instructions of threads a second.) It is also for kernels that a program has as machine
// code only. The test then loads PTX with the same signature and an empty body.
//
// # What is different
//
// MemFree does not wait for the device, and synchronous copies and memsets always
// wait for their end. Memcpy and MemcpyAsync take page-locked host memory only. A
// primary context has another handle after a reset. A kernel of the wrong device,
// context or module, on which the real driver may crash, is an error, and so is any
// call from a host function. On systems other than Linux, Windows and FreeBSD all
// goroutines count as one thread.
//
// [Refused] says which functions return ResultNotSupported, and why: Ipc events, textures and
// checkpoints of processes, for example. So do clusters of blocks, the per-thread default stream, mapped
// memory that may only be read, and cube maps and other special arrays. So do stream-ordered memory within a capture, graphs that the device launches, and pools that export handles. Machine
// code gives ResultNoBinaryForGPU and what is no image ResultInvalidImage, each with a log that says
// so.
package drivertest
