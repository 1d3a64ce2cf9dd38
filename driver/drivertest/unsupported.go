package drivertest

import "github.com/purecuda/purecuda/driver"

// What this driver does not simulate answers like a device that cannot do it.

func (d *Driver) unsupported(op string) driver.Result {
	if _, r := d.enter(op); r != driver.Success {
		return r
	}
	d.mu.Unlock()
	return driver.ErrorNotSupported
}

// IpcGetMemHandle implements [driver.API]. It is not supported: there are no other
// processes.
func (d *Driver) IpcGetMemHandle(driver.DevicePtr) (handle driver.IpcMemHandle, r driver.Result) {
	return handle, d.unsupported("cuIpcGetMemHandle")
}

// IpcOpenMemHandle implements [driver.API]. It is not supported.
func (d *Driver) IpcOpenMemHandle(driver.IpcMemHandle, uint32) (driver.DevicePtr, driver.Result) {
	return 0, d.unsupported("cuIpcOpenMemHandle")
}

// IpcCloseMemHandle implements [driver.API]. It is not supported.
func (d *Driver) IpcCloseMemHandle(driver.DevicePtr) driver.Result {
	return d.unsupported("cuIpcCloseMemHandle")
}

// IpcGetEventHandle implements [driver.API]. It is not supported.
func (d *Driver) IpcGetEventHandle(driver.Event) (handle driver.IpcEventHandle, r driver.Result) {
	return handle, d.unsupported("cuIpcGetEventHandle")
}

// IpcOpenEventHandle implements [driver.API]. It is not supported.
func (d *Driver) IpcOpenEventHandle(driver.IpcEventHandle) (driver.Event, driver.Result) {
	return 0, d.unsupported("cuIpcOpenEventHandle")
}

// GraphDebugDotPrint implements [driver.API]. It is not supported.
func (d *Driver) GraphDebugDotPrint(driver.Graph, string, uint32) driver.Result {
	return d.unsupported("cuGraphDebugDotPrint")
}

// OccupancyMaxActiveClusters implements [driver.API]. It is not supported: the
// simulated devices have no clusters.
func (d *Driver) OccupancyMaxActiveClusters(driver.Function, driver.Dim3, driver.Dim3, uint32, []driver.LaunchAttribute) (int32, driver.Result) {
	return 0, d.unsupported("cuOccupancyMaxActiveClusters")
}

// OccupancyMaxPotentialClusterSize implements [driver.API]. It is not supported.
func (d *Driver) OccupancyMaxPotentialClusterSize(driver.Function, driver.Dim3, driver.Dim3, uint32, []driver.LaunchAttribute) (int32, driver.Result) {
	return 0, d.unsupported("cuOccupancyMaxPotentialClusterSize")
}
