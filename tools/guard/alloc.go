package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/purecuda/purecuda/runtime"
)

// Allocations of 1 MiB and their frees, on one goroutine and on 16 with a stream each.
func init() {
	suites = append(suites, func(m *machine) *suite {
		const most = 16
		var (
			l       launcher
			streams []*runtime.Stream
		)
		s := &suite{open: func(c *closers) (err error) {
			if err = l.open(m, c); err == nil {
				streams, err = openStreams(l.context, c, most)
			}
			return err
		}}
		for _, goroutines := range []int{1, most} {
			b := benchmark{fmt.Sprintf("Alloc/size=1MiB/goroutines=%d", goroutines), inC{}, loop(func(n int) (time.Duration, error) {
				return allocFree(streams[:goroutines], n)
			})}
			if goroutines == 1 {
				b.c = inC{baseline, "HardwareAllocFreeAsync/size=1MiB"}
			}
			s.add(b)
		}
		return s
	})
}

// allocFree does n pairs, dealt to the streams.
func allocFree(streams []*runtime.Stream, n int) (time.Duration, error) {
	errs := make([]error, len(streams))
	var all sync.WaitGroup
	start := time.Now()
	for i, s := range streams {
		pairs := (n + i) / len(streams)
		all.Go(func() {
			for range pairs {
				buffer, err := runtime.Alloc[byte](s, 1<<20)
				if err == nil {
					err = buffer.Close()
				}
				if err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(start), errors.Join(errs...)
}

func openStreams(on *runtime.Context, c *closers, n int) (streams []*runtime.Stream, err error) {
	for range n {
		s, err := on.NewStream()
		if s, err = opened(c, s, err); err != nil {
			return nil, err
		}
		streams = append(streams, s)
	}
	return streams, nil
}
