package nvml

import "github.com/purecuda/purecuda/internal/library"

// Result is what a function of NVML returns.
type Result int32

// The results, by their names in nvml.h.
// https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html
const (
	Success                      Result = 0
	ErrorUninitialized           Result = 1
	ErrorInvalidArgument         Result = 2
	ErrorNotSupported            Result = 3
	ErrorNoPermission            Result = 4
	ErrorAlreadyInitialized      Result = 5
	ErrorNotFound                Result = 6
	ErrorInsufficientSize        Result = 7
	ErrorInsufficientPower       Result = 8
	ErrorDriverNotLoaded         Result = 9
	ErrorTimeout                 Result = 10
	ErrorIRQIssue                Result = 11
	ErrorLibraryNotFound         Result = 12
	ErrorFunctionNotFound        Result = 13
	ErrorCorruptedInfoROM        Result = 14
	ErrorGPUIsLost               Result = 15
	ErrorResetRequired           Result = 16
	ErrorOperatingSystem         Result = 17
	ErrorLibRMVersionMismatch    Result = 18
	ErrorInUse                   Result = 19
	ErrorMemory                  Result = 20
	ErrorNoData                  Result = 21
	ErrorVGPUECCNotSupported     Result = 22
	ErrorInsufficientResources   Result = 23
	ErrorFreqNotSupported        Result = 24
	ErrorArgumentVersionMismatch Result = 25
	ErrorDeprecated              Result = 26
	ErrorNotReady                Result = 27
	ErrorGPUNotFound             Result = 28
	ErrorInvalidState            Result = 29
	ErrorResetTypeNotSupported   Result = 30
	ErrorUnknown                 Result = 999

	// ErrorSymbolMissing is returned by methods of [API] whose function this NVML does not have. It is not
	// a code of NVML.
	ErrorSymbolMissing Result = -1
	// ErrorImpossibleValue is returned by methods of [*Library] where NVML reported success with a value
	// that cannot be true. It is not a code of NVML.
	ErrorImpossibleValue Result = -2
)

// results are the names in nvml.h and what they mean, in our words.
var results = library.Results[Result]{Prefix: "NVML_ERROR_", Known: map[Result][2]string{
	Success:                      {"NVML_SUCCESS", "success"},
	ErrorUninitialized:           {"NVML_ERROR_UNINITIALIZED", "NVML was closed, or never opened"},
	ErrorInvalidArgument:         {"NVML_ERROR_INVALID_ARGUMENT", "an argument is not valid"},
	ErrorNotSupported:            {"NVML_ERROR_NOT_SUPPORTED", "the device does not have this"},
	ErrorNoPermission:            {"NVML_ERROR_NO_PERMISSION", "the user may not do this"},
	ErrorAlreadyInitialized:      {"NVML_ERROR_ALREADY_INITIALIZED", "NVML is open already"},
	ErrorNotFound:                {"NVML_ERROR_NOT_FOUND", "there is no such thing"},
	ErrorInsufficientSize:        {"NVML_ERROR_INSUFFICIENT_SIZE", "the buffer is too small"},
	ErrorInsufficientPower:       {"NVML_ERROR_INSUFFICIENT_POWER", "the power cables of the device are not attached properly"},
	ErrorDriverNotLoaded:         {"NVML_ERROR_DRIVER_NOT_LOADED", "the driver is not loaded into the kernel"},
	ErrorTimeout:                 {"NVML_ERROR_TIMEOUT", "the time is over"},
	ErrorIRQIssue:                {"NVML_ERROR_IRQ_ISSUE", "the kernel has trouble with the interrupts of a device"},
	ErrorLibraryNotFound:         {"NVML_ERROR_LIBRARY_NOT_FOUND", "the driver lacks a library"},
	ErrorFunctionNotFound:        {"NVML_ERROR_FUNCTION_NOT_FOUND", "this driver does not have the function"},
	ErrorCorruptedInfoROM:        {"NVML_ERROR_CORRUPTED_INFOROM", "the infoROM of the device is damaged"},
	ErrorGPUIsLost:               {"NVML_ERROR_GPU_IS_LOST", "the device has fallen off the bus"},
	ErrorResetRequired:           {"NVML_ERROR_RESET_REQUIRED", "the device has to be reset before it can be used again"},
	ErrorOperatingSystem:         {"NVML_ERROR_OPERATING_SYSTEM", "the operating system or a cgroup keeps the device away"},
	ErrorLibRMVersionMismatch:    {"NVML_ERROR_LIB_RM_VERSION_MISMATCH", "the library and the kernel module are of different versions: reboot"},
	ErrorInUse:                   {"NVML_ERROR_IN_USE", "the device is in use"},
	ErrorMemory:                  {"NVML_ERROR_MEMORY", "there is not enough memory"},
	ErrorNoData:                  {"NVML_ERROR_NO_DATA", "there is nothing to read yet"},
	ErrorVGPUECCNotSupported:     {"NVML_ERROR_VGPU_ECC_NOT_SUPPORTED", "a virtual GPU cannot do this while ECC is on"},
	ErrorInsufficientResources:   {"NVML_ERROR_INSUFFICIENT_RESOURCES", "resources other than memory have run out"},
	ErrorFreqNotSupported:        {"NVML_ERROR_FREQ_NOT_SUPPORTED", "the device does not have the frequency"},
	ErrorArgumentVersionMismatch: {"NVML_ERROR_ARGUMENT_VERSION_MISMATCH", "this NVML does not know the version of a structure"},
	ErrorDeprecated:              {"NVML_ERROR_DEPRECATED", "this NVML does not do this any more"},
	ErrorNotReady:                {"NVML_ERROR_NOT_READY", "the system is not ready"},
	ErrorGPUNotFound:             {"NVML_ERROR_GPU_NOT_FOUND", "there is no device"},
	ErrorInvalidState:            {"NVML_ERROR_INVALID_STATE", "the device is in a state in which this cannot be done"},
	ErrorResetTypeNotSupported:   {"NVML_ERROR_RESET_TYPE_NOT_SUPPORTED", "the device cannot be reset so"},
	ErrorUnknown:                 {"NVML_ERROR_UNKNOWN", "an error within the driver"},
	ErrorSymbolMissing:           {"symbol missing", "this NVML does not have the function"},
	ErrorImpossibleValue:         {"impossible value", "NVML returned what cannot be true"},
}}

// Name returns the name of the result in nvml.h. It needs no library.
func (r Result) Name() string { return results.Name(r) }

// Text says in a few words what the result means.
func (r Result) Text() string { return results.Text(r) }

func (r Result) String() string { return results.String(r) }

// Error makes a Result a target for errors.Is: errors.Is(err, nvml.ErrorResetRequired). Do not return a
// bare Result as an error: Success would be one as well.
func (r Result) Error() string { return results.Error(r) }
