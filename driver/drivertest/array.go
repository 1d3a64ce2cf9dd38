package drivertest

import (
	"fmt"

	"github.com/purecuda/purecuda/driver"
)

// array is device memory without an address.
type array struct {
	allocation // whose base is 0
	desc       driver.Array3DDescriptor
	row        uint64 // bytes
}

func (a *array) String() string {
	return fmt.Sprintf("%dx%dx%d array from %v", a.desc.Width, a.desc.Height, a.desc.Depth, a.made)
}

// channelBytes is the size of a channel of an array.
var channelBytes = map[driver.ArrayFormat]uint64{driver.ArrayUint8: 1, driver.ArrayInt8: 1, driver.ArrayUint16: 2, driver.ArrayInt16: 2,
	driver.ArrayHalf: 2, driver.ArrayUint32: 4, driver.ArrayInt32: 4, driver.ArrayFloat: 4}

// maxArray is the longest edge of an array.
const maxArray = 1 << 17

func (d *simulated) ArrayCreate(desc driver.ArrayDescriptor) (driver.Array, driver.Result) {
	return d.newArray("cuArrayCreate", driver.Array3DDescriptor{Width: desc.Width, Height: desc.Height,
		Format: desc.Format, Channels: desc.Channels})
}

// Array3DCreate implements [driver.API]. Cube maps and arrays that are sparse, mapped later or for
// pictures are not supported.
func (d *simulated) Array3DCreate(desc driver.Array3DDescriptor) (driver.Array, driver.Result) {
	return d.newArray("cuArray3DCreate", desc)
}

func (d *simulated) newArray(op string, desc driver.Array3DDescriptor) (driver.Array, driver.Result) {
	return get(d, op, func(c call) (driver.Array, driver.Result) {
		element := channelBytes[desc.Format] * uint64(desc.Channels)
		layered := desc.Flags&driver.ArrayLayered != 0
		switch {
		case desc.Flags&^(driver.ArrayLayered|driver.ArraySurface) != 0:
			return 0, driver.ResultNotSupported
		case element == 0, desc.Channels != 1 && desc.Channels != 2 && desc.Channels != 4:
			return 0, driver.ResultInvalidValue
		case desc.Width == 0, max(desc.Width, desc.Height, desc.Depth) > maxArray:
			return 0, driver.ResultInvalidValue
		case layered && desc.Depth == 0, !layered && desc.Depth > 0 && desc.Height == 0:
			return 0, driver.ResultInvalidValue
		}
		a := &array{desc: desc, row: desc.Width * element}
		a.bytes = a.row * max(desc.Height, 1) * max(desc.Depth, 1)
		a.dev, a.ctx, a.made = c.ctx.dev, c.ctx, c.made
		if r := a.dev.take(a.bytes); r != driver.Success {
			return 0, r
		}
		h := driver.Array(d.newHandle())
		d.arrays.live[h] = a
		return h, driver.Success
	})
}

func (c call) array(h driver.Array) (*array, driver.Result) { return find(c, &c.d.arrays, h) }

func (d *simulated) ArrayDestroy(h driver.Array) driver.Result {
	return on(d, call.array, "cuArrayDestroy", h, func(c call, a *array) driver.Result {
		a.dev.used -= a.bytes
		remove(c, &d.arrays, h)
		return driver.Success
	})
}

func (d *simulated) ArrayGetDescriptor(h driver.Array) (desc driver.ArrayDescriptor, r driver.Result) {
	return getOf(d, call.array, "cuArrayGetDescriptor", h, func(_ call, a *array) (desc driver.ArrayDescriptor, r driver.Result) {
		return driver.ArrayDescriptor{Width: a.desc.Width, Height: a.desc.Height, Format: a.desc.Format, Channels: a.desc.Channels}, driver.Success
	})
}

func (d *simulated) Array3DGetDescriptor(h driver.Array) (desc driver.Array3DDescriptor, r driver.Result) {
	return getOf(d, call.array, "cuArray3DGetDescriptor", h, func(_ call, a *array) (desc driver.Array3DDescriptor, r driver.Result) {
		return a.desc, driver.Success
	})
}
