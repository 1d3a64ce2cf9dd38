package cusolver

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/status"
)

// Status is what a function of cuSOLVER returns.
type Status int32

// The results, by their names in cusolver_common.h.
// https://docs.nvidia.com/cuda/cusolver/#cusolverstatus-t
const (
	StatusSuccess                Status = 0
	StatusNotInitialized         Status = 1
	StatusAllocFailed            Status = 2
	StatusInvalidValue           Status = 3
	StatusArchMismatch           Status = 4
	StatusMappingError           Status = 5
	StatusExecutionFailed        Status = 6
	StatusInternalError          Status = 7
	StatusMatrixTypeNotSupported Status = 8
	StatusNotSupported           Status = 9
	StatusInvalidLicense         Status = 11
	StatusInvalidWorkspace       Status = 31

	// StatusSymbolMissing is returned by methods of [API] whose function this cuSOLVER does not have. It is not a
	// code of cuSOLVER.
	StatusSymbolMissing Status = -1
	// StatusImpossibleValue is returned where cuSOLVER reported success with a value that cannot be true. It is not
	// a code of cuSOLVER.
	StatusImpossibleValue Status = -2
)

var statuses = status.Table[Status]{Prefix: "CUSOLVER_STATUS_", Known: map[Status][2]string{
	StatusSuccess:                {"CUSOLVER_STATUS_SUCCESS", "success"},
	StatusNotInitialized:         {"CUSOLVER_STATUS_NOT_INITIALIZED", "cuSOLVER did not start: no handle, or CUDA is not usable"},
	StatusAllocFailed:            {"CUSOLVER_STATUS_ALLOC_FAILED", "the device or the host has no memory left"},
	StatusInvalidValue:           {"CUSOLVER_STATUS_INVALID_VALUE", "an argument is not valid"},
	StatusArchMismatch:           {"CUSOLVER_STATUS_ARCH_MISMATCH", "the device does not have what is needed"},
	StatusMappingError:           {"CUSOLVER_STATUS_MAPPING_ERROR", "memory could not be reached"},
	StatusExecutionFailed:        {"CUSOLVER_STATUS_EXECUTION_FAILED", "a kernel could not be launched"},
	StatusInternalError:          {"CUSOLVER_STATUS_INTERNAL_ERROR", "an error within cuSOLVER"},
	StatusMatrixTypeNotSupported: {"CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED", "cuSOLVER does not do this with such a matrix"},
	StatusNotSupported:           {"CUSOLVER_STATUS_NOT_SUPPORTED", "cuSOLVER does not do this with these types or shapes on this device"},
	StatusInvalidLicense:         {"CUSOLVER_STATUS_INVALID_LICENSE", "a license is missing"},
	StatusInvalidWorkspace:       {"CUSOLVER_STATUS_INVALID_WORKSPACE", "the workspace is too small"},
	StatusSymbolMissing:          {"symbol missing", "this cuSOLVER does not have the function"},
	StatusImpossibleValue:        {"impossible value", "cuSOLVER returned what cannot be true"},
	status.NoKernels:             status.WithoutKernels("cusolvertest"),
}}

// Name returns the name of the status in the header. It needs no library.
func (s Status) Name() string { return statuses.Name(s) }

// Text says in a few words what the status means.
func (s Status) Text() string { return statuses.Text(s) }

func (s Status) String() string { return statuses.String(s) }

// Error makes a Status a target for errors.Is: errors.Is(err, cusolver.StatusNotSupported). Do not return a
// bare Status as an error: StatusSuccess would be one as well.
func (s Status) Error() string { return statuses.Error(s) }

// failed is the error of a function that did not return StatusSuccess, or nil.
func failed(api API, function string, s Status) error {
	if s == StatusSuccess {
		return nil
	}
	e := driver.Errorf(driver.ErrDriverCallFailed, "%w", s)
	e.Op = function
	switch s {
	case StatusNotSupported, StatusMatrixTypeNotSupported, StatusArchMismatch:
		e.Kind = driver.ErrUnsupported
	case StatusAllocFailed:
		e.Kind = driver.ErrOutOfMemory
	case StatusSymbolMissing:
		e.Kind = driver.ErrSymbolMissing
		e.Detail = library.CUSOLVER.TooOld(function, oldest, library.Version(api.Version()))
	}
	return e
}

// wrong is the error of an argument.
func wrong(format string, args ...any) error {
	return driver.Errorf(driver.ErrInvalidArgument, format, args...)
}
