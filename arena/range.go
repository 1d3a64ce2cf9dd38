package arena

import (
	"errors"
	"maps"
	"slices"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/locks"
)

// Range is a range of addresses of a device, of which the beginning has memory: as much as [Range.Grow] was asked for.
// Neither the address nor the memory moves when it grows, so that work on the device goes on meanwhile. It is safe for
// concurrent use. Make one with [Device.NewRange].
type Range struct {
	dev      *Device
	props    driver.MemAllocationProps
	page     uint64 // what sizes are multiples of
	ptr      driver.DevicePtr
	reserved uint64 // bytes of addresses
	site     callSite

	// growing is held by the one who asks the driver about the range. Those who wait for it wait for memory.
	growing locks.Mutex[locks.Range]
	freed   bool // growing guards it
	// These are written with growing and Device.mu held, and read under one of them.
	bytes  uint64 // that were asked for
	mapped uint64 // that have memory
	stuck  uint64 // behind them, that have memory which nobody can use: the driver did not take it back
	pieces uint64 // of memory
}

// parked is a range that was freed, and the work before that. Where unproven is set nobody knows when that is done.
type parked struct {
	r        *Range
	guards   []*guard
	unproven error
}

// NewRange reserves addresses for at most so many bytes, and no memory. The error is of kind driver.ErrUnsupported
// where the device has no virtual memory, and of kind driver.ErrSymbolMissing where the driver has none.
func (d *Device) NewRange(most uint64) (*Range, error) {
	if err := d.made(); err != nil {
		return nil, err
	}
	if err := d.checkBytes(most); err != nil {
		return nil, err
	}
	d.calls.EnterWaiting()
	defer d.calls.Leave()
	switch {
	case d.lost() != nil:
		return nil, d.lost()
	case d.isClosed():
		return nil, d.errorf(driver.ErrClosed, "reserve addresses of an arena that is closed")
	}
	d.pollClosed()
	r := &Range{dev: d, props: driver.MemAllocationProps{Type: driver.MemAllocationPinned, Location: d.location()}}
	if err := d.outside(func() error { return r.open(most) }); err != nil {
		return nil, err
	}
	if d.config.Sites {
		r.site.record()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ranges[r] = struct{}{}
	return r, nil
}

// open reserves the addresses.
func (r *Range) open(most uint64) error {
	d := r.dev
	device, result := d.binding.API.DeviceGet(int32(d.binding.Ordinal))
	if result != driver.Success {
		return d.failed("cuDeviceGet", result)
	}
	has, result := d.binding.API.DeviceGetAttribute(driver.DeviceAttributeVirtualAddressManagementSupported, device)
	switch {
	case result != driver.Success:
		return d.failed("cuDeviceGetAttribute", result)
	case has == 0:
		return d.errorf(driver.ErrUnsupported, "memory that grows needs virtual memory, which the device does not have")
	}
	if r.page, result = d.binding.API.MemGetAllocationGranularity(r.props, driver.MemGranularityMinimum); result != driver.Success {
		return d.failed("cuMemGetAllocationGranularity", result)
	}
	if r.page > maxBytes {
		return d.errorf(driver.ErrDriverCallFailed, "the driver maps memory in pages of %d bytes, which cannot be", r.page)
	}
	r.reserved = r.pages(most)
	if r.ptr, result = d.binding.API.MemAddressReserve(r.reserved, 0, 0, 0); result != driver.Success {
		err := d.failed("cuMemAddressReserve", result)
		var e *driver.Error
		if errors.As(err, &e) && e.Kind == driver.ErrOutOfMemory {
			e.Bytes, e.Detail = r.reserved, "there is no free range of so many addresses"
		}
		return err
	}
	return nil
}

// pages is a size, rounded up.
func (r *Range) pages(bytes uint64) uint64 { return (bytes + r.page - 1) / r.page * r.page }

// Ptr is the address.
func (r *Range) Ptr() driver.DevicePtr {
	if r == nil {
		return 0
	}
	return r.ptr
}

// Grow gives memory to the first bytes of the range, those that have none yet. What it holds is undefined, and work on
// any stream may use it at once. After an error everything is as before. Where memory is short it does what
// [Stream.Alloc] does, and it counts in the same limit. It calls the driver where a page of the device is begun, 2 MiB as
// a rule, and works while streams are captured.
func (r *Range) Grow(bytes uint64) error {
	if r == nil || r.dev == nil {
		return nothing("range of addresses")
	}
	d := r.dev
	d.calls.EnterWaiting()
	defer d.calls.Leave()
	r.growing.Lock()
	defer r.growing.Unlock()
	switch {
	case d.lost() != nil:
		return d.lost()
	case r.freed || d.isClosed():
		return d.errorf(driver.ErrClosed, "grow a range that was freed before")
	case bytes > r.reserved:
		return d.errorf(driver.ErrInvalidArgument, "grow a range to %d bytes, and it has addresses for %d", bytes, r.reserved)
	case bytes <= r.bytes:
		return nil
	}
	more := uint64(0)
	if bytes > r.mapped {
		more = r.pages(bytes) - r.mapped
	}
	err := r.add(more, bytes-r.bytes)
	if err != nil {
		d.mu.Lock()
		d.totals.failures++
		d.mu.Unlock()
	}
	return err
}

// add adds memory, of which so many bytes were asked for. growing is held.
func (r *Range) add(size, asked uint64) error {
	d := r.dev
	if size == 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.retired.requested += int64(asked)
		r.bytes += asked
		return nil
	}
	if r.stuck > 0 {
		return d.errorf(driver.ErrDriverCallFailed, "the range cannot grow any more: the driver did not take memory back that it could not make accessible")
	}
	var memory driver.MemHandle
	err := d.take(nil, size, asked, func() (op string, result driver.Result, err error) {
		err = d.outside(func() error {
			memory, result = d.binding.API.MemCreate(size, r.props, 0)
			return nil
		})
		return "cuMemCreate", result, err
	})
	if err != nil {
		return err
	}
	mapped, released, err := r.mapNext(memory, size)
	d.mu.Lock()
	defer d.mu.Unlock()
	if mapped {
		r.pieces++
	}
	switch {
	case err == nil:
		r.mapped += size
		r.bytes += asked
		return nil
	case mapped:
		r.stuck = size
	default:
		d.retired.inUse -= int64(size)
		d.endRange(size, 1, released)
	}
	d.retired.requested -= int64(asked)
	return err
}

