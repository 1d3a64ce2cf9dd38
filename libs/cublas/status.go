package cublas

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/status"
)

// Status is what a function of cuBLAS returns.
type Status int32

// The results, by their names in cublas_api.h.
// https://docs.nvidia.com/cuda/cublas/#cublasstatus-t
const (
	StatusSuccess         Status = 0
	StatusNotInitialized  Status = 1
	StatusAllocFailed     Status = 3
	StatusInvalidValue    Status = 7
	StatusArchMismatch    Status = 8
	StatusMappingError    Status = 11
	StatusExecutionFailed Status = 13
	StatusInternalError   Status = 14
	StatusNotSupported    Status = 15
	StatusLicenseError    Status = 16

	// StatusSymbolMissing is returned by methods of [API] whose function this cuBLAS does not have. It is not a
	// code of cuBLAS.
	StatusSymbolMissing Status = -1
	// StatusImpossibleValue is returned where cuBLAS reported success with a value that cannot be true. It is not
	// a code of cuBLAS.
	StatusImpossibleValue Status = -2
)

var statuses = status.Table[Status]{Prefix: "CUBLAS_STATUS_", Known: map[Status][2]string{
	StatusSuccess:         {"CUBLAS_STATUS_SUCCESS", "success"},
	StatusNotInitialized:  {"CUBLAS_STATUS_NOT_INITIALIZED", "cuBLAS did not start: no handle, or CUDA is not usable"},
	StatusAllocFailed:     {"CUBLAS_STATUS_ALLOC_FAILED", "the device or the host has no memory left"},
	StatusInvalidValue:    {"CUBLAS_STATUS_INVALID_VALUE", "an argument is not valid"},
	StatusArchMismatch:    {"CUBLAS_STATUS_ARCH_MISMATCH", "the device does not have what is needed"},
	StatusMappingError:    {"CUBLAS_STATUS_MAPPING_ERROR", "memory could not be reached"},
	StatusExecutionFailed: {"CUBLAS_STATUS_EXECUTION_FAILED", "a kernel could not be launched"},
	StatusInternalError:   {"CUBLAS_STATUS_INTERNAL_ERROR", "an error within cuBLAS"},
	StatusNotSupported:    {"CUBLAS_STATUS_NOT_SUPPORTED", "cuBLAS does not do this with these types, shapes or addresses on this device"},
	StatusLicenseError:    {"CUBLAS_STATUS_LICENSE_ERROR", "a license is missing"},
	StatusSymbolMissing:   {"symbol missing", "this cuBLAS does not have the function"},
	StatusImpossibleValue: {"impossible value", "cuBLAS returned what cannot be true"},
	status.NoKernels:      status.WithoutKernels("cublastest"),
}}

// Name returns the name of the status in the header. It needs no library.
func (s Status) Name() string { return statuses.Name(s) }

// Text says in a few words what the status means.
func (s Status) Text() string { return statuses.Text(s) }

func (s Status) String() string { return statuses.String(s) }

// Error makes a Status a target for errors.Is: errors.Is(err, cublas.StatusNotSupported). Do not return a
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
	case StatusNotSupported, StatusArchMismatch:
		e.Kind = driver.ErrUnsupported
	case StatusAllocFailed:
		e.Kind = driver.ErrOutOfMemory
	case StatusSymbolMissing:
		e.Kind = driver.ErrSymbolMissing
		e.Detail = library.CUBLAS.TooOld(function, oldest, library.Version(api.Version()))
	}
	return e
}
