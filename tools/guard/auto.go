package main

import (
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/runtime"
)

// A warm small kernel with its copies, as the functions XAuto of gpuc do it, and by hand with memory and a stream that are kept. Both
// upload two slices of 4 KiB, launch, and download one.
func init() {
	suites = append(suites, func(m *machine) *suite {
		const n = 1 << 10
		module := launch.Module{Images: []runtime.Image{{Code: emptyKernels}}, Kernels: []string{"empty4"}}
		var (
			l    launcher
			x, y [n]float32
			a, b *runtime.Ref[float32]
		)
		s := &suite{open: func(c *closers) error {
			if err := l.open(m, c); err != nil {
				return err
			}
			for _, ref := range []**runtime.Ref[float32]{&a, &b} {
				made, err := runtime.Alloc[float32](l.stream, n)
				if *ref, err = opened(c, made, err); err != nil {
					return err
				}
			}
			return nil
		}}
		onlyGPU := func() error { return skip("no GPU") }
		auto := func() error {
			_, err := module.Auto(bg, m.rt, "empty4", func(k *launch.Kernels, c *launch.Copies) error {
				a := launch.Copy(c, x[:], false)
				b := launch.Copy(c, y[:], true)
				return c.Finish(func() error {
					return k.Launch(0, c.Stream, oneWarp, runtime.In(a), runtime.InOut(b), runtime.Value(float32(2)), runtime.Value(uint64(1)))
				})
			}, onlyGPU, launch.Host("x", x[:], false), launch.Host("y", y[:], true))
			return err
		}
		byHand := func() error {
			if err := runtime.Upload(bg, l.stream, a, x[:]); err != nil {
				return err
			}
			if err := runtime.Upload(bg, l.stream, b, y[:]); err != nil {
				return err
			}
			if err := l.empty4.Launch(l.stream, oneWarp, runtime.In(a), runtime.InOut(b), runtime.Value(float32(2)), runtime.Value(uint64(1))); err != nil {
				return err
			}
			return runtime.Download(bg, l.stream, y[:], b)
		}
		inBaseline := inC{baseline, "HardwareByHand/size=4KiB"}
		s.add(benchmark{"Auto/do=auto/size=4KiB", inBaseline, loop(each(auto))})
		s.add(benchmark{"Auto/do=by-hand/size=4KiB", inBaseline, loop(each(byHand))})
		return s
	})
}
