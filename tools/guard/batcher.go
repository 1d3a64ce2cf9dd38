package main

import (
	"fmt"

	"github.com/purecuda/purecuda/pool"
)

// A Batcher on all devices, whose batch is a launch that is waited for.
func init() {
	suites = append(suites, func(m *machine) *suite {
		var b *pool.Batcher[int, int]
		s := &suite{open: func(c *closers) error {
			p, err := m.openPool(c, len(m.rt.Devices()), 0)
			if err != nil {
				return err
			}
			batcher, err := pool.NewBatcher(p, func(w *pool.Worker, in, out []int, _ []error) error {
				copy(out, in)
				return launchAndWait(w)
			}, pool.BatcherConfig[int, int]{})
			b, err = opened(c, batcher, err)
			return err
		}}
		for _, goroutines := range []int{1, 64, 1000} {
			s.add(benchmark{fmt.Sprintf("Batcher/goroutines=%d", goroutines), inC{}, requests(goroutines, func(g int) error {
				got, err := b.Do(bg, g)
				if err == nil && got != g {
					err = fmt.Errorf("a request for %d got %d", g, got)
				}
				return err
			})})
		}
		return s
	})
}
