package nccl

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/status"
)

// Status is an ncclResult_t.
type Status int32

// The results, by their names in nccl.h.
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/types.html#ncclresult-t
const (
	StatusSuccess         Status = 0
	StatusUnhandledCuda   Status = 1
	StatusSystemError     Status = 2
	StatusInternalError   Status = 3
	StatusInvalidArgument Status = 4
	StatusInvalidUsage    Status = 5
	StatusRemoteError     Status = 6
	StatusInProgress      Status = 7
	StatusTimeout         Status = 8

	// StatusImpossibleValue is returned where NCCL reported success with a value that cannot be true. It is not a code of NCCL.
	StatusImpossibleValue Status = -1
)

var statuses = status.Table[Status]{Prefix: "nccl", Known: map[Status][2]string{
	StatusSuccess:         {"ncclSuccess", "success"},
	StatusUnhandledCuda:   {"ncclUnhandledCudaError", "a call of CUDA has failed within NCCL"},
	StatusSystemError:     {"ncclSystemError", "a call of the operating system or the network has failed"},
	StatusInternalError:   {"ncclInternalError", "an error within NCCL"},
	StatusInvalidArgument: {"ncclInvalidArgument", "an argument is not valid"},
	StatusInvalidUsage:    {"ncclInvalidUsage", "NCCL cannot be used so"},
	StatusRemoteError:     {"ncclRemoteError", "another rank has ended, or the network to it"},
	StatusInProgress:      {"ncclInProgress", "the call goes on"},
	StatusTimeout:         {"ncclTimeout", "it took too long"},
	StatusImpossibleValue: {"impossible value", "NCCL returned what cannot be true"},
	status.NoKernels:      status.WithoutKernels("nccltest"),
}}

// Name returns the name of the status in the header. It needs no library.
func (s Status) Name() string { return statuses.Name(s) }

// Text says in a few words what the status means.
func (s Status) Text() string { return statuses.Text(s) }

func (s Status) String() string { return statuses.String(s) }

// Error makes a Status a target for errors.Is: errors.Is(err, nccl.StatusRemoteError). Do not return a bare Status
// as an error: StatusSuccess would be one as well.
func (s Status) Error() string { return statuses.Error(s) }

// failed is the error of a function that did not succeed, or nil. c is 0 where there is no communicator.
func failed(api API, c RawComm, function string, s Status) error {
	if s == StatusSuccess || s == StatusInProgress {
		return nil
	}
	detail := ""
	if text := api.LastError(c); text != "" {
		detail = ": " + text
	}
	e := driver.Errorf(driver.ErrDriverCallFailed, "%w%s", s, detail)
	e.Op = function
	return e
}

func wrong(format string, a ...any) error {
	return driver.Errorf(driver.ErrInvalidArgument, format, a...)
}
