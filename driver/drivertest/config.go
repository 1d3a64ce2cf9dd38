package drivertest

import (
	"fmt"
	"io"
	"maps"

	"github.com/purecuda/purecuda/driver"
)

// Config says what machine to simulate. The zero value is one H100 with driver
// version 13.0.
type Config struct {
	// Devices are the devices in the order of their ordinals. None means one H100.
	Devices []DeviceConfig
	// Version is the CUDA version of the driver. Functions that are newer return
	// driver.ResultSymbolMissing, and newer PTX is refused. 0 means 13.0.
	Version driver.Version
	// Missing names functions ("cuMemAllocAsync") that the driver does not have.
	Missing []string
	// InitResult is what cuInit returns; driver.ResultNoDevice makes a machine
	// without a device.
	InitResult driver.Result
	// HostMemory is the page-locked memory that there can be in bytes; 0 means 4 GiB.
	HostMemory uint64
	// Kernels binds entry points of images by name to Go functions that run in place of the PTX. It
	// is for kernels that the interpreter does not know, or is too slow for, and for those that the
	// program has as machine code only. Of the PTX of such a kernel only the signature counts.
	// Other kernels need nothing: their PTX runs.
	Kernels map[string]KernelFunc
	// MaxSteps is how many instructions the warps of one launch may execute in all. One
	// more ends it with ResultLaunchTimeout, so that an endless loop does not hang the
	// test. A round of a while in a graph counts as 1,024. 0 means 1<<30, which takes from seconds to minutes.
	MaxSteps uint64
	// Printf is where printf in kernels writes to. It is not called concurrently. nil
	// drops the output.
	Printf io.Writer
	// HotPathNeedsContext makes calls that name a stream, an event or a graph fail
	// with ResultInvalidContext on a thread without a current context, which newer
	// drivers do not ask for.
	HotPathNeedsContext bool
	// Connections is how many queues of the hardware the streams of a context share, as
	// CUDA_DEVICE_MAX_CONNECTIONS does. A stream takes the next one when it is made. Work begins in
	// the order in which it came to its connection. Work that has to wait, for the work before it
	// on its stream or for an event, holds up what other streams put there later. An event that is
	// recorded does not, as on an H200. 0 gives every stream a connection of its own, so that
	// streams never hold each other up.
	Connections int
	// OnCall, if not nil, runs at the beginning of every call and is told the
	// function ("cuMemAlloc"). What it returns, other than Success, becomes the
	// result, and the call does nothing. It is called concurrently, may sleep, and
	// must not call the API itself.
	OnCall func(op string) driver.Result
	// Chaos, if not nil, makes calls fail and work wait by chance.
	Chaos *Chaos
	// Stacks makes leaks and findings carry the whole stack of the call and not
	// only its place.
	Stacks bool
}

// DeviceConfig describes a device. A field that is zero is as on an H100.
type DeviceConfig struct {
	Name         string
	Major, Minor int    // compute capability
	SMs          int    // multiprocessors
	Memory       uint64 // bytes; nothing is allocated before it is used
	UUID         driver.UUID
	PCIBusID     string // "0000:04:00.0"

	ECC bool
	// NoPools is a device without stream-ordered memory.
	NoPools bool
	// NoPeers is a device that shares no memory with others.
	NoPeers bool
	// Island is a number: devices share memory with those of the same number only.
	Island int
	// VanishAt is the call at which the device vanishes, counted from 1 over all
	// functions; see [Driver.Vanish]. 0 is never.
	VanishAt int
	// Attributes overrides what DeviceGetAttribute returns.
	Attributes map[driver.DeviceAttribute]int32

	model model
}

// model is what [H100], [A100] and [T4] differ in, beside what a test can choose.
type model struct {
	threadsPerSM, blocksPerSM                        int // resident ones
	sharedPerBlock, sharedPerBlockOptin, sharedPerSM int // bytes of shared memory; without opting in, and at most
	l2Bytes                                          int
	clockKHz, memoryClockKHz, memoryBusBits          int
	copyEngines                                      int
}

