package main

import (
	"errors"

	"github.com/purecuda/purecuda/runtime"
)

// The load of a module of PTX, which the driver has in its cache, a kernel of it, and its end.
func init() {
	suites = append(suites, func(m *machine) *suite {
		var l launcher
		s := &suite{open: func(c *closers) error { return l.open(m, c) }}
		s.add(benchmark{"Module/do=load", inC{baseline, "HardwareModule/do=load"}, loop(each(func() error {
			module, err := l.context.LoadModule(runtime.Image{Code: emptyKernels})
			if err != nil {
				return err
			}
			_, err = module.Kernel("empty")
			return errors.Join(err, module.Close())
		}))})
		return s
	})
}
