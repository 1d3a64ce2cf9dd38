package drivertest

import (
	"fmt"
	"slices"
)

// Leaks lists what the program did not give back, each with the call that made it:
// memory, streams, events, modules, libraries, graphs, pools and retained contexts.
// It includes what was lost because the last user of its context released that.
func (of *Driver) Leaks() []string {
	d := of.simulated
	d.mu.Lock()
	defer d.mu.Unlock()
	leaks := slices.Clone(d.lost)
	from := func(dev *device, life int64, made origin, format string, args ...any) {
		if dev != nil && (dev.gone.Load() || dev.life.Load() != life) {
			return // it went with its device
		}
		leaks = append(leaks, fmt.Sprintf(format, args...)+" from "+made.text(d.config.Stacks))
	}
	for _, dev := range d.devices {
		if dev.retains > 0 && !dev.gone.Load() {
			text := fmt.Sprintf("primary context of device %d retained %d times", dev.ordinal, dev.retains)
			if dev.primary != nil {
				text += ", made by " + dev.primary.made.text(d.config.Stacks)
			}
			leaks = append(leaks, text)
		}
	}
	d.memory.mu.RLock()
	for _, a := range d.memory.live {
		switch {
		case a.block != nil:
			from(a.dev, a.block.life, a.made, "%d bytes of device memory mapped at %#x", a.bytes, uint64(a.base))
		case a.module == nil:
			from(a.dev, a.ctx.life, a.made, "%d bytes of device memory at %#x", a.bytes, uint64(a.base))
		}
	}
	for _, h := range d.memory.host {
		from(h.ctx.dev, h.ctx.life, h.made, "%d bytes of page-locked host memory at %#x", h.bytes, h.base)
	}
	for _, v := range d.memory.reserved {
		from(v.dev, v.life, v.made, "%d bytes reserved at %#x", v.bytes, uint64(v.base))
	}
	d.memory.mu.RUnlock()
	for h, b := range d.blocks.live {
		from(b.dev, b.life, b.made, "%d bytes of physical memory %#x", b.bytes, uint64(h))
	}
	for h, a := range d.arrays.live {
		from(a.dev, a.ctx.life, a.made, "array %#x", uintptr(h))
	}
	for h, s := range d.streams.live {
		from(s.ctx.dev, s.ctx.life, s.made, "stream %#x", uintptr(h))
	}
	for h, e := range d.events.live {
		from(e.ctx.dev, e.ctx.life, e.made, "event %#x", uintptr(h))
	}
	for h, m := range d.modules.live {
		if m.library == nil {
			from(m.ctx.dev, m.ctx.life, m.made, "module %#x", uintptr(h))
		}
	}
	for h, l := range d.libraries.live {
		from(nil, 0, l.made, "library %#x", uintptr(h))
	}
	for h, g := range d.graphs.live {
		if !g.body {
			from(nil, 0, g.made, "graph %#x", uintptr(h))
		}
	}
	for h, x := range d.execs.live {
		from(x.ctx.dev, x.ctx.life, x.made, "executable graph %#x", uintptr(h))
	}
	for h, p := range d.pools.live {
		if p != p.dev.defaultPool {
			from(p.dev, p.life, p.made, "memory pool %#x", uintptr(h))
		}
	}
	slices.Sort(leaks)
	return leaks
}

// TB is the part of testing.TB that [ForTest] uses.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
}

// ForTest makes a driver for the time of a test. At its end everything that leaked
// and every finding is an error of the test. Cleanups of the test that were
// registered later run before. With Config.Chaos, a test that has failed also logs the
// seed and what was injected.
func ForTest(t TB, config Config) *Driver {
	t.Helper()
	d := New(config)
	t.Cleanup(func() {
		t.Helper()
		defer d.logInjected(t)
		_ = d.Close()
		for _, f := range d.Findings() {
			t.Errorf("simulated driver: %v", f)
		}
		for _, plan := range d.simulated.unstruck() {
			t.Errorf("simulated driver: %s", plan)
		}
		if d.Sticky() != 0 {
			return // a poisoned process cannot give anything back
		}
		for _, leak := range d.Leaks() {
			t.Errorf("simulated driver: leaked: %s", leak)
		}
	})
	return d
}

// logInjected prints what was injected by chance into a test that has failed.
func (d *Driver) logInjected(t TB) {
	t.Helper()
	l, ok := t.(interface {
		Failed() bool
		Logf(format string, args ...any)
	})
	if !ok || d.simulated.config.Chaos == nil || !l.Failed() {
		return
	}
	l.Logf("simulated driver: chaos with seed %d has injected %d faults", d.simulated.config.Chaos.Seed, len(d.Injected()))
	for _, i := range d.Injected() {
		l.Logf("simulated driver: injected: %v", i)
	}
}
