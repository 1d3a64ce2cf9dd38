package driver

import "strconv"

// ResultSymbolMissing is returned by methods of [API] whose function the driver
// does not have. It is not a code of CUDA.
const ResultSymbolMissing Result = -1

// ResultImpossibleValue is returned by methods of [*Library] where the driver reported success
// with a value that cannot be true: -1 devices, or a stream that is none. It also stands for a
// result that no driver has. It is not a code of CUDA.
const ResultImpossibleValue Result = -2

// Name returns the name of the result in cuda.h. It needs no library.
func (r Result) Name() string {
	if known, ok := results[r]; ok {
		return known.name
	}
	switch r {
	case ResultSymbolMissing:
		return "symbol missing"
	case ResultImpossibleValue:
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
	case ResultSymbolMissing:
		return "the driver does not have this function"
	case ResultImpossibleValue:
		return "the driver returned what cannot be true"
	}
	return "a result that is newer than this program"
}

func (r Result) String() string { return r.Name() + " (" + strconv.Itoa(int(r)) + ")" }

// Error makes a Result a target for errors.Is: errors.Is(err,
// driver.ResultNotReady). Do not return a bare Result as an error: Success would
// be one as well. [Failed] makes the error of a call.
func (r Result) Error() string { return r.String() + ": " + r.Text() }

// Sticky tells whether the result poisons the process: every later call fails
// with it as well, and only a new process gets rid of it. It is true for the
// results of which NVIDIA's documentation says so, and for a failed assertion,
// which ruins the context.
func (r Result) Sticky() bool {
	switch r {
	case ResultContained, ResultIllegalAddress, ResultLaunchTimeout, ResultAssert,
		ResultHardwareStackError, ResultIllegalInstruction, ResultMisalignedAddress,
		ResultInvalidAddressSpace, ResultInvalidPC, ResultLaunchFailed, ResultExternalDevice:
		return true
	}
	return false
}

// Absent tells whether the result of cuInit means that the machine has no usable
// CUDA, as opposed to one that is broken.
func (r Result) Absent() bool {
	switch r {
	case ResultNoDevice, ResultStubLibrary, ResultSystemNotReady,
		ResultSystemDriverMismatch, ResultCompatNotSupportedOnDevice:
		return true
	}
	return false
}

// ImageUnusable tells whether the result of loading an image means that this
// image does not suit the device or the driver, so that another one may.
func (r Result) ImageUnusable() bool {
	switch r {
	case ResultNoBinaryForGPU, ResultInvalidPTX, ResultUnsupportedPTXVersion:
		return true
	}
	return false
}
