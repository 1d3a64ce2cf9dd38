package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/purecuda/purecuda/runtime"
)

const allocBytes = 1 << 20

// allocs are an allocation and its free, on one goroutine and on one for each core, all with
// streams of their own. The time is wall time for each pair.
func allocs(m *Machine) *suite {
	var streams []*runtime.Stream
	s := &suite{open: func(_ context.Context, c *closers) error {
		on, err := m.Runtime.Context(m.Devices[0].Ordinal)
		if err != nil {
			return err
		}
		streams = nil
		for range m.Cores {
			stream, err := on.NewStream()
			if stream, err = opened(c, stream, err); err != nil {
				return err
			}
			streams = append(streams, stream)
		}
		return nil
	}}
	counts := []int{1}
	if m.Cores > 1 {
		counts = append(counts, m.Cores)
	}
	for _, goroutines := range counts {
		s.add(Case{
			Name: fmt.Sprintf("AllocFree/size=%s/goroutines=%d", SizeName(allocBytes), goroutines),
			op: func(_ context.Context, n int) (time.Duration, error) {
				return allocFree(streams[:goroutines], n)
			},
		})
	}
	return s
}

// allocFree does n pairs, dealt to the streams.
func allocFree(streams []*runtime.Stream, n int) (time.Duration, error) {
	errs := make([]error, len(streams))
	var all sync.WaitGroup
	start := time.Now()
	for i, s := range streams {
		pairs := n / len(streams)
		if i < n%len(streams) {
			pairs++
		}
		all.Go(func() { errs[i] = allocFreeOn(s, pairs) })
	}
	all.Wait()
	return time.Since(start), errors.Join(errs...)
}

func allocFreeOn(s *runtime.Stream, pairs int) error {
	for range pairs {
		buffer, err := runtime.Alloc[byte](s, allocBytes)
		if err != nil {
			return err
		}
		if err := buffer.Close(); err != nil {
			return err
		}
	}
	return nil
}
