package curand

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/status"
)

// Status is what a function of cuRAND returns.
type Status int32

// The results, by their names in curand.h.
// https://docs.nvidia.com/cuda/curand/group__HOST.html
const (
	StatusSuccess                 Status = 0
	StatusVersionMismatch         Status = 100
	StatusNotInitialized          Status = 101
	StatusAllocationFailed        Status = 102
	StatusTypeError               Status = 103
	StatusOutOfRange              Status = 104
	StatusLengthNotMultiple       Status = 105
	StatusDoublePrecisionRequired Status = 106
	StatusLaunchFailure           Status = 201
	StatusPreexistingFailure      Status = 202
	StatusInitializationFailed    Status = 203
	StatusArchMismatch            Status = 204
	StatusInternalError           Status = 999

	// StatusSymbolMissing is returned by methods of [API] whose function this cuRAND does not have. It is not a code
	// of cuRAND.
	StatusSymbolMissing Status = -1
	// StatusImpossibleValue is returned where cuRAND reported success with a value that cannot be true. It is not a
	// code of cuRAND.
	StatusImpossibleValue Status = -2
)

var statuses = status.Table[Status]{Prefix: "CURAND_STATUS_", Known: map[Status][2]string{
	StatusSuccess:                 {"CURAND_STATUS_SUCCESS", "success"},
	StatusVersionMismatch:         {"CURAND_STATUS_VERSION_MISMATCH", "files of cuRAND of different versions"},
	StatusNotInitialized:          {"CURAND_STATUS_NOT_INITIALIZED", "no such generator"},
	StatusAllocationFailed:        {"CURAND_STATUS_ALLOCATION_FAILED", "the device or the host has no memory left"},
	StatusTypeError:               {"CURAND_STATUS_TYPE_ERROR", "this kind of generator does not do this"},
	StatusOutOfRange:              {"CURAND_STATUS_OUT_OF_RANGE", "an argument is out of range"},
	StatusLengthNotMultiple:       {"CURAND_STATUS_LENGTH_NOT_MULTIPLE", "the count is not even"},
	StatusDoublePrecisionRequired: {"CURAND_STATUS_DOUBLE_PRECISION_REQUIRED", "the device has no float64"},
	StatusLaunchFailure:           {"CURAND_STATUS_LAUNCH_FAILURE", "a kernel could not be launched"},
	StatusPreexistingFailure:      {"CURAND_STATUS_PREEXISTING_FAILURE", "an earlier call of CUDA has failed"},
	StatusInitializationFailed:    {"CURAND_STATUS_INITIALIZATION_FAILED", "CUDA is not usable"},
	StatusArchMismatch:            {"CURAND_STATUS_ARCH_MISMATCH", "the device does not have what is needed"},
	StatusInternalError:           {"CURAND_STATUS_INTERNAL_ERROR", "an error within cuRAND"},
	StatusSymbolMissing:           {"symbol missing", "this cuRAND does not have the function"},
	StatusImpossibleValue:         {"impossible value", "cuRAND returned what cannot be true"},
	status.NoKernels:              status.WithoutKernels("curandtest"),
}}

// Name returns the name of the status in the header. It needs no library.
func (s Status) Name() string { return statuses.Name(s) }

// Text says in a few words what the status means.
func (s Status) Text() string { return statuses.Text(s) }

func (s Status) String() string { return statuses.String(s) }

// Error makes a Status a target for errors.Is: errors.Is(err, curand.StatusTypeError). Do not return a bare Status as
// an error: StatusSuccess would be one as well.
func (s Status) Error() string { return statuses.Error(s) }

// failed is the error of a function that did not return StatusSuccess, or nil.
func failed(api API, function string, s Status) error {
	if s == StatusSuccess {
		return nil
	}
	e := driver.Errorf(driver.ErrDriverCallFailed, "%w", s)
	e.Op = function
	switch s {
	case StatusTypeError, StatusArchMismatch, StatusDoublePrecisionRequired:
		e.Kind = driver.ErrUnsupported
	case StatusOutOfRange, StatusLengthNotMultiple:
		e.Kind = driver.ErrInvalidArgument
	case StatusAllocationFailed:
		e.Kind = driver.ErrOutOfMemory
	case StatusSymbolMissing:
		e.Kind = driver.ErrSymbolMissing
		e.Detail = library.CURAND.TooOld(function, oldest, library.Version(api.Version()))
	}
	return e
}

// wrong is the error of an argument.
func wrong(format string, args ...any) error {
	return driver.Errorf(driver.ErrInvalidArgument, format, args...)
}
