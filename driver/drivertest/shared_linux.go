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

// sharedName begins the name of the memory, which the number of its device follows, and memoryLink that
// of its file in /proc.
const (
	sharedName = "purecuda-device-"
	memoryLink = "/memfd:" + sharedName
)

// share makes memory with a file descriptor.
func (d *simulated) share(ordinal int, bytes uint64) (*sharedMemory, driver.Result) {
	name, err := syscall.BytePtrFromString(fmt.Sprint(sharedName, ordinal))
	if err != nil {
		return nil, driver.ResultOperatingSystem
	}
	const closeOnExec = 1
	fd, _, errno := syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(name)), closeOnExec, 0)
	if errno != 0 {
		return nil, driver.ResultOperatingSystem
	}
	file := os.NewFile(fd, sharedName)
	if err := file.Truncate(int64(bytes)); err != nil {
		_ = file.Close()
		return nil, driver.ResultOutOfMemory
	}
	return d.mapShared(file, bytes)
}

func (d *simulated) mapShared(file *os.File, bytes uint64) (*sharedMemory, driver.Result) {
	data, err := syscall.Mmap(int(file.Fd()), 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		_ = file.Close()
		return nil, driver.ResultOutOfMemory
	}
	s := &sharedMemory{file, data}
	d.shared = append(d.shared, s)
	return s, driver.Success
}

// close is called when the driver is closed and nothing runs.
func (s *sharedMemory) close() {
	_ = syscall.Munmap(s.data)
	s.withdraw()
}

// withdraw keeps other processes from opening the memory. Those that have it keep it.
func (s *sharedMemory) withdraw() { _ = s.file.Close() }

// ipcName is what an IpcMemHandle holds: a file that a process has open. Inode is the file's, since
// another one may have got its number.
type ipcName struct{ Magic, Process, File, Inode uint64 }

const ipcMagic = 0x6370695f61647563

// ipcHandle names the memory to other processes of the same user.
func (s *sharedMemory) ipcHandle() (h driver.IpcMemHandle, r driver.Result) {
	inode, err := inodeOf(s.file)
	if err != nil {
		return h, driver.ResultOperatingSystem
	}
	name := ipcName{ipcMagic, uint64(os.Getpid()), uint64(s.file.Fd()), inode}
	if _, err := binary.Encode(h[:], binary.LittleEndian, name); err != nil {
		return h, driver.ResultOperatingSystem
	}
	return h, driver.Success
}

// importIPC opens the memory of another process, and tells the number of its device.
func (d *simulated) importIPC(h driver.IpcMemHandle) (s *sharedMemory, ordinal int, r driver.Result) {
	var name ipcName
	switch _, err := binary.Decode(h[:], binary.LittleEndian, &name); {
	case err != nil || name.Magic != ipcMagic:
		return nil, 0, driver.ResultInvalidValue
	case name.Process == uint64(os.Getpid()):
		return nil, 0, driver.ResultInvalidContext
	}
	path := fmt.Sprintf("/proc/%d/fd/%d", name.Process, name.File)
	if link, err := os.Readlink(path); err != nil || !strings.HasPrefix(link, memoryLink) {
		return nil, 0, driver.ResultInvalidHandle // the process is gone, or has freed the memory
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, driver.ResultMapFailed
	}
	defer file.Close()
	if inode, err := inodeOf(file); err != nil || inode != name.Inode {
		return nil, 0, driver.ResultInvalidHandle
	}
	return d.importShared(file.Fd())
}

func inodeOf(file *os.File) (uint64, error) {
	var stat syscall.Stat_t
	err := syscall.Fstat(int(file.Fd()), &stat)
	return stat.Ino, err
}

// export returns a file descriptor that the caller owns.
func (s *sharedMemory) export() (h driver.ShareableHandle, r driver.Result) {
	fd, err := duplicate(int(s.file.Fd()))
	if err != nil {
		return h, driver.ResultOperatingSystem
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
func (d *simulated) importShared(fd uintptr) (s *sharedMemory, ordinal int, r driver.Result) {
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, 0, driver.ResultInvalidValue
	}
	name, ours := strings.CutPrefix(link, memoryLink)
	if _, err := fmt.Sscanf(name, "%d", &ordinal); err != nil || !ours {
		return nil, 0, driver.ResultInvalidValue
	}
	own, err := duplicate(int(fd))
	if err != nil {
		return nil, 0, driver.ResultOperatingSystem
	}
	file := os.NewFile(uintptr(own), sharedName)
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, 0, driver.ResultOperatingSystem
	}
	s, r = d.mapShared(file, uint64(info.Size()))
	return s, ordinal, r
}
