package nvml

import "fmt"

// Xid is the number of an error that the driver has found on a device and written into the log of the
// kernel. https://docs.nvidia.com/deploy/xid-errors
type Xid uint64

// xids are those that a program should know, in our words. gone says that the device is not to be used
// before it was reset or repaired.
var xids = map[Xid]struct {
	text string
	gone bool
}{
	8:   {"a kernel took longer than the system allows", false},
	13:  {"a kernel failed: an access out of bounds, an illegal instruction or the like", false},
	31:  {"a kernel accessed an address that is not mapped", false},
	32:  {"invalid commands or data came over the bus", false},
	38:  {"an error within the firmware of the driver", false},
	43:  {"a program was stopped because its work failed", false},
	45:  {"work was removed because its program ended or failed before", false},
	48:  {"a memory error that ECC cannot correct", true},
	61:  {"an error of the internal controller", true},
	62:  {"the internal controller has stopped", true},
	63:  {"a bad row of memory is replaced at the next reset", false},
	64:  {"a bad row of memory could not be replaced", true},
	69:  {"a kernel failed in the graphics engine", false},
	74:  {"an error of NVLink", true},
	79:  {"the device has fallen off the bus", true},
	92:  {"many memory errors that ECC has corrected", false},
	94:  {"a memory error that ECC cannot correct, and that has ended one program only", false},
	95:  {"a memory error that ECC cannot correct, and that may have spoilt other programs", true},
	119: {"the processor of the device does not answer the driver", true},
	120: {"an error of the processor of the device", true},
	140: {"a memory error that ECC cannot correct, outside of the memory of programs", true},
}

// String has the number, and what it means.
func (x Xid) String() string {
	if known, ok := xids[x]; ok {
		return fmt.Sprintf("Xid %d: %s", uint64(x), known.text)
	}
	return fmt.Sprintf("Xid %d", uint64(x))
}

// NeedsReset tells whether the device is not to be used before it was reset or repaired. An unknown number is
// no reason for that.
func (x Xid) NeedsReset() bool { return xids[x].gone }
