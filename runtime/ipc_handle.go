package runtime

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/purecuda/purecuda/driver"
)

// IPCHandle names memory of a device to other processes of the machine: plain bytes that any
// connection carries. [ExportIPC] makes it, and [OpenIPC] takes it.
type IPCHandle [ipcHandleBytes]byte

// ipcParts is what an IPCHandle holds, in this order and little-endian. A checksum follows.
type ipcParts struct {
	Magic          [4]byte
	Version        uint32
	Element, Count uint64 // bytes of an element, and how many there are
	Offset         uint64 // bytes from the beginning of Memory
	Device         driver.UUID
	Memory         driver.IpcMemHandle
}

const (
	ipcPartsBytes  = 4 + 4 + 3*8 + 16 + 64
	ipcHandleBytes = ipcPartsBytes + crc32.Size
	ipcVersion     = 1
)

var ipcMagic = [4]byte{'P', 'C', 'M', 'H'}

func (h *IPCHandle) set(p ipcParts) {
	p.Magic, p.Version = ipcMagic, ipcVersion
	n, _ := binary.Encode(h[:], binary.LittleEndian, &p) // all of it has a fixed size, for which there is room
	binary.LittleEndian.PutUint32(h[n:], crc32.ChecksumIEEE(h[:n]))
}

// parse takes the handle apart for who has elements of a size on a device.
func (h *IPCHandle) parse(element uint64, device driver.UUID) (p ipcParts, err error) {
	n, _ := binary.Decode(h[:], binary.LittleEndian, &p)
	refused := func(format string, args ...any) (ipcParts, error) {
		return p, driver.Errorf(driver.ErrInvalidArgument, "open IPC memory: "+format, args...)
	}
	switch sum := binary.LittleEndian.Uint32(h[n:]); {
	case p.Magic != ipcMagic:
		return refused("the handle begins with %q, want %q: ExportIPC has not made it", p.Magic[:], ipcMagic[:])
	case p.Version != ipcVersion:
		return refused("the handle has version %d, want %d: the other process has another version of purecuda", p.Version, ipcVersion)
	case sum != crc32.ChecksumIEEE(h[:n]):
		return refused("the handle was damaged on its way: its checksum is %#x, want %#x", crc32.ChecksumIEEE(h[:n]), sum)
	case p.Element != element:
		return refused("the handle is of elements of %d bytes, want %d", p.Element, element)
	case p.Device != device:
		return refused("the handle is of device GPU-%v, and the stream of GPU-%v", p.Device, device)
	case p.Count > math.MaxInt:
		return refused("the handle is of %d elements, which cannot be", p.Count)
	}
	return p, nil
}
