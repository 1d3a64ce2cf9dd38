//go:build !linux || !(amd64 || arm64)

package drivertest

import "github.com/purecuda/purecuda/driver"

// canShare tells that memory can be shared with other processes.
const canShare = 0

// sharedMemory is memory that other processes can open. There is none here.
type sharedMemory struct{ data []byte }

func (d *simulated) share(int, uint64) (*sharedMemory, driver.Result) {
	return nil, driver.ResultNotSupported
}

func (d *simulated) importShared(uintptr) (*sharedMemory, int, driver.Result) {
	return nil, 0, driver.ResultNotSupported
}

func (s *sharedMemory) export() (h driver.ShareableHandle, r driver.Result) {
	return h, driver.ResultNotSupported
}

func (d *simulated) importIPC(driver.IpcMemHandle) (*sharedMemory, int, driver.Result) {
	return nil, 0, driver.ResultNotSupported
}

func (s *sharedMemory) ipcHandle() (h driver.IpcMemHandle, r driver.Result) {
	return h, driver.ResultNotSupported
}

func (s *sharedMemory) withdraw() {}

func (s *sharedMemory) close() {}
