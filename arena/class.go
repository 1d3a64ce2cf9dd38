package arena

import (
	"math/bits"

	"github.com/purecuda/purecuda/driver"
)

// The size classes of device memory: 512 and 1024 bytes, and from there eight steps to
// every power of two. Above 1 KiB a block is therefore less than an eighth larger than
// what was asked for. From 16 MiB on all classes are multiples of 2 MiB, the page that
// drivers map memory in, so that nothing is lost to rounding there either.
const (
	smallest     = 512
	steps        = 8  // to a power of two; also the classes of a group
	firstDoubled = 10 // 1<<firstDoubled bytes is where the steps begin
	maxBytes     = 1 << 47
	classes      = 2 + steps*(47-firstDoubled)
	groups       = (classes + steps - 1) / steps
)

// classOf is the smallest class that holds bytes, which must be in [1, maxBytes].
func classOf(bytes uint64) int {
	if bytes <= 2*smallest {
		return int((bytes - 1) / smallest)
	}
	last := bytes - 1
	doubled := bits.Len64(last) - 1 // last is in [1<<doubled, 2<<doubled)
	step := int(last>>(doubled-3)) & (steps - 1)
	return 2 + steps*(doubled-firstDoubled) + step
}

// classBytes is the size of the blocks of a class.
func classBytes(class int) uint64 {
	if class < 2 {
		return smallest * uint64(class+1)
	}
	doubled := firstDoubled + (class-2)/steps
	return (steps + uint64((class-2)%steps) + 1) << (doubled - 3)
}

// checkBytes refuses sizes that no device can have.
func (d *Device) checkBytes(bytes uint64) error {
	switch {
	case bytes == 0:
		return d.errorf(driver.ErrInvalidArgument, "allocate 0 bytes: want at least 1")
	case bytes > maxBytes:
		return d.errorf(driver.ErrInvalidArgument, "allocate %d bytes: a device addresses %d at most", bytes, uint64(maxBytes))
	}
	return nil
}
