package arena

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/flight"
	"github.com/purecuda/purecuda/internal/locks"
)

// Peers knows which devices reach each other's memory directly, over NVLink or PCIe: see
// [Device.Reach] and [Device.CopyFrom]. A process has one for all its devices. The zero value is ready, and
// safe for concurrent use.
type Peers struct {
	asks  flight.Group[peerPair, bool]
	mu    locks.Mutex[locks.Runtime]
	known atomic.Pointer[map[peerPair]bool] // what the driver has said; replaced under mu
}

// peerPair is a device that reaches, and what: the memory of a context, or with an arena
// also of its pool.
type peerPair struct {
	at, to driver.Context
	memory *Device
}

// enable lets the device of at use the memory of the device of to, if the machine can do that,
// and reports whether it can. It asks the driver once per pair; later calls neither block nor
// allocate. Memory from a pool of the driver (cuMemAllocAsync) has access rights of its own:
// see [Device.Reach].
//
// It returns no error for devices that cannot reach each other: copies between these work
// as well, through the host.
func (p *Peers) enable(at, to *driver.Binding) (direct bool, err error) {
	if err := p.check(at, to); err != nil {
		return false, err
	}
	if at.Context == to.Context {
		return true, nil
	}
	pair := peerPair{at: at.Context, to: to.Context}
	if direct, known := p.knows(pair); known {
		return direct, nil
	}
	return p.ask(pair, func() (bool, error) { return enablePeer(at, to) })
}

// check refuses nil Peers, and bindings without a driver.
func (p *Peers) check(bindings ...*driver.Binding) error {
	if p == nil || slices.ContainsFunc(bindings, noDriver) {
		return driver.Errorf(driver.ErrInvalidArgument, "peers need Peers, and two bindings with a driver")
	}
	return nil
}

// knows is what was found out about a pair.
func (p *Peers) knows(pair peerPair) (direct, known bool) {
	if all := p.known.Load(); all != nil {
		direct, known = (*all)[pair]
	}
	return direct, known
}

// ask asks about a pair, one caller at a time, and remembers the answer. After an error the next call
// asks again.
func (p *Peers) ask(pair peerPair, ask func() (direct bool, err error)) (bool, error) {
	direct, _, err := p.asks.Do(context.Background(), pair, func(context.Context) (bool, error) {
		if direct, known := p.knows(pair); known {
			return direct, nil
		}
		direct, err := ask()
		if err != nil {
			return false, err
		}
		p.change(func(all map[peerPair]bool) { all[pair] = direct })
		return direct, nil
	})
	return direct && err == nil, err
}

// change replaces what is known.
func (p *Peers) change(f func(all map[peerPair]bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := map[peerPair]bool{}
	if all := p.known.Load(); all != nil {
		maps.Copy(next, *all)
	}
	f(next)
	p.known.Store(&next)
}

func enablePeer(at, to *driver.Binding) (direct bool, err error) {
	var own, other driver.Device
	for _, end := range []struct {
		binding *driver.Binding
		device  *driver.Device
	}{{at, &own}, {to, &other}} {
		err := end.binding.Do(func() (err error) {
			var r driver.Result
			*end.device, r = end.binding.API.CtxGetDevice()
			return end.binding.Failed("cuCtxGetDevice", r)
		})
		if err != nil {
			return false, err
		}
	}
	can, r := at.API.DeviceCanAccessPeer(own, other)
	if r != driver.Success {
		return false, at.Fault("cuDeviceCanAccessPeer", r)
	}
	if can == 0 {
		return false, nil
	}
	err = outsideCaptures(at, func() error {
		switch r := at.API.CtxEnablePeerAccess(to.Context, 0); r {
		case driver.Success, driver.ResultPeerAccessAlreadyEnabled:
			direct = true
			return nil
		case driver.ResultPeerAccessUnsupported, driver.ResultTooManyPeers:
			return nil
		default:
			return at.Fault("cuCtxEnablePeerAccess", r)
		}
	})
	return direct && err == nil, err
}

// Drop drops what is known about a context that is about to end: its handle may come back as
// that of another one.
func (p *Peers) Drop(b *driver.Binding) {
	if p == nil || b == nil {
		return
	}
	p.change(func(all map[peerPair]bool) {
		maps.DeleteFunc(all, func(pair peerPair, _ bool) bool { return pair.at == b.Context || pair.to == b.Context })
	})
}

// unlinked is what becomes of errors of enabling a link: without one a copy is slower and
// not wrong, so that only an error that ends everything ends the copy.
func unlinked(b *driver.Binding, errs ...error) error {
	for _, err := range errs {
		if errors.Is(err, driver.ErrDeviceLost) {
			return err
		}
		b.Cleanup(err)
	}
	return nil
}

// copyPeer is the copy itself. Where there is a link it is one of the unified address space, and
// may be captured: cuMemcpyPeerAsync may not (driver 580).
func copyPeer(s driver.Stream, to *driver.Binding, dst driver.DevicePtr, from *driver.Binding, src driver.DevicePtr, bytes uint64, direct bool) error {
	if err := to.Push(); err != nil {
		return err
	}
	defer to.Pop()
	switch {
	case to.Context == from.Context:
		return to.Failed("cuMemcpyDtoDAsync", to.MemcpyDtoDAsync(dst, src, bytes, s))
	case direct:
		return to.Failed("cuMemcpyAsync", to.MemcpyAsync(dst, src, bytes, s))
	}
	return to.Failed("cuMemcpyPeerAsync", to.MemcpyPeerAsync(dst, to.Context, src, from.Context, bytes, s))
}
