package wait

import (
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

const (
	pageBytes = 4 << 10
	cellWords = 8 // one cache line
	cellBytes = 8 * cellWords
	pageCells = pageBytes / cellBytes
)

// cell is the cache line that the device writes the tickets of a stream to: number n into word n%8.
// So up to eight writes that were put on the stream at the same time do not overwrite a larger
// number by a smaller one.
type cell struct {
	words *[cellWords]uint64
	at    driver.DevicePtr
	// last is the largest number that streams before the present one had.
	last uint64
	// written is the largest number that was put on a stream.
	written atomic.Uint64
}

// top is the largest number that the device has written.
func (c *cell) top() (n uint64) {
	for i := range c.words {
		n = max(n, atomic.LoadUint64(&c.words[i]))
	}
	return n
}

// wrote notes that n was put on a stream.
func (c *cell) wrote(n uint64) {
	for old := c.written.Load(); n > old && !c.written.CompareAndSwap(old, n); old = c.written.Load() {
	}
}

// page is page-locked memory for cells.
type page struct{ ptr unsafe.Pointer }

// takeCell returns a cell that the caller has alone, or nil if there can be no more.
func (d *Device) takeCell() *cell {
	for d.writes.Load() {
		d.mu.Lock()
		c, growing := d.freeCell(), d.growing
		full := uint64(len(d.pages)+1)*pageBytes > d.config.MaxBytes
		if c == nil && !full && growing == nil {
			d.growing = make(chan struct{})
		}
		d.mu.Unlock()
		switch {
		case c != nil || full:
			return c
		case growing != nil:
			<-growing
		default:
			return d.grow()
		}
	}
	return nil
}

// grow allocates a page, while others who need a cell wait, and returns one of its cells.
func (d *Device) grow() (c *cell) {
	cells, err := d.newPage()
	d.binding.Cleanup(err)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = append(d.free, cells...)
	close(d.growing)
	d.growing = nil
	return d.freeCell()
}

// freeCell takes a free cell off the list, or a retired one whose writes have all come. d.mu is
// held.
func (d *Device) freeCell() *cell {
	if d.ended.Load() != nil { // the memory may be gone
		return nil
	}
	for i, c := range d.retired {
		if c.top() >= c.written.Load() {
			d.free = append(d.free, c)
			d.retired[i] = d.retired[len(d.retired)-1]
			d.retired = d.retired[:len(d.retired)-1]
			break
		}
	}
	n := len(d.free)
	if n == 0 {
		return nil
	}
	c := d.free[n-1]
	d.free = d.free[:n-1]
	return c
}

// returnCell ends the use of a cell, if there is one. The device may still write to it.
func (d *Device) returnCell(c *cell) {
	if c == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retired = append(d.retired, c)
}

// newPage allocates page-locked memory and cuts it into cells.
func (d *Device) newPage() (cells []*cell, err error) {
	ptr, at, err := d.allocPage()
	if err != nil {
		return nil, err
	}
	for i := range pageCells {
		cells = append(cells, &cell{words: (*[cellWords]uint64)(unsafe.Add(ptr, i*cellBytes)),
			at: at + driver.DevicePtr(i*cellBytes)})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages = append(d.pages, page{ptr})
	return cells, nil
}

// allocPage allocates page-locked memory that the device reaches, and fills it with zeros.
func (d *Device) allocPage() (ptr unsafe.Pointer, at driver.DevicePtr, err error) {
	b := d.binding
	err = b.DoRelaxed(func() error {
		var r driver.Result
		ptr, r = b.API.MemHostAlloc(pageBytes, driver.HostAllocPortable|driver.HostAllocDeviceMap)
		if r != driver.Success {
			return d.failed("cuMemHostAlloc", r)
		}
		if at, r = b.API.MemHostGetDevicePointer(ptr, 0); r != driver.Success {
			err := d.failed("cuMemHostGetDevicePointer", r)
			b.Cleanup(b.Failed("cuMemFreeHost", b.API.MemFreeHost(ptr)))
			return err
		}
		clear(unsafe.Slice((*byte)(ptr), pageBytes))
		return nil
	})
	return ptr, at, err
}
