package nvml

// function is an index into functions and Library.fn.
type function int

const (
	fnInit function = iota
	fnShutdown
	fnDriverVersion
	fnCount
	fnByIndex
	fnByUUID
	fnUUID
	fnName
	fnPCIInfo
	fnMemory
	fnMemoryV2
	fnUtilization
	fnClock
	fnMaxClock
	fnClockReasons
	fnTemperature
	fnTemperatureThreshold
	fnPower
	fnPowerLimit
	fnECCMode
	fnECCErrors
	fnRemappedRows
	fnProcesses
	fnMIGMode
	fnMaxMIG
	fnMIGByIndex
	fnParent
	fnNVLinkState
	fnNVLinkRemote
	fnPCIeGeneration
	fnPCIeWidth
	fnMaxPCIeGeneration
	fnMaxPCIeWidth
	fnSupportedEvents
	fnEventSetCreate
	fnRegisterEvents
	fnEventSetWait
	fnEventSetFree

	functionCount
)

// functions are those of NVML that this package calls, newest name first: the names of one line have one
// signature. since is the CUDA version whose driver brought it, for those that the NVML of CUDA 11.0
// lacks. Those that are required say that the library is NVML.
var functions = [functionCount]struct {
	names    []string
	since    string
	required bool
}{
	fnInit:                 {names: []string{"nvmlInit_v2"}, required: true},
	fnShutdown:             {names: []string{"nvmlShutdown"}, required: true},
	fnDriverVersion:        {names: []string{"nvmlSystemGetDriverVersion"}, required: true},
	fnCount:                {names: []string{"nvmlDeviceGetCount_v2"}, required: true},
	fnByIndex:              {names: []string{"nvmlDeviceGetHandleByIndex_v2"}, required: true},
	fnByUUID:               {names: []string{"nvmlDeviceGetHandleByUUID"}, required: true},
	fnUUID:                 {names: []string{"nvmlDeviceGetUUID"}, required: true},
	fnName:                 {names: []string{"nvmlDeviceGetName"}},
	fnPCIInfo:              {names: []string{"nvmlDeviceGetPciInfo_v3"}},
	fnMemory:               {names: []string{"nvmlDeviceGetMemoryInfo"}},
	fnMemoryV2:             {names: []string{"nvmlDeviceGetMemoryInfo_v2"}, since: "11.6"},
	fnUtilization:          {names: []string{"nvmlDeviceGetUtilizationRates"}},
	fnClock:                {names: []string{"nvmlDeviceGetClockInfo"}},
	fnMaxClock:             {names: []string{"nvmlDeviceGetMaxClockInfo"}},
	fnClockReasons:         {names: []string{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}},
	fnTemperature:          {names: []string{"nvmlDeviceGetTemperature"}},
	fnTemperatureThreshold: {names: []string{"nvmlDeviceGetTemperatureThreshold"}},
	fnPower:                {names: []string{"nvmlDeviceGetPowerUsage"}},
	fnPowerLimit:           {names: []string{"nvmlDeviceGetEnforcedPowerLimit"}},
	fnECCMode:              {names: []string{"nvmlDeviceGetEccMode"}},
	fnECCErrors:            {names: []string{"nvmlDeviceGetTotalEccErrors"}},
	fnRemappedRows:         {names: []string{"nvmlDeviceGetRemappedRows"}},
	fnProcesses:            {names: []string{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"}, since: "11.2"},
	fnMIGMode:              {names: []string{"nvmlDeviceGetMigMode"}},
	fnMaxMIG:               {names: []string{"nvmlDeviceGetMaxMigDeviceCount"}},
	fnMIGByIndex:           {names: []string{"nvmlDeviceGetMigDeviceHandleByIndex"}},
	fnParent:               {names: []string{"nvmlDeviceGetDeviceHandleFromMigDeviceHandle"}},
	fnNVLinkState:          {names: []string{"nvmlDeviceGetNvLinkState"}},
	fnNVLinkRemote:         {names: []string{"nvmlDeviceGetNvLinkRemotePciInfo_v2"}},
	fnPCIeGeneration:       {names: []string{"nvmlDeviceGetCurrPcieLinkGeneration"}},
	fnPCIeWidth:            {names: []string{"nvmlDeviceGetCurrPcieLinkWidth"}},
	fnMaxPCIeGeneration:    {names: []string{"nvmlDeviceGetMaxPcieLinkGeneration"}},
	fnMaxPCIeWidth:         {names: []string{"nvmlDeviceGetMaxPcieLinkWidth"}},
	fnSupportedEvents:      {names: []string{"nvmlDeviceGetSupportedEventTypes"}},
	fnEventSetCreate:       {names: []string{"nvmlEventSetCreate"}},
	fnRegisterEvents:       {names: []string{"nvmlDeviceRegisterEvents"}},
	fnEventSetWait:         {names: []string{"nvmlEventSetWait_v2"}},
	fnEventSetFree:         {names: []string{"nvmlEventSetFree"}},
}
