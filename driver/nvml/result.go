package nvml

import "github.com/purecuda/purecuda/internal/status"

// Result is what a function of NVML returns.
type Result int32

// The results, by their names in nvml.h.
// https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html
const (
	Success                       Result = 0
	ResultUninitialized           Result = 1
	ResultInvalidArgument         Result = 2
	ResultNotSupported            Result = 3
	ResultNoPermission            Result = 4
	ResultAlreadyInitialized      Result = 5
	ResultNotFound                Result = 6
	ResultInsufficientSize        Result = 7
	ResultInsufficientPower       Result = 8
	ResultDriverNotLoaded         Result = 9
	ResultTimeout                 Result = 10
	ResultIRQIssue                Result = 11
	ResultLibraryNotFound         Result = 12
	ResultFunctionNotFound        Result = 13
	ResultCorruptedInfoROM        Result = 14
	ResultGPUIsLost               Result = 15
	ResultResetRequired           Result = 16
	ResultOperatingSystem         Result = 17
	ResultLibRMVersionMismatch    Result = 18
	ResultInUse                   Result = 19
	ResultMemory                  Result = 20
	ResultNoData                  Result = 21
	ResultVGPUECCNotSupported     Result = 22
	ResultInsufficientResources   Result = 23
	ResultFreqNotSupported        Result = 24
	ResultArgumentVersionMismatch Result = 25
	ResultDeprecated              Result = 26
	ResultNotReady                Result = 27
	ResultGPUNotFound             Result = 28
	ResultInvalidState            Result = 29
	ResultResetTypeNotSupported   Result = 30
	ResultUnknown                 Result = 999

	// ResultSymbolMissing is returned by methods of [API] whose function this NVML does not have. It is not
	// a code of NVML.
	ResultSymbolMissing Result = status.SymbolMissing
	// ResultImpossibleValue is returned by methods of [*Library] where NVML reported success with a value
	// that cannot be true. It is not a code of NVML.
	ResultImpossibleValue Result = status.ImpossibleValue
)

// results are the names in nvml.h and what they mean, in our words.
var results = status.Of("NVML", "NVML_ERROR_", "", map[Result][2]string{
	Success:                       {"NVML_SUCCESS", "success"},
	ResultUninitialized:           {"NVML_ERROR_UNINITIALIZED", "NVML was closed, or never opened"},
	ResultInvalidArgument:         {"NVML_ERROR_INVALID_ARGUMENT", "an argument is not valid"},
	ResultNotSupported:            {"NVML_ERROR_NOT_SUPPORTED", "the device does not have this"},
	ResultNoPermission:            {"NVML_ERROR_NO_PERMISSION", "the user may not do this"},
	ResultAlreadyInitialized:      {"NVML_ERROR_ALREADY_INITIALIZED", "NVML is open already"},
	ResultNotFound:                {"NVML_ERROR_NOT_FOUND", "there is no such thing"},
	ResultInsufficientSize:        {"NVML_ERROR_INSUFFICIENT_SIZE", "the buffer is too small"},
	ResultInsufficientPower:       {"NVML_ERROR_INSUFFICIENT_POWER", "the power cables of the device are not attached properly"},
	ResultDriverNotLoaded:         {"NVML_ERROR_DRIVER_NOT_LOADED", "the driver is not loaded into the kernel"},
	ResultTimeout:                 {"NVML_ERROR_TIMEOUT", "the time is over"},
	ResultIRQIssue:                {"NVML_ERROR_IRQ_ISSUE", "the kernel has trouble with the interrupts of a device"},
	ResultLibraryNotFound:         {"NVML_ERROR_LIBRARY_NOT_FOUND", "the driver lacks a library"},
	ResultFunctionNotFound:        {"NVML_ERROR_FUNCTION_NOT_FOUND", "this driver does not have the function"},
	ResultCorruptedInfoROM:        {"NVML_ERROR_CORRUPTED_INFOROM", "the infoROM of the device is damaged"},
	ResultGPUIsLost:               {"NVML_ERROR_GPU_IS_LOST", "the device has fallen off the bus"},
	ResultResetRequired:           {"NVML_ERROR_RESET_REQUIRED", "the device has to be reset before it can be used again"},
	ResultOperatingSystem:         {"NVML_ERROR_OPERATING_SYSTEM", "the operating system or a cgroup keeps the device away"},
	ResultLibRMVersionMismatch:    {"NVML_ERROR_LIB_RM_VERSION_MISMATCH", "the library and the kernel module are of different versions: reboot"},
	ResultInUse:                   {"NVML_ERROR_IN_USE", "the device is in use"},
	ResultMemory:                  {"NVML_ERROR_MEMORY", "there is not enough memory"},
	ResultNoData:                  {"NVML_ERROR_NO_DATA", "there is nothing to read yet"},
	ResultVGPUECCNotSupported:     {"NVML_ERROR_VGPU_ECC_NOT_SUPPORTED", "a virtual GPU cannot do this while ECC is on"},
	ResultInsufficientResources:   {"NVML_ERROR_INSUFFICIENT_RESOURCES", "resources other than memory have run out"},
	ResultFreqNotSupported:        {"NVML_ERROR_FREQ_NOT_SUPPORTED", "the device does not have the frequency"},
	ResultArgumentVersionMismatch: {"NVML_ERROR_ARGUMENT_VERSION_MISMATCH", "this NVML does not know the version of a structure"},
	ResultDeprecated:              {"NVML_ERROR_DEPRECATED", "this NVML does not do this any more"},
	ResultNotReady:                {"NVML_ERROR_NOT_READY", "the system is not ready"},
	ResultGPUNotFound:             {"NVML_ERROR_GPU_NOT_FOUND", "there is no device"},
	ResultInvalidState:            {"NVML_ERROR_INVALID_STATE", "the device is in a state in which this cannot be done"},
	ResultResetTypeNotSupported:   {"NVML_ERROR_RESET_TYPE_NOT_SUPPORTED", "the device cannot be reset so"},
	ResultUnknown:                 {"NVML_ERROR_UNKNOWN", "an error within the driver"},
})

// Name returns the name of the result in nvml.h. It needs no library.
func (r Result) Name() string { return results.Name(r) }

// Text says in a few words what the result means.
func (r Result) Text() string { return results.Text(r) }

func (r Result) String() string { return results.String(r) }

// Error makes a Result a target for errors.Is: errors.Is(err, nvml.ResultResetRequired). Do not return a
// bare Result as an error: Success would be one as well.
func (r Result) Error() string { return results.Error(r) }
