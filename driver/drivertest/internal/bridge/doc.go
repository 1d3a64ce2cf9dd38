// Package bridge makes functions of C out of any [driver.API], and a [driver.Library] that calls
// them. What passes through it takes the way of a real driver. The call layer packs the arguments
// by the C calling convention, and C function pointers are called. Pointers, strings, structures
// and option lists are read as C would read them. So the argument passing of package driver is
// tested on machines without a GPU.
//
//	lib, err := bridge.Open(drivertest.New(drivertest.Config{}))
//
// Package conformance runs its suite through it.
//
// # One at a time
//
// A process has room for 2000 callbacks and never gets one back. So there is one set of
// functions, made at the first use, and it forwards to the API that was opened last.
//
// # Stacks
//
// A function of the bridge calls back into Go on the calling thread, and the real driver does not.
// With the trampolines of linux/amd64 and linux/arm64 (see package ffi) the arguments and results
// of a call lie on the stack of the calling goroutine. Go may move it while it runs the callback,
// and results are lost then. There are two ways to call a bridged library safely:
//
//   - with the build tag purecuda_portable, under which arguments and results are on the
//     heap;
//   - on a goroutine whose stack does not move during the call. It has more room than the
//     callback can need. More than a quarter of it is in use, so that Go does not shrink it.
//     The tests in package conformance show how.
//
// There is no bridge on other systems than Linux on amd64 and arm64.
package bridge
