//go:build linux && (amd64 || arm64 || loong64 || riscv64)

package dl

import (
	"runtime"

	"github.com/ebitengine/purego"
)

const (
	// flags: resolve everything at once, so that a missing symbol shows here and not in the middle
	// of a call. Keep the symbols to ourselves, so that the driver cannot clash with another
	// library of the process.
	flags = purego.RTLD_NOW | purego.RTLD_LOCAL

	// noLoad is glibc's and musl's RTLD_NOLOAD: open only what is mapped.
	noLoad = 0x4
)

func mapped(name string) uintptr {
	runtime.LockOSThread() // a failure leaves its message in the thread
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(name, flags|noLoad)
	if err != nil {
		return 0
	}
	return handle
}

func open(name string) (uintptr, error) {
	runtime.LockOSThread() // dlerror is per thread
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(name, flags)
	if err != nil {
		return 0, classify(name, err.Error())
	}
	return handle, nil
}

func symbol(handle uintptr, name string) uintptr {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	address, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return address
}
