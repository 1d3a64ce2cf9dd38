package runtime

import (
	"time"

	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/internal/contain"
)

// freeWait is how long NVML may take to tell the free memory. It takes milliseconds where the driver works.
const freeWait = time.Second

// openNVML opens the NVML of the machine, for one question.
func openNVML() (nvml.API, func() error, error) {
	lib, err := nvml.Open()
	if err != nil {
		return nil, nil, err
	}
	return lib, lib.Close, nil
}

// forScore are the devices with the memory that is free now, which the driver tells only where a context is open. Where NVML
// is not there, does not tell it of all devices, or takes too long, they are as they were: then all memory counts. An NVML that
// never answers keeps its goroutine.
func forScore(open func() (nvml.API, func() error, error), devices []Device) []Device {
	if open == nil || len(devices) < 2 { // there is nothing to choose
		return devices
	}
	ids := make([]string, len(devices))
	for i, d := range devices {
		ids[i] = d.UUID.String()
	}
	answer := make(chan []uint64, 1)
	go func() {
		var free []uint64
		_ = contain.Do(func() error {
			lib, end, err := open()
			if err == nil {
				free = freeOf(lib, ids)
				err = end()
			}
			return err
		})
		answer <- free
	}()
	late := time.NewTimer(freeWait)
	defer late.Stop()
	select {
	case free := <-answer:
		return withFree(devices, free)
	case <-late.C:
		return devices
	}
}

// freeOf asks for the free memory of the devices with UUIDs. A device that NVML does not know has 0.
func freeOf(lib nvml.API, ids []string) []uint64 {
	free := make([]uint64, len(ids))
	for i, id := range ids {
		if d, err := lib.Find(id); err == nil {
			if m, err := lib.Memory(d); err == nil {
				free[i] = max(m.Free, 1) // 0 would say that it is unknown
			}
		}
	}
	return free
}

// withFree are copies of the devices with their free memory, if it is known of all that work, and can be true.
func withFree(devices []Device, free []uint64) []Device {
	if len(free) != len(devices) {
		return devices
	}
	known := make([]Device, len(devices))
	for i, d := range devices {
		if d.Err == nil && (free[i] == 0 || free[i] > d.TotalBytes+d.TotalBytes/8) { // NVML counts what the driver keeps as well
			return devices
		}
		d.FreeBytes = min(free[i], d.TotalBytes)
		known[i] = d
	}
	return known
}