// H100 is an NVIDIA H100 with 80 GB.
func H100() DeviceConfig {
	return DeviceConfig{
		Name: "NVIDIA H100 80GB HBM3", Major: 9, Minor: 0, SMs: 132, Memory: 80 << 30,
		ECC: true,
		model: model{
			threadsPerSM: 2048, blocksPerSM: 32,
			sharedPerBlock: 48 << 10, sharedPerBlockOptin: 227 << 10, sharedPerSM: 228 << 10,
			l2Bytes: 50 << 20, clockKHz: 1_980_000, memoryClockKHz: 2_619_000, memoryBusBits: 5120, copyEngines: 3,
		},
	}
}

// A100 is an NVIDIA A100 with 40 GB.
func A100() DeviceConfig {
	c := H100()
	c.Name, c.Major, c.Minor, c.SMs, c.Memory = "NVIDIA A100-SXM4-40GB", 8, 0, 108, 40<<30
	c.model.sharedPerBlockOptin, c.model.sharedPerSM, c.model.l2Bytes = 163<<10, 164<<10, 40<<20
	c.model.clockKHz, c.model.memoryClockKHz = 1_410_000, 1_215_000
	return c
}

// T4 is an NVIDIA T4, the oldest architecture that purecuda's kernels are built
// for.
func T4() DeviceConfig {
	c := H100()
	c.Name, c.Major, c.Minor, c.SMs, c.Memory = "Tesla T4", 7, 5, 40, 16<<30
	c.model.threadsPerSM, c.model.blocksPerSM = 1024, 16
	c.model.sharedPerBlockOptin, c.model.sharedPerSM, c.model.l2Bytes = 64<<10, 64<<10, 4<<20
	c.model.clockKHz, c.model.memoryClockKHz, c.model.memoryBusBits = 1_590_000, 5_001_000, 256
	return c
}

// Devices returns n copies of a device. New gives each its own identity.
func Devices(n int, c DeviceConfig) []DeviceConfig {
	all := make([]DeviceConfig, max(n, 0))
	for i := range all {
		all[i] = c
	}
	return all
}

// complete fills in what the caller left out.
func (c Config) complete() Config {
	if len(c.Devices) == 0 {
		c.Devices = []DeviceConfig{H100()}
	}
	devices := make([]DeviceConfig, len(c.Devices))
	for i, device := range c.Devices {
		devices[i] = device.complete(i)
	}
	c.Devices = devices
	if c.Version == 0 {
		c.Version = 13000
	}
	if c.MaxSteps == 0 {
		c.MaxSteps = maxSteps
	}
	if c.HostMemory == 0 {
		c.HostMemory = 4 << 30
	}
	c.Kernels = maps.Clone(c.Kernels)
	c.Chaos = c.Chaos.complete()
	return c
}

func (c DeviceConfig) complete(ordinal int) DeviceConfig {
	base := H100()
	orString(&c.Name, base.Name)
	if c.Major == 0 && c.Minor == 0 {
		c.Major, c.Minor = base.Major, base.Minor
	}
	if c.Memory == 0 {
		c.Memory = base.Memory
	}
	if c.UUID == (driver.UUID{}) {
		copy(c.UUID[:], "purecuda-simul")
		c.UUID[14], c.UUID[15] = byte(ordinal>>8), byte(ordinal)
	}
	orString(&c.PCIBusID, fmt.Sprintf("0000:%02x:00.0", ordinal+1))
	if c.SMs == 0 {
		c.SMs = base.SMs
	}
	if c.model == (model{}) {
		c.model = base.model
	}
	c.Attributes = maps.Clone(c.Attributes)
	return c
}

func orString(s *string, value string) {
	if *s == "" {
		*s = value
	}
}
