//go:build linux && (amd64 || arm64)

package conformance

// The bridge makes functions of C out of any [driver.API], and a [driver.Library] that calls
// them. What passes through it takes the way of a real driver. The call layer packs the arguments
// by the C calling convention, and C function pointers are called. Pointers, strings, structures
// and option lists are read as C would read them. So the argument passing of package driver is
// tested on machines without a GPU.
//
// A process has room for 2000 callbacks and never gets one back. So there is one set of
// functions, made at the first use, and it forwards to the API that was opened last.
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
//     See onStillStack.
//
// There is no bridge on other systems than Linux on amd64 and arm64.

import (
	"sync"
	"sync/atomic"

	"github.com/ebitengine/purego"

	"github.com/purecuda/purecuda/driver"
)

// function is a function of C, written in Go.
type function struct {
	name     string
	variants []variant
	body     any
}

// variant is a version of a function by its exact name. All have one body.
type variant struct {
	version driver.Version
	symbol  string
}

// opened is what the functions of C forward to. There is one set of them in a process,
// and C gives them nothing to tell by whose they are.
var opened atomic.Pointer[driver.API]

func target() driver.API { return *opened.Load() }

// registered holds the addresses of the functions by their names without a suffix.
var registered struct {
	once      sync.Once
	addresses map[string]uintptr
}

func address(name string) uintptr {
	registered.once.Do(func() {
		all := map[string]uintptr{
			"cuGetProcAddress":    purego.NewCallback(cGetProcAddress),
			"cuGetProcAddress_v2": purego.NewCallback(cGetProcAddressV2),
		}
		for _, f := range functions {
			all[f.name] = purego.NewCallback(f.body)
		}
		registered.addresses = all
	})
	return registered.addresses[name]
}

// openC makes a library of functions of C that forward to api, from now on until the
// next call of openC or cSymbols. Functions that are newer than the version of api are
// missing. It calls the functions, so that what is said of stacks above holds for
// it as well.
func openC(api driver.API) (*driver.Library, error) {
	return driver.NewLibrary("bridge", cSymbols(api))
}

// cSymbols is openC without the library: it returns what finds a function of C by its
// exact name, as dlsym does, and 0 where the driver does not have it. cuGetProcAddress
// and cuGetProcAddress_v2 are there in every version.
func cSymbols(api driver.API) func(name string) uintptr {
	opened.Store(&api)
	version := found(api)
	return func(symbol string) uintptr {
		for _, f := range functions {
			for _, v := range f.variants {
				if v.symbol == symbol && v.version <= version {
					return address(f.name)
				}
			}
		}
		if symbol == "cuGetProcAddress" || symbol == "cuGetProcAddress_v2" {
			return address(symbol)
		}
		return 0
	}
}

// found is the version of an API.
func found(api driver.API) driver.Version {
	version, r := api.DriverGetVersion()
	if r != driver.Success {
		return 0
	}
	return version
}

// Results of cuGetProcAddress_v2 beside its return value (CUdriverProcAddressQueryResult).
const (
	procFound           = 0
	procNotFound        = 1
	procVersionTooSmall = 2
)

func cGetProcAddressV2(symbol *byte, fn *uintptr, version int32, _ uint64, status *int32) driver.Result {
	*fn, *status = 0, procNotFound
	newest := min(driver.Version(version), found(target()))
	name := text(symbol)
	for _, f := range functions {
		if f.name != name {
			continue
		}
		*status = procVersionTooSmall
		for _, v := range f.variants {
			if v.version <= newest {
				*fn, *status = address(f.name), procFound
			}
		}
	}
	return driver.Success
}

// cGetProcAddress is the function of CUDA 11.3, which answers a missing function with a
// result.
func cGetProcAddress(symbol *byte, fn *uintptr, version int32, flags uint64) driver.Result {
	var status int32
	cGetProcAddressV2(symbol, fn, version, flags, &status)
	if status != procFound {
		return driver.ResultNotFound
	}
	return driver.Success
}
