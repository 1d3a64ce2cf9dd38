package main

import (
	"fmt"

	"github.com/purecuda/purecuda/pool"
)

// pool.Do on all devices: nothing, and a launch that is waited for.
func init() {
	suites = append(suites, func(m *machine) *suite {
		var p *pool.Pool
		s := &suite{open: func(c *closers) (err error) {
			p, err = m.openPool(c, len(m.rt.Devices()), 1<<16)
			return err
		}}
		do := func(f func(*pool.Worker) error) error {
			_, err := p.Do(bg, f)
			return err
		}
		nothing := func(*pool.Worker) error { return nil }
		s.add(benchmark{"Do/do=nothing", inC{}, loop(each(func() error { return do(nothing) }))})
		for _, goroutines := range []int{1, 64, 1000} {
			s.add(benchmark{fmt.Sprintf("Do/do=launch/goroutines=%d", goroutines), inC{}, requests(goroutines, func(int) error { return do(launchAndWait) })})
		}
		return s
	})
}
