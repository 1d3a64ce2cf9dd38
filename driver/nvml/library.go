package nvml

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/ffi"
)

// PathVariable names the environment variable that replaces the candidates of [Open] by one file.
const PathVariable = "PURECUDA_NVML_PATH"

var description = library.Description{
	Name:     "NVML",
	Purpose:  "read the health of devices",
	Without:  "it comes with NVIDIA's driver for Linux and Windows",
	Install:  "it comes with NVIDIA's driver; in a container NVIDIA_DRIVER_CAPABILITIES has to have utility",
	Variable: PathVariable,
	OfDriver: true,
	Linux:    library.Names{Files: []string{"libnvidia-ml.so.1", "libnvidia-ml.so"}},
	Windows:  library.Names{Files: []string{"nvml.dll"}},
	Oldest:   library.Since{11, 0}, // of CUDA
}

// Candidates lists where Open looks for NVML, in order: the file that PURECUDA_NVML_PATH names and
// nothing else if it is set, otherwise the places of the driver. It is empty where there is no NVML.
func Candidates() []string { return description.Candidates() }

// Library is the NVML of this machine. It implements [API] and is safe for concurrent use. It is never
// unloaded.
type Library struct {
	lib     *library.Library
	version string
	fn      [functionCount]uintptr
	closed  atomic.Bool
}

// Open loads NVML and initialises it. With no argument it looks in the places of the driver (see
// [Candidates]); otherwise it tries the given files, in order. It may take seconds, where no other process
// uses the devices and persistence mode is off.
//
// The error is of kind [driver.ErrLibraryUnavailable] if there is no NVML, or no driver in the kernel. It
// is of kind [driver.ErrDriverLibraryLoadFailed] if one is there and none can be used.
func Open(candidates ...string) (*Library, error) {
	lib, err := description.Open(candidates...)
	if err != nil {
		return nil, err
	}
	l := &Library{lib: lib}
	l.resolve()
	var c struct {
		ffi.Frame
		_ [ffi.RegisterWords]uintptr
	}
	if r := l.call(fnInit_v2, &c.Frame, 0); r != Success {
		return nil, l.initError(r)
	}
	l.version, _ = l.driverVersion()
	return l, nil
}

// initError is why NVML does not start.
func (l *Library) initError(r Result) error {
	e := failed(l, "nvmlInit_v2", r)
	if r == ResultDriverNotLoaded || r == ResultLibRMVersionMismatch {
		e.Kind = driver.ErrLibraryUnavailable
	}
	e.Attempts = l.Attempts()
	return e
}

// Close ends the use of NVML; others in the process may go on. Calls that come later return
// ResultUninitialized. End what runs before, Watch above all. It may be called twice.
func (l *Library) Close() error {
	if l == nil || l.fn[fnShutdown] == 0 || l.closed.Swap(true) {
		return nil
	}
	var c struct {
		ffi.Frame
		_ [ffi.RegisterWords]uintptr
	}
	if r := Result(int32(c.Call(l.fn[fnShutdown], 0))); r != Success {
		return failed(l, "nvmlShutdown", r)
	}
	return nil
}

// call makes one call. It lets frame, and what it points to, stay on the stack.
func (l *Library) call(f function, frame *ffi.Frame, words int) Result {
	switch {
	case l == nil || l.fn[f] == 0:
		return ResultSymbolMissing
	case l.closed.Load():
		return ResultUninitialized
	}
	fn := l.fn[f]
	r := Result(int32(frame.Call(fn, words)))
	if r < Success { // ours are negative
		return ResultImpossibleValue
	}
	return r
}

// failed makes the error of a function of NVML that did not return Success.
func failed(api calls, function string, r Result) *driver.Error {
	e := driver.Errorf(driver.ErrDriverCallFailed, "%s: %w", function, r)
	e.Op = function
	switch r {
	case ResultNotSupported:
		e.Kind = driver.ErrUnsupported
	case ResultTimeout:
		e.Kind = driver.ErrTimeout
	case ResultSymbolMissing, ResultFunctionNotFound:
		e.Kind = driver.ErrSymbolMissing
		e.Detail = function + " is not in this NVML"
		if l, ok := api.(*Library); ok && l != nil {
			e.Detail = fmt.Sprintf("%s needs a driver of CUDA %s, found driver %s", function, sinceOfName(function), orUnknown(l.version))
		}
	}
	return e
}

func sinceOfName(name string) string {
	for _, f := range functions {
		for _, n := range f.names {
			if n == name {
				return f.since
			}
		}
	}
	return description.Oldest.String()
}

func orUnknown(version string) string {
	if strings.TrimSpace(version) == "" {
		return "of an unknown version"
	}
	return version
}

// DriverVersion implements [API].
func (l *Library) DriverVersion() string {
	if l == nil {
		return ""
	}
	return l.version
}

// Find implements [API].
func (l *Library) Find(uuid string) (Device, error) { return find(l, uuid) }

// Read implements [API].
func (l *Library) Read(d Device) Status { return read(l, d) }

// ReadAll implements [API].
func (l *Library) ReadAll() ([]Status, error) { return readAll(l) }

// Memory implements [API].
func (l *Library) Memory(d Device) (Memory, error) {
	m, r := l.memory(d)
	if r != Success {
		return Memory{}, failed(l, "nvmlDeviceGetMemoryInfo", r)
	}
	return m, nil
}

// Watch implements [API].
func (l *Library) Watch(ctx context.Context, f func(Event) error, devices ...Device) error {
	return watchAll(ctx, l, f, devices)
}
