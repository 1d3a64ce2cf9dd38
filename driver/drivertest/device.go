package drivertest

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
)

// device is one simulated GPU. Its handle is its ordinal.
type device struct {
	d       *simulated
	ordinal int
	config  DeviceConfig
	used    uint64 // bytes of memory given to allocations and held by pools

	defaultPool, pool *pool

	primary      *context     // nil while nobody uses it
	gone         atomic.Bool  // vanished; streams read it without the lock
	life         atomic.Int64 // counts how often it has vanished
	retains      int
	contextFlags uint32
}

func (d *simulated) newDevice(ordinal int, c DeviceConfig) *device {
	dev := &device{d: d, ordinal: ordinal, config: c}
	dev.defaultPool = &pool{handle: driver.MemPool(d.newHandle()), dev: dev, access: map[int]driver.MemAccessFlags{}}
	dev.defaultPool.reuse = defaultReuse
	d.pools.live[dev.defaultPool.handle] = dev.defaultPool
	dev.pool = dev.defaultPool
	return dev
}

func (d *simulated) device(h driver.Device) (*device, driver.Result) {
	if h < 0 || int(h) >= len(d.devices) {
		return nil, driver.ResultInvalidDevice
	}
	return d.devices[h], driver.Success
}

// device finds a device, which has to be there still, but for calls that do nothing to it.
func (c call) device(h driver.Device) (*device, driver.Result) {
	dev, r := c.d.device(h)
	if r == driver.Success && !c.rule.harmless {
		r = dev.present()
	}
	return dev, r
}

func (d *simulated) DeviceGetCount() (int32, driver.Result) {
	return get(d, "cuDeviceGetCount", func(_ call) (int32, driver.Result) { return int32(len(d.devices)), driver.Success })
}

func (d *simulated) DeviceGet(ordinal int32) (driver.Device, driver.Result) {
	return getOf(d, call.device, "cuDeviceGet", driver.Device(ordinal), func(_ call, _ *device) (driver.Device, driver.Result) {
		return driver.Device(ordinal), driver.Success
	})
}

func (d *simulated) DeviceGetName(h driver.Device) (string, driver.Result) {
	return getOf(d, call.device, "cuDeviceGetName", h, func(_ call, dev *device) (string, driver.Result) { return dev.config.Name, driver.Success })
}

func (d *simulated) DeviceGetUUID(h driver.Device) (driver.UUID, driver.Result) {
	return getOf(d, call.device, "cuDeviceGetUuid", h, func(_ call, dev *device) (driver.UUID, driver.Result) {
		return dev.config.UUID, driver.Success
	})
}

func (d *simulated) DeviceTotalMem(h driver.Device) (uint64, driver.Result) {
	return getOf(d, call.device, "cuDeviceTotalMem", h, func(_ call, dev *device) (uint64, driver.Result) { return dev.config.Memory, driver.Success })
}

func (d *simulated) DeviceGetPCIBusID(h driver.Device) (string, driver.Result) {
	return getOf(d, call.device, "cuDeviceGetPCIBusId", h, func(_ call, dev *device) (string, driver.Result) {
		return dev.config.PCIBusID, driver.Success
	})
}

func (d *simulated) DeviceGetByPCIBusID(id string) (driver.Device, driver.Result) {
	return get(d, "cuDeviceGetByPCIBusId", func(_ call) (driver.Device, driver.Result) {
		want, ok := parsePCI(id)
		if !ok {
			return 0, driver.ResultInvalidValue
		}
		for _, dev := range d.devices {
			if have, ok := parsePCI(dev.config.PCIBusID); ok && have == want {
				return driver.Device(dev.ordinal), driver.Success
			}
		}
		return 0, driver.ResultInvalidDevice
	})
}

// pciAddress is domain, bus, device and function.
type pciAddress [4]int32

// parsePCI reads "domain:bus:device.function"; the domain and the function may be
// left out.
func parsePCI(id string) (a pciAddress, ok bool) {
	if strings.Count(id, ":") == 1 {
		id = "0:" + id
	}
	if !strings.Contains(id, ".") {
		id += ".0"
	}
	n, err := fmt.Sscanf(id, "%x:%x:%x.%x", &a[0], &a[1], &a[2], &a[3])
	return a, n == 4 && err == nil
}

func (d *simulated) DeviceGetAttribute(attribute driver.DeviceAttribute, h driver.Device) (int32, driver.Result) {
	return getOf(d, call.device, "cuDeviceGetAttribute", h, func(_ call, dev *device) (int32, driver.Result) {
		value, ok := dev.attribute(attribute)
		if !ok {
			return 0, driver.ResultInvalidValue
		}
		return value, driver.Success
	})
}

func (dev *device) attribute(a driver.DeviceAttribute) (int32, bool) {
	if value, ok := dev.config.Attributes[a]; ok {
		return value, true
	}
	if dev.d.config.Version < attributeSince[a] {
		return 0, false
	}
	if value, ok := dev.ownAttributes()[a]; ok {
		return value, true
	}
	value, ok := commonAttributes[a]
	return value, ok
}

