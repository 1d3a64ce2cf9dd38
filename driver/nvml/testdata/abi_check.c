/* The proof that package nvml agrees with NVIDIA's header. It is compiled on a host that has it, and never run:
 *
 *     cc -std=c11 -fsyntax-only -I/usr/local/cuda/include abi_check.c
 */
#include <stddef.h>
#include <nvml.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define OFFSET(type, field, bytes) _Static_assert(offsetof(type, field) == (bytes), #type "." #field)
#define VALUE(name, value) _Static_assert((long long)(name) == (value), #name)
#define CALL(name, ...) _Static_assert(__builtin_types_compatible_p(__typeof__(&name), nvmlReturn_t (*)(__VA_ARGS__)), #name)

SIZE(nvmlDevice_t, 8);
SIZE(nvmlEventSet_t, 8);
SIZE(nvmlReturn_t, 4);
SIZE(nvmlMemory_t, 24);
OFFSET(nvmlMemory_t, free, 8);
OFFSET(nvmlMemory_t, used, 16);
SIZE(nvmlMemory_v2_t, 40);
OFFSET(nvmlMemory_v2_t, total, 8);
OFFSET(nvmlMemory_v2_t, reserved, 16);
OFFSET(nvmlMemory_v2_t, free, 24);
OFFSET(nvmlMemory_v2_t, used, 32);
VALUE(nvmlMemory_v2, 40 | 2 << 24);
SIZE(nvmlUtilization_t, 8);
OFFSET(nvmlUtilization_t, memory, 4);
SIZE(nvmlPciInfo_t, 68);
OFFSET(nvmlPciInfo_t, domain, 16);
OFFSET(nvmlPciInfo_t, busId, 36);
SIZE(nvmlProcessInfo_v2_t, 24);
SIZE(nvmlProcessInfo_t, 24);
OFFSET(nvmlProcessInfo_t, usedGpuMemory, 8);
OFFSET(nvmlProcessInfo_t, gpuInstanceId, 16);
SIZE(nvmlEventData_t, 32);
OFFSET(nvmlEventData_t, eventType, 8);
OFFSET(nvmlEventData_t, eventData, 16);
OFFSET(nvmlEventData_t, gpuInstanceId, 24);

VALUE(NVML_ERROR_NOT_SUPPORTED, 3);
VALUE(NVML_ERROR_NOT_FOUND, 6);
VALUE(NVML_ERROR_INSUFFICIENT_SIZE, 7);
VALUE(NVML_ERROR_DRIVER_NOT_LOADED, 9);
VALUE(NVML_ERROR_TIMEOUT, 10);
VALUE(NVML_ERROR_FUNCTION_NOT_FOUND, 13);
VALUE(NVML_ERROR_GPU_IS_LOST, 15);
VALUE(NVML_ERROR_RESET_REQUIRED, 16);
VALUE(NVML_ERROR_LIB_RM_VERSION_MISMATCH, 18);
VALUE(NVML_CLOCK_SM, 1);
VALUE(NVML_CLOCK_MEM, 2);
VALUE(NVML_CLOCK_VIDEO, 3);
VALUE(NVML_TEMPERATURE_GPU, 0);
VALUE(NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, 1);
VALUE(NVML_MEMORY_ERROR_TYPE_UNCORRECTED, 1);
VALUE(NVML_AGGREGATE_ECC, 1);
VALUE(nvmlEventTypeSingleBitEccError, 1);
VALUE(nvmlEventTypeDoubleBitEccError, 2);
VALUE(nvmlEventTypeXidCriticalError, 8);
VALUE(nvmlClocksThrottleReasonGpuIdle, 1);
VALUE(nvmlClocksThrottleReasonApplicationsClocksSetting, 2);
VALUE(nvmlClocksThrottleReasonSwPowerCap, 4);
VALUE(nvmlClocksThrottleReasonHwSlowdown, 8);
VALUE(nvmlClocksThrottleReasonSyncBoost, 0x10);
VALUE(nvmlClocksThrottleReasonSwThermalSlowdown, 0x20);
VALUE(nvmlClocksThrottleReasonHwThermalSlowdown, 0x40);
VALUE(nvmlClocksThrottleReasonHwPowerBrakeSlowdown, 0x80);
VALUE(nvmlClocksThrottleReasonDisplayClockSetting, 0x100);

