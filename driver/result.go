package driver

import "strconv"

// ErrorSymbolMissing is returned by methods of [API] whose function the driver
// does not have. It is not a code of CUDA.
const ErrorSymbolMissing Result = -1

// ErrorImpossibleValue is returned by methods of [*Library] where the driver reported success
// with a value that cannot be true: -1 devices, or a stream that is none. It also stands for a
// result that no driver has. It is not a code of CUDA.
const ErrorImpossibleValue Result = -2

// Name returns the name of the result in cuda.h. It needs no library.
func (r Result) Name() string {
	if known, ok := results[r]; ok {
		return known.name
	}
	switch r {
	case ErrorSymbolMissing:
		return "symbol missing"
	case ErrorImpossibleValue:
		return "impossible value"
	}
	return "CUDA_ERROR_" + strconv.Itoa(int(r))
}

// Text says in a few words what the result means.
func (r Result) Text() string {
	if known, ok := results[r]; ok {
		return known.text
	}
	switch r {
	case ErrorSymbolMissing:
		return "the driver does not have this function"
	case ErrorImpossibleValue:
		return "the driver returned what cannot be true"
	}
	return "a result that is newer than this program"
}

func (r Result) String() string { return r.Name() + " (" + strconv.Itoa(int(r)) + ")" }

// Error makes a Result a target for errors.Is: errors.Is(err,
// driver.ErrorNotReady). Do not return a bare Result as an error: Success would
// be one as well. [Failed] makes the error of a call.
func (r Result) Error() string { return r.String() + ": " + r.Text() }

// Sticky tells whether the result poisons the process: every later call fails
// with it as well, and only a new process gets rid of it. It is true for the
// results of which NVIDIA's documentation says so, and for a failed assertion,
// which ruins the context.
func (r Result) Sticky() bool {
	switch r {
	case ErrorContained, ErrorIllegalAddress, ErrorLaunchTimeout, ErrorAssert,
		ErrorHardwareStackError, ErrorIllegalInstruction, ErrorMisalignedAddress,
		ErrorInvalidAddressSpace, ErrorInvalidPC, ErrorLaunchFailed, ErrorExternalDevice:
		return true
	}
	return false
}

// Absent tells whether the result of cuInit means that the machine has no usable
// CUDA, as opposed to one that is broken.
func (r Result) Absent() bool {
	switch r {
	case ErrorNoDevice, ErrorStubLibrary, ErrorSystemNotReady,
		ErrorSystemDriverMismatch, ErrorCompatNotSupportedOnDevice:
		return true
	}
	return false
}

// ImageUnusable tells whether the result of loading an image means that this
// image does not suit the device or the driver, so that another one may.
func (r Result) ImageUnusable() bool {
	switch r {
	case ErrorNoBinaryForGPU, ErrorInvalidPTX, ErrorUnsupportedPTXVersion:
		return true
	}
	return false
}
