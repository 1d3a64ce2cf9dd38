package driver

// Kind is the kind of an error. The constants are targets for errors.Is, and the
// text of an error begins with its kind.
type Kind string

// The kinds of error that purecuda's packages return.
const (
	// ErrDriverLibraryUnavailable: this machine has no usable CUDA. The work
	// belongs on the CPU.
	ErrDriverLibraryUnavailable Kind = "DriverLibraryUnavailable"
	// ErrRequired: the policy is required, so the CPU must not do the work. It is in place of
	// ErrDriverLibraryUnavailable, by which programs choose the CPU.
	ErrRequired Kind = "Required"
	// ErrLibraryUnavailable: a library of NVIDIA other than the driver is not there, say NVRTC. The error
	// says what to install. It is an ErrUnsupported as well.
	ErrLibraryUnavailable Kind = "LibraryUnavailable"
	// ErrDriverLibraryLoadFailed: a library is there and does not load.
	ErrDriverLibraryLoadFailed Kind = "DriverLibraryLoadFailed"
	// ErrSymbolMissing: the driver is too old for the function.
	ErrSymbolMissing Kind = "DriverSymbolMissing"
	// ErrDriverCallFailed: a call returned an error.
	ErrDriverCallFailed Kind = "DriverCallFailed"
	// ErrOutOfMemory: an allocation did not fit.
	ErrOutOfMemory Kind = "OutOfMemory"
	// ErrKernelCompileFailed: CUDA C did not compile.
	ErrKernelCompileFailed Kind = "KernelCompileFailed"
	// ErrModuleLoadFailed: no image of a kernel could be loaded.
	ErrModuleLoadFailed Kind = "ModuleLoadFailed"
	// ErrRefStale: memory was used after its device state was dropped or rebuilt.
	ErrRefStale Kind = "RefStale"
	// ErrDeviceLost: a sticky error has poisoned the process's use of CUDA.
	ErrDeviceLost Kind = "DeviceLost"
	// ErrClosed: the object was closed before.
	ErrClosed Kind = "Closed"
	// ErrInvalidArgument: the caller passed a value that cannot be used.
	ErrInvalidArgument Kind = "InvalidArgument"
	// ErrUnsupported: the device, the driver or the platform cannot do this.
	ErrUnsupported Kind = "Unsupported"
	// ErrCaptureFailed: a stream is captured into a graph, and what was asked cannot be
	// part of one.
	ErrCaptureFailed Kind = "CaptureFailed"
	// ErrTimeout: a wait took longer than it may.
	ErrTimeout Kind = "Timeout"
)

func (k Kind) Error() string { return string(k) }