// ownAttributes are those that follow from the configuration.
func (dev *device) ownAttributes() map[driver.DeviceAttribute]int32 {
	c := &dev.config
	pci, _ := parsePCI(c.PCIBusID)
	return map[driver.DeviceAttribute]int32{
		driver.DeviceAttributeComputeCapabilityMajor:           int32(c.Major),
		driver.DeviceAttributeComputeCapabilityMinor:           int32(c.Minor),
		driver.DeviceAttributeMultiprocessorCount:              int32(c.SMs),
		driver.DeviceAttributeMaxThreadsPerMultiprocessor:      int32(c.model.threadsPerSM),
		driver.DeviceAttributeMaxBlocksPerMultiprocessor:       int32(c.model.blocksPerSM),
		driver.DeviceAttributeMaxSharedMemoryPerBlock:          int32(c.model.sharedPerBlock),
		driver.DeviceAttributeMaxSharedMemoryPerBlockOptin:     int32(c.model.sharedPerBlockOptin),
		driver.DeviceAttributeMaxSharedMemoryPerMultiprocessor: int32(c.model.sharedPerSM),
		driver.DeviceAttributeL2CacheSize:                      int32(c.model.l2Bytes),
		driver.DeviceAttributeClockRate:                        int32(c.model.clockKHz),
		driver.DeviceAttributeMemoryClockRate:                  int32(c.model.memoryClockKHz),
		driver.DeviceAttributeGlobalMemoryBusWidth:             int32(c.model.memoryBusBits),
		driver.DeviceAttributeAsyncEngineCount:                 int32(c.model.copyEngines),
		driver.DeviceAttributeGPUOverlap:                       boolean(c.model.copyEngines > 0),
		driver.DeviceAttributeTensorMapAccessSupported:         boolean(c.Major >= 9),
		driver.DeviceAttributeIntegrated:                       0,
		driver.DeviceAttributeECCEnabled:                       boolean(c.ECC),
		driver.DeviceAttributeMemoryPoolsSupported:             boolean(!c.NoPools),
		driver.DeviceAttributePCIDomainID:                      pci[0],
		driver.DeviceAttributePCIBusID:                         pci[1],
		driver.DeviceAttributePCIDeviceID:                      pci[2],
		driver.DeviceAttributeMultiGPUBoardGroupID:             int32(dev.ordinal),
	}
}

