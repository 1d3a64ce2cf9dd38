// Calls goes through the loader and the call layer of purecuda, and prints what they
// answer in a process without a loader: errors, and no end of the process.
package main

import (
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/dl"
	"github.com/purecuda/purecuda/internal/ffi"
)

func main() {
	_, attempts, err := dl.Open("libc.so.6", "libm.so.6")
	fmt.Println(len(attempts), errors.Is(err, dl.ErrNotFound), err)

	var block struct {
		ffi.Frame
		_ [ffi.MaxWords]uintptr
	}
	fmt.Println(block.Call(1, 3) == ffi.Unavailable)

	fn, data := ffi.HostFunc(func() {}, true)
	ffi.DropHostFunc(data)
	fmt.Println(fn != 0)

	_, err = driver.Open("/nowhere/libcuda.so.1")
	fmt.Println(errors.Is(err, driver.ErrDriverLibraryUnavailable), err)
}
