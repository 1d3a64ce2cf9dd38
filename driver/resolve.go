package driver

import "github.com/purecuda/purecuda/internal/ffi"

// legacyStream is CU_GET_PROC_ADDRESS_LEGACY_STREAM. The per-thread default
// stream is never asked for: goroutines change threads.
const legacyStream = 1

// resolve finds the address of every entry. The driver is asked by base name and
// by the constant version that our signature was written for. At any other
// version, the driver's own above all, the same name may have another signature.
// Where the driver cannot be asked, the exact name with its suffix says the same.
func (l *Library) resolve(symbol func(name string) uintptr) {
	ask := procAddress(symbol)
	for i, e := range entries {
		for _, v := range e.variants {
			fn := ask(e.Name, v.version)
			if fn == 0 {
				fn = symbol(v.symbol)
			}
			if fn != 0 {
				l.fn[i] = fn
				break
			}
		}
	}
}

// procAddress returns a function that asks the driver for an address. It gives 0
// where the driver has no such function at that version, or cannot be asked.
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DRIVER__ENTRY__POINT.html
func procAddress(symbolOf func(name string) uintptr) func(name string, version Version) uintptr {
	fn, words := symbolOf("cuGetProcAddress_v2"), 5
	if fn == 0 {
		fn, words = symbolOf("cuGetProcAddress"), 4
	}
	if fn == 0 {
		return func(string, Version) uintptr { return 0 }
	}
	return func(name string, version Version) uintptr {
		symbol, ok := ffi.CString(name)
		if !ok {
			return 0
		}
		var address uintptr
		var status int32 // only the second form writes it; 0 is success
		var c struct {
			ffi.Frame
			symbol  *byte
			address *uintptr
			version uintptr
			flags   uintptr
			status  *int32
			_       [ffi.RegisterWords - 5]uintptr
		}
		c.symbol, c.address, c.status = symbol, &address, &status
		c.version, c.flags = uintptr(version), legacyStream
		// A missing function returns success and no address, or success, an
		// address for another version and a status that says so.
		r := Result(int32(c.Call(fn, words)))
		if r != Success || status != 0 {
			return 0
		}
		return address
	}
}
