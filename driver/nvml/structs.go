package nvml

import "structs"

// The structures of nvml.h, whose layout testdata/abi_check.c compares with the header.

type cMemory struct {
	_                 structs.HostLayout
	total, free, used uint64
}

type cMemoryV2 struct {
	_                           structs.HostLayout
	version                     uint32
	total, reserved, free, used uint64
}

// memoryVersion is nvmlMemory_v2: the size, and the version in the upper byte.
const memoryVersion = 40 | 2<<24

type cUtilization struct {
	_           structs.HostLayout
	gpu, memory uint32
}

type cPCIInfo struct {
	_                                                structs.HostLayout
	legacyID                                         [16]byte
	domain, bus, device, pciDeviceID, pciSubSystemID uint32
	busID                                            [32]byte
}

// cProcess is nvmlProcessInfo_v2_t, which versions 2 and 3 of the function have.
type cProcess struct {
	_                              structs.HostLayout
	pid                            uint32
	memory                         uint64
	gpuInstance, computeInstanceID uint32
}

type cEvent struct {
	_                              structs.HostLayout
	device                         Device
	types, data                    uint64
	gpuInstance, computeInstanceID uint32
}