func boolean(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// attributeSince are the CUDA versions that brought the attributes which a program
// may ask an old driver for.
var attributeSince = map[driver.DeviceAttribute]driver.Version{
	driver.DeviceAttributeMemoryPoolsSupported:        11020,
	driver.DeviceAttributeGPUDirectRDMASupported:      11030,
	driver.DeviceAttributeMempoolSupportedHandleTypes: 11030,
	driver.DeviceAttributeDMABufSupported:             11070,
	driver.DeviceAttributeCanUse64BitStreamMemOps:     11070,
	driver.DeviceAttributeCanUseStreamWaitValueNOR:    11070,
	driver.DeviceAttributeClusterLaunch:               11080,
	driver.DeviceAttributeIPCEventSupported:           12000,
	driver.DeviceAttributeMemSyncDomainCount:          12000,
	driver.DeviceAttributeTensorMapAccessSupported:    12000,
	driver.DeviceAttributeUnifiedFunctionPointers:     12000,
	driver.DeviceAttributeMulticastSupported:          12010,
	driver.DeviceAttributeNUMAConfig:                  12020,
	driver.DeviceAttributeNUMAID:                      12020,
	driver.DeviceAttributeHandleTypeFabricSupported:   12040,
	driver.DeviceAttributeMemDecompressAlgorithmMask:  12080,
	driver.DeviceAttributeMemDecompressMaximumLength:  12080,
}

// commonAttributes are the same for all devices: limits of the programming model,
// and features that are simulated (1) or not (0).
var commonAttributes = map[driver.DeviceAttribute]int32{
	driver.DeviceAttributeMaxThreadsPerBlock:                     maxThreadsPerBlock,
	driver.DeviceAttributeMaxBlockDimX:                           maxBlockX,
	driver.DeviceAttributeMaxBlockDimY:                           maxBlockY,
	driver.DeviceAttributeMaxBlockDimZ:                           maxBlockZ,
	driver.DeviceAttributeMaxGridDimX:                            maxGridX,
	driver.DeviceAttributeMaxGridDimY:                            maxGridYZ,
	driver.DeviceAttributeMaxGridDimZ:                            maxGridYZ,
	driver.DeviceAttributeTotalConstantMemory:                    64 << 10,
	driver.DeviceAttributeWarpSize:                               warpSize,
	driver.DeviceAttributeMaxPitch:                               maxPitch,
	driver.DeviceAttributeMaxRegistersPerBlock:                   maxRegisters,
	driver.DeviceAttributeMaxRegistersPerMultiprocessor:          maxRegisters,
	driver.DeviceAttributeReservedSharedMemoryPerBlock:           reservedShared,
	driver.DeviceAttributeCanMapHostMemory:                       1,
	driver.DeviceAttributeConcurrentKernels:                      1,
	driver.DeviceAttributeUnifiedAddressing:                      1,
	driver.DeviceAttributeStreamPrioritiesSupported:              1,
	driver.DeviceAttributeGlobalL1CacheSupported:                 1,
	driver.DeviceAttributeLocalL1CacheSupported:                  1,
	driver.DeviceAttributeCooperativeLaunch:                      1,
	driver.DeviceAttributeComputePreemptionSupported:             1,
	driver.DeviceAttributeCanUse64BitStreamMemOps:                1,
	driver.DeviceAttributeCanUseStreamWaitValueNOR:               1,
	driver.DeviceAttributeManagedMemory:                          1,
	driver.DeviceAttributeConcurrentManagedAccess:                1,
	driver.DeviceAttributeVirtualAddressManagementSupported:      1,
	driver.DeviceAttributeHandleTypePosixFileDescriptorSupported: canShare,
	driver.DeviceAttributeSingleToDoublePrecisionPerfRatio:       2,

	driver.DeviceAttributeKernelExecTimeout:                        0,
	driver.DeviceAttributeComputeMode:                              0,
	driver.DeviceAttributeTCCDriver:                                0,
	driver.DeviceAttributeMultiGPUBoard:                            0,
	driver.DeviceAttributeHostNativeAtomicSupported:                0,
	driver.DeviceAttributePageableMemoryAccess:                     0,
	driver.DeviceAttributeCanUseHostPointerForRegisteredMem:        0,
	driver.DeviceAttributeCooperativeMultiDeviceLaunch:             0,
	driver.DeviceAttributeCanFlushRemoteWrites:                     0,
	driver.DeviceAttributeHostRegisterSupported:                    0,
	driver.DeviceAttributePageableMemoryAccessUsesHostPageTables:   0,
	driver.DeviceAttributeDirectManagedMemAccessFromHost:           0,
	driver.DeviceAttributeHandleTypeWin32HandleSupported:           0,
	driver.DeviceAttributeHandleTypeWin32KmtHandleSupported:        0,
	driver.DeviceAttributeGenericCompressionSupported:              0,
	driver.DeviceAttributeMaxPersistingL2CacheSize:                 0,
	driver.DeviceAttributeMaxAccessPolicyWindowSize:                0,
	driver.DeviceAttributeGPUDirectRDMAWithCUDAVMMSupported:        0,
	driver.DeviceAttributeReadOnlyHostRegisterSupported:            0,
	driver.DeviceAttributeTimelineSemaphoreInteropSupported:        0,
	driver.DeviceAttributeGPUDirectRDMASupported:                   0,
	driver.DeviceAttributeGPUDirectRDMAFlushWritesOptions:          0,
	driver.DeviceAttributeGPUDirectRDMAWritesOrdering:              0,
	driver.DeviceAttributeMempoolSupportedHandleTypes:              0,
	driver.DeviceAttributeClusterLaunch:                            0,
	driver.DeviceAttributeDMABufSupported:                          0,
	driver.DeviceAttributeIPCEventSupported:                        0,
	driver.DeviceAttributeMemSyncDomainCount:                       1,
	driver.DeviceAttributeHandleTypeFabricSupported:                0,
	driver.DeviceAttributeUnifiedFunctionPointers:                  0,
	driver.DeviceAttributeNUMAConfig:                               0,
	driver.DeviceAttributeNUMAID:                                   -1,
	driver.DeviceAttributeMulticastSupported:                       0,
	driver.DeviceAttributeMPSEnabled:                               0,
	driver.DeviceAttributeHostNUMAID:                               0,
	driver.DeviceAttributeMemDecompressAlgorithmMask:               0,
	driver.DeviceAttributeMemDecompressMaximumLength:               0,
	driver.DeviceAttributeGPUPCIDeviceID:                           0,
	driver.DeviceAttributeGPUPCISubsystemID:                        0,
	driver.DeviceAttributeHostNUMAVirtualMemoryManagementSupported: 0,
	driver.DeviceAttributeHostNUMAMemoryPoolsSupported:             0,
	driver.DeviceAttributeHostNUMAMultinodeIPCSupported:            0,
	driver.DeviceAttributeHostMemoryPoolsSupported:                 0,
	driver.DeviceAttributeHostVirtualMemoryManagementSupported:     0,
	driver.DeviceAttributeHostAllocDMABufSupported:                 0,
	driver.DeviceAttributeOnlyPartialHostNativeAtomicSupported:     0,
}

// Limits that all architectures share.
const (
	warpSize           = 32
	maxThreadsPerBlock = 1024
	maxBlockX          = 1024
	maxBlockY          = 1024
	maxBlockZ          = 64
	maxGridX           = 1<<31 - 1
	maxGridYZ          = 65535
	maxRegisters       = 64 << 10 // of a block and of a multiprocessor
	reservedShared     = 1 << 10  // of each block, by the driver
)
