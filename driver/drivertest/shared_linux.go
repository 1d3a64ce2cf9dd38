//go:build linux && (amd64 || arm64)

package drivertest

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// canShare tells that memory can be shared with other processes.
const canShare = 1

// sharedMemory is memory with a file descriptor. It stays mapped until the driver is closed: kernels
// may use it after the program has freed it.
type sharedMemory struct {
	file *os.File
	data []byte
}

// sharedName begins the name of the memory, which the number of its device follows.
const sharedName = "purecuda-device-"

// share makes memory with a file descriptor.
func (d *Driver) share(ordinal int, bytes uint64) (*sharedMemory, driver.Result) {
	name, err := syscall.BytePtrFromString(fmt.Sprint(sharedName, ordinal))
	if err != nil {
		return nil, driver.ErrorOperatingSystem
	}
	const closeOnExec = 1
	fd, _, errno := syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(name)), closeOnExec, 0)
	if errno != 0 {
		return nil, driver.ErrorOperatingSystem
	}
	file := os.NewFile(fd, sharedName)
	if err := file.Truncate(int64(bytes)); err != nil {
		_ = file.Close()
		return nil, driver.ErrorOutOfMemory
	}
	return d.mapShared(file, bytes)
}

func (d *Driver) mapShared(file *os.File, bytes uint64) (*sharedMemory, driver.Result) {
	data, err := syscall.Mmap(int(file.Fd()), 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		_ = file.Close()
		return nil, driver.ErrorOutOfMemory
	}
	s := &sharedMemory{file, data}
	d.shared = append(d.shared, s)
	return s, driver.Success
}

// close is called when the driver is closed and nothing runs.
func (s *sharedMemory) close() {
	_ = syscall.Munmap(s.data)
	_ = s.file.Close()
}

// export returns a file descriptor that the caller owns.
func (s *sharedMemory) export() (h driver.ShareableHandle, r driver.Result) {
	fd, err := duplicate(int(s.file.Fd()))
	if err != nil {
		return h, driver.ErrorOperatingSystem
	}
	binary.NativeEndian.PutUint32(h[:], uint32(fd))
	return h, driver.Success
}

func duplicate(fd int) (int, error) {
	copied, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(copied), nil
}

// importShared opens the memory of a file descriptor, and tells the number of its device.
func (d *Driver) importShared(fd uintptr) (s *sharedMemory, ordinal int, r driver.Result) {
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, 0, driver.ErrorInvalidValue
	}
	name, ours := strings.CutPrefix(link, "/memfd:"+sharedName)
	if _, err := fmt.Sscanf(name, "%d", &ordinal); err != nil || !ours {
		return nil, 0, driver.ErrorInvalidValue
	}
	own, err := duplicate(int(fd))
	if err != nil {
		return nil, 0, driver.ErrorOperatingSystem
	}
	file := os.NewFile(uintptr(own), sharedName)
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, 0, driver.ErrorOperatingSystem
	}
	s, r = d.mapShared(file, uint64(info.Size()))
	return s, ordinal, r
}
