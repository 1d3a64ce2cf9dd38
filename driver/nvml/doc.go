// Package nvml reads the health of NVIDIA's devices: memory, utilization, clocks and why they are low,
// temperature, power, ECC errors, processes and links. It hears of the events that say that a device
// fails. It loads NVIDIA's management library (NVML), which comes with the driver, while the program
// runs. It opens no context on a device.
//
//	lib, err := nvml.Open()
//	if errors.Is(err, driver.ErrLibraryUnavailable) {
//		return nil // no NVML here; the error names every place
//	}
//	if err != nil {
//		return err
//	}
//	defer lib.Close()
//	device, err := lib.Find(uuid.String()) // of runtime.Device
//	if err != nil {
//		return err
//	}
//	status := lib.Read(device)
//	if status.Memory != nil {
//		fmt.Println(status.Memory.Free)
//	}
//
// # Absence is normal
//
// NVML is not in every container, and there is none for macOS. Devices and drivers lack many figures:
// a consumer card counts no ECC errors, a MIG instance has no utilization. [Library.Read] leaves out what is
// not there, and [Status.Unknown] says why.
//
// # Which device
//
// NVML numbers devices by the PCI bus and does not know CUDA_VISIBLE_DEVICES. So its numbers are
// not CUDA's. [Library.Find] takes the UUID, also of a MIG instance.
//
// # Errors
//
// Errors are [*driver.Error] values. Their kinds are driver.ErrLibraryUnavailable for no NVML or no
// driver, driver.ErrDriverLibraryLoadFailed, driver.ErrSymbolMissing for an NVML that is too old,
// driver.ErrUnsupported for what the device does not have, and driver.ErrDriverCallFailed.
// Behind one that NVML itself returned is its [Result].
//
// Everything is safe for concurrent use. A call takes from a microsecond to some milliseconds, and may
// block while the driver is busy.
package nvml

//go:generate go run -C ../.. ./driver/internal/gen driver/nvml
