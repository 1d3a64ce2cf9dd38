// Package driver is the CUDA driver API in Go, without cgo. Most programs want package runtime, which builds contexts, streams,
// memory and launches on top of it, and meet the errors of this one.
//
// [Open] loads the driver library of the machine while the program runs and resolves its functions.
// Nothing is linked: a program that imports this package builds and starts on a machine that has no
// driver. Open then returns an error of kind [ErrDriverLibraryUnavailable] that lists every place
// it looked in.
//
//	lib, err := driver.Open()
//	if errors.Is(err, driver.ErrDriverLibraryUnavailable) {
//		return onTheCPU()
//	}
//	if r := lib.Init(0); r != driver.Success {
//		return driver.Failed("cuInit", r)
//	}
//	count, r := lib.DeviceGetCount()
//
// The interface [API] has one method for each function of the driver, with Go
// values for results and the driver's status as the last one. [*Library] is the
// real driver; package drivertest beside this one has a simulated one.
//
// A call through [*Library] allocates nothing on linux/amd64 and linux/arm64 and
// costs about as much as one through cgo. It blocks as long as the driver does. It
// may run on any goroutine, but the current context belongs to the thread: lock
// the goroutine to its thread around [API.CtxPushCurrent] and the matching pop.
package driver

//go:generate go run ./internal/gen
