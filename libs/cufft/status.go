package cufft

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/status"
)

// Status is what a function of cuFFT returns.
type Status int32

// The results, by their names in cufft.h.
// https://docs.nvidia.com/cuda/cufft/#return-value-cufftresult
const (
	StatusSuccess           Status = 0x0
	StatusInvalidPlan       Status = 0x1
	StatusAllocFailed       Status = 0x2
	StatusInvalidType       Status = 0x3
	StatusInvalidValue      Status = 0x4
	StatusInternalError     Status = 0x5
	StatusExecFailed        Status = 0x6
	StatusSetupFailed       Status = 0x7
	StatusInvalidSize       Status = 0x8
	StatusUnalignedData     Status = 0x9
	StatusInvalidDevice     Status = 0xB
	StatusNoWorkspace       Status = 0xD
	StatusNotImplemented    Status = 0xE
	StatusNotSupported      Status = 0x10
	StatusMissingDependency Status = 0x11
	StatusNVRTCFailure      Status = 0x12
	StatusNVJitLinkFailure  Status = 0x13
	StatusNVSHMEMFailure    Status = 0x14

	// StatusSymbolMissing is returned by methods of [API] whose function this cuFFT does not have. It is not a
	// code of cuFFT.
	StatusSymbolMissing Status = -1
	// StatusImpossibleValue is returned where cuFFT reported success with a value that cannot be true. It is not
	// a code of cuFFT.
	StatusImpossibleValue Status = -2
)

var statuses = status.Table[Status]{Prefix: "CUFFT_", Known: map[Status][2]string{
	StatusSuccess:           {"CUFFT_SUCCESS", "success"},
	StatusInvalidPlan:       {"CUFFT_INVALID_PLAN", "there is no such plan, or it is of another context"},
	StatusAllocFailed:       {"CUFFT_ALLOC_FAILED", "the device or the host has no memory left"},
	StatusInvalidType:       {"CUFFT_INVALID_TYPE", "a type that cuFFT does not transform"},
	StatusInvalidValue:      {"CUFFT_INVALID_VALUE", "an argument is not valid"},
	StatusInternalError:     {"CUFFT_INTERNAL_ERROR", "an error within cuFFT or the driver"},
	StatusExecFailed:        {"CUFFT_EXEC_FAILED", "a kernel could not be launched"},
	StatusSetupFailed:       {"CUFFT_SETUP_FAILED", "cuFFT did not start"},
	StatusInvalidSize:       {"CUFFT_INVALID_SIZE", "cuFFT does not transform so many numbers"},
	StatusUnalignedData:     {"CUFFT_UNALIGNED_DATA", "memory is not aligned"},
	StatusInvalidDevice:     {"CUFFT_INVALID_DEVICE", "the plan is of another device"},
	StatusNoWorkspace:       {"CUFFT_NO_WORKSPACE", "the plan has no work area"},
	StatusNotImplemented:    {"CUFFT_NOT_IMPLEMENTED", "cuFFT does not do this"},
	StatusNotSupported:      {"CUFFT_NOT_SUPPORTED", "cuFFT does not do this with such a shape, or on this device"},
	StatusMissingDependency: {"CUFFT_MISSING_DEPENDENCY", "cuFFT did not find a library that it asks for"},
	StatusNVRTCFailure:      {"CUFFT_NVRTC_FAILURE", "cuFFT could not compile a kernel"},
	StatusNVJitLinkFailure:  {"CUFFT_NVJITLINK_FAILURE", "cuFFT could not link a kernel"},
	StatusNVSHMEMFailure:    {"CUFFT_NVSHMEM_FAILURE", "an error within NVSHMEM"},
	StatusSymbolMissing:     {"symbol missing", "this cuFFT does not have the function"},
	StatusImpossibleValue:   {"impossible value", "cuFFT returned what cannot be true"},
	status.NoKernels:        status.WithoutKernels("cuffttest"),
}}

// Name returns the name of the status in the header. It needs no library.
func (s Status) Name() string { return statuses.Name(s) }

// Text says in a few words what the status means.
func (s Status) Text() string { return statuses.Text(s) }

func (s Status) String() string { return statuses.String(s) }

// Error makes a Status a target for errors.Is: errors.Is(err, cufft.StatusNotSupported). Do not return a
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
	case StatusNotSupported, StatusNotImplemented, StatusInvalidSize:
		e.Kind = driver.ErrUnsupported
	case StatusAllocFailed:
		e.Kind = driver.ErrOutOfMemory
	case StatusSymbolMissing:
		e.Kind = driver.ErrSymbolMissing
		e.Detail = library.CUFFT.TooOld(function, oldest, library.Version(api.Version()))
	}
	return e
}

// wrong is the error of an argument.
func wrong(format string, args ...any) error {
	return driver.Errorf(driver.ErrInvalidArgument, format, args...)
}