// mapNext maps memory behind what is mapped, opens it to all devices that may use it, and ends the use of its handle. If
// one of that fails it undoes the rest, and reports how far that went.
func (r *Range) mapNext(memory driver.MemHandle, size uint64) (mapped, released bool, err error) {
	d := r.dev
	at := r.ptr + driver.DevicePtr(r.mapped)
	d.mu.Lock()
	access := d.access
	d.mu.Unlock()
	err = d.outside(func() error {
		err := d.failed("cuMemMap", d.binding.API.MemMap(at, size, 0, memory, 0))
		mapped = err == nil
		if mapped {
			err = d.failed("cuMemSetAccess", d.binding.API.MemSetAccess(at, size, access))
		}
		var undone error
		if d.lost() == nil { // the mapping keeps the memory
			undone = d.failed("cuMemRelease", d.binding.API.MemRelease(memory))
			released = undone == nil
		}
		if err == nil {
			err, undone = undone, nil
		}
		if err != nil && mapped && d.lost() == nil {
			unmap := d.failed("cuMemUnmap", d.binding.API.MemUnmap(at, size))
			mapped = unmap != nil
			undone = errors.Join(undone, unmap)
		}
		d.cleanup(undone) // the first error tells what matters
		return err
	})
	return mapped, released, err
}

// endRange takes memory of a range off the account, which was freed or is lost. d.mu is held.
func (d *Device) endRange(size, pieces uint64, freed bool) {
	d.totals.held -= size
	if freed {
		d.totals.frees += pieces
		return
	}
	d.totals.lost += size
	d.totals.lostBlocks += pieces
}

// FreeAfter frees memory and addresses after all work that is queued on the streams now, as [Device.FreeAfter] frees a
// block. The memory goes back to the driver: at once if the work is done, and otherwise when the arena finds that.
func (r *Range) FreeAfter(streams ...*Stream) error {
	if r == nil || r.dev == nil {
		return nothing("range of addresses")
	}
	for _, s := range streams {
		if err := s.made(); err != nil {
			return err
		}
	}
	d := r.dev
	defer lockCalls(d, streams)()
	r.growing.Lock()
	defer r.growing.Unlock()
	var guards []*guard
	switch {
	case r.freed:
		return d.errorf(driver.ErrInvalidArgument, "free a range at %#x that was freed before", uint64(r.ptr))
	case d.lost() != nil:
	case d.isClosed():
		return d.errorf(driver.ErrClosed, "free a range of an arena that is closed")
	default:
		var err error
		if guards, err = guardAll(streams); err != nil && d.lost() == nil {
			d.releaseShared(guards)
			return err
		}
	}
	r.freed = true
	d.mu.Lock()
	d.park(parked{r: r, guards: guards})
	d.mu.Unlock()
	d.cleanup(d.freeParked(false)) // not the error of whoever frees r
	return nil
}