typedef unsigned int u;
typedef unsigned long long ull;
CALL(nvmlInit_v2, void);
CALL(nvmlShutdown, void);
CALL(nvmlSystemGetDriverVersion, char *, u);
CALL(nvmlDeviceGetCount_v2, u *);
CALL(nvmlDeviceGetHandleByIndex_v2, u, nvmlDevice_t *);
CALL(nvmlDeviceGetHandleByUUID, const char *, nvmlDevice_t *);
CALL(nvmlDeviceGetUUID, nvmlDevice_t, char *, u);
CALL(nvmlDeviceGetName, nvmlDevice_t, char *, u);
CALL(nvmlDeviceGetPciInfo_v3, nvmlDevice_t, nvmlPciInfo_t *);
CALL(nvmlDeviceGetMemoryInfo, nvmlDevice_t, nvmlMemory_t *);
CALL(nvmlDeviceGetMemoryInfo_v2, nvmlDevice_t, nvmlMemory_v2_t *);
CALL(nvmlDeviceGetUtilizationRates, nvmlDevice_t, nvmlUtilization_t *);
CALL(nvmlDeviceGetClockInfo, nvmlDevice_t, nvmlClockType_t, u *);
CALL(nvmlDeviceGetMaxClockInfo, nvmlDevice_t, nvmlClockType_t, u *);
CALL(nvmlDeviceGetCurrentClocksThrottleReasons, nvmlDevice_t, ull *);
CALL(nvmlDeviceGetTemperature, nvmlDevice_t, nvmlTemperatureSensors_t, u *);
CALL(nvmlDeviceGetTemperatureThreshold, nvmlDevice_t, nvmlTemperatureThresholds_t, u *);
CALL(nvmlDeviceGetPowerUsage, nvmlDevice_t, u *);
CALL(nvmlDeviceGetEnforcedPowerLimit, nvmlDevice_t, u *);
CALL(nvmlDeviceGetEccMode, nvmlDevice_t, nvmlEnableState_t *, nvmlEnableState_t *);
CALL(nvmlDeviceGetTotalEccErrors, nvmlDevice_t, nvmlMemoryErrorType_t, nvmlEccCounterType_t, ull *);
CALL(nvmlDeviceGetRemappedRows, nvmlDevice_t, u *, u *, u *, u *);
CALL(nvmlDeviceGetComputeRunningProcesses_v3, nvmlDevice_t, u *, nvmlProcessInfo_t *);
CALL(nvmlDeviceGetMigMode, nvmlDevice_t, u *, u *);
CALL(nvmlDeviceGetMaxMigDeviceCount, nvmlDevice_t, u *);
CALL(nvmlDeviceGetMigDeviceHandleByIndex, nvmlDevice_t, u, nvmlDevice_t *);
CALL(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, nvmlDevice_t, nvmlDevice_t *);
CALL(nvmlDeviceGetNvLinkState, nvmlDevice_t, u, nvmlEnableState_t *);
CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2, nvmlDevice_t, u, nvmlPciInfo_t *);
CALL(nvmlDeviceGetCurrPcieLinkGeneration, nvmlDevice_t, u *);
CALL(nvmlDeviceGetCurrPcieLinkWidth, nvmlDevice_t, u *);
CALL(nvmlDeviceGetMaxPcieLinkGeneration, nvmlDevice_t, u *);
CALL(nvmlDeviceGetMaxPcieLinkWidth, nvmlDevice_t, u *);
CALL(nvmlDeviceGetSupportedEventTypes, nvmlDevice_t, ull *);
CALL(nvmlEventSetCreate, nvmlEventSet_t *);
CALL(nvmlDeviceRegisterEvents, nvmlDevice_t, ull, nvmlEventSet_t);
CALL(nvmlEventSetWait_v2, nvmlEventSet_t, nvmlEventData_t *, u);
CALL(nvmlEventSetFree, nvmlEventSet_t);
