package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// deviceCounts are one device, and all.
func (m *machine) deviceCounts() []int { return slices.Compact([]int{1, len(m.rt.Devices())}) }

// openPool opens a pool on the first n devices, with a queue of so many places, or the default with 0.
func (m *machine) openPool(c *closers, n int, queue int) (*pool.Pool, error) {
	o := pool.Options{Setup: []pool.Setup{emptyKernel}, Queue: queue}
	for _, d := range m.rt.Devices()[:n] {
		o.Devices = append(o.Devices, d.Ordinal)
	}
	p, err := pool.Open(m.rt, o)
	return opened(c, p, err)
}

var emptyKernel = pool.PerDevice(func(c *runtime.Context) (*runtime.Kernel, error) {
	module, err := c.CachedModule(runtime.Image{Code: emptyKernels})
	if err != nil {
		return nil, err
	}
	return module.Kernel("empty")
})

func launchAndWait(w *pool.Worker) error {
	if err := emptyKernel.Of(w).Launch(w.Stream(), oneWarp); err != nil {
		return err
	}
	return w.Stream().Synchronize(bg)
}

// pool.Scatter with an item for each device, and pool.Map of slices that go to the device and back.
func init() {
	suites = append(suites, func(m *machine) *suite {
		pools := map[int]*pool.Pool{}
		sizes := []int{4 << 10, 16 << 20}
		in, out := make([]byte, slices.Max(sizes)), make([]byte, slices.Max(sizes))
		s := &suite{open: func(c *closers) error {
			for _, n := range m.deviceCounts() {
				p, err := m.openPool(c, n, 0)
				if err != nil {
					return err
				}
				pools[n] = p
			}
			return nil
		}}
		for _, n := range m.deviceCounts() {
			for name, f := range map[string]func(*pool.Worker) error{"nothing": func(*pool.Worker) error { return nil }, "launch": launchAndWait} {
				s.add(benchmark{fmt.Sprintf("Scatter/do=%s/devices=%d", name, n), inC{}, loop(each(func() error {
					_, err := pools[n].Scatter(bg, n, func(w *pool.Worker, _ pool.Tile) error { return f(w) }, pool.ScatterOptions{MinPerDevice: 1})
					return err
				}))})
			}
			for _, bytes := range sizes {
				s.add(benchmark{fmt.Sprintf("Map/size=%s/devices=%d", sizeName(bytes), n), inC{}, loop(each(func() error {
					_, err := pool.Map(bg, pools[n], in[:bytes], out[:bytes], upAndDown)
					return err
				}))})
			}
		}
		slices.SortFunc(s.all, func(a, b benchmark) int { return strings.Compare(a.name, b.name) })
		return s
	})
}

func upAndDown(w *pool.Worker, in, out []byte) error {
	x, err := runtime.Alloc[byte](w.Stream(), len(in))
	if err != nil {
		return err
	}
	defer x.Close()
	if err := runtime.Upload(bg, w.Stream(), x, in); err != nil {
		return err
	}
	return runtime.Download(bg, w.Stream(), out, x)
}