// park counts a range as cached. d.mu is held.
func (d *Device) park(p parked) {
	size := int64(p.r.mapped + p.r.stuck)
	delete(d.ranges, p.r)
	d.parked = append(d.parked, p)
	d.retired.inUse -= size
	d.retired.requested -= int64(p.r.bytes)
	d.retired.cached += size
}

// freeParked frees the ranges whose work is done, or waits for it. Where nobody will ever know they are lost. Who does not
// wait leaves them to another goroutine that is at it.
func (d *Device) freeParked(wait bool) error {
	if wait {
		d.full.Lock()
	} else if !d.full.TryLock() {
		return nil
	}
	defer d.full.Unlock()
	return d.freeRangesParked(wait)
}

// freeRangesParked is freeParked with full held.
func (d *Device) freeRangesParked(wait bool) error {
	d.mu.Lock()
	all := d.parked
	d.parked = nil
	d.mu.Unlock()
	var later []parked
	var errs []error
	for _, p := range all {
		done, err := p.passed(wait)
		if !done && err == nil {
			later = append(later, p)
			continue
		}
		errs = append(errs, p.r.unmap(err))
		d.releaseShared(p.guards)
	}
	if later != nil {
		d.mu.Lock()
		d.parked = append(d.parked, later...)
		d.mu.Unlock()
	}
	return errors.Join(errs...)
}

// passed reports whether the work is done. An error is for good.
func (p *parked) passed(wait bool) (done bool, err error) {
	err = p.unproven
	for i := 0; i < len(p.guards) && err == nil; i++ {
		if wait {
			err = p.guards[i].await()
		} else if done, err = p.guards[i].passed(); !done && err == nil {
			return false, nil
		}
	}
	return err == nil, err
}

// unmap gives memory and addresses of a freed range back, unless there is a reason why work may use them. Then the
// memory is lost.
func (r *Range) unmap(unproven error) error {
	d := r.dev
	size := r.mapped + r.stuck
	unmapped := size == 0
	err := unproven
	if err == nil {
		err = d.outside(func() error {
			if !unmapped {
				if err := d.failed("cuMemUnmap", d.binding.API.MemUnmap(r.ptr, size)); err != nil {
					return err
				}
				unmapped = true
			}
			return d.failed("cuMemAddressFree", d.binding.API.MemAddressFree(r.ptr, r.reserved))
		})
	}
	d.mu.Lock()
	d.retired.cached -= int64(size)
	d.endRange(size, r.pieces, unmapped)
	d.mu.Unlock()
	switch {
	case d.lost() != nil:
		return nil
	case unproven != nil:
		err := d.errorf(driver.ErrDriverCallFailed, "a range is lost: that no work uses it cannot be proven: %w", unproven)
		err.Bytes = size
		return because(unproven, err)
	}
	return err
}

// freeRanges frees all ranges, if it is proven that no work uses them. All streams are closed.
func (d *Device) freeRanges() error {
	d.mu.Lock()
	for r := range d.ranges {
		d.park(parked{r: r, unproven: d.unproven})
	}
	d.mu.Unlock()
	return d.freeParked(true)
}

// openRangesFor gives another device access to the memory of all ranges, also to what they get later.
func (d *Device) openRangesFor(access driver.MemAccess) (direct bool, err error) {
	d.mu.Lock()
	if !slices.Contains(d.access, access) {
		d.access = append(slices.Clip(d.access), access) // before the ranges are looked at: one that grows sees it
	}
	ranges := slices.Collect(maps.Keys(d.ranges))
	d.mu.Unlock()
	direct = true
	for i := 0; i < len(ranges) && direct; i++ {
		direct, err = ranges[i].openFor(access)
	}
	if !direct {
		d.mu.Lock()
		d.access = slices.DeleteFunc(slices.Clone(d.access), func(a driver.MemAccess) bool { return a == access })
		d.mu.Unlock()
	}
	return direct, err
}

func (r *Range) openFor(access driver.MemAccess) (direct bool, err error) {
	r.growing.Lock()
	defer r.growing.Unlock()
	if r.freed || r.mapped == 0 {
		return true, nil
	}
	return r.dev.opens("cuMemSetAccess", func() driver.Result {
		return r.dev.binding.API.MemSetAccess(r.ptr, r.mapped, []driver.MemAccess{access})
	})
}
