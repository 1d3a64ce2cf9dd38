package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/purecuda/purecuda/runtime"
)

// waitStreams is how many streams all goroutines share that launch and wait.
const waitStreams = 64

// waits are launches that are waited for, by many goroutines: a kernel that takes a while, and the
// wait for it. scripts/baseline/wait.c is the same in C.
func waits(m *Machine) *suite {
	var (
		l       launcher
		spin    *runtime.Kernel
		streams []*runtime.Stream
	)
	s := &suite{open: func(_ context.Context, c *closers) (err error) {
		if l, err = openLauncher(m, c); err != nil {
			return err
		}
		if spin, err = l.kernel("spin"); err != nil {
			return err
		}
		streams, err = openStreams(l.context, c, waitStreams)
		return err
	}}
	for _, kernel := range []time.Duration{0, 50 * time.Microsecond, 2 * time.Millisecond} {
		for _, goroutines := range []int{1, 16, 64, 1000, 10000} {
			length, workers := uint64(kernel), goroutines
			if m.Simulated {
				length, workers = length/1000, min(goroutines, waitStreams)
			}
			r := new(requests)
			s.add(Case{
				Name:     fmt.Sprintf("Wait/kernel=%v/goroutines=%d", kernel, goroutines),
				requests: r,
				op: r.between(workers, func(ctx context.Context, g int) error {
					stream := streams[g%len(streams)]
					if err := spin.Launch(stream, oneWarp, runtime.Value(length)); err != nil {
						return err
					}
					return stream.Synchronize(ctx)
				}),
			})
		}
	}
	return s
}

// services are requests of a service: memory, an upload, a kernel, a download, each goroutine on a
// stream of its own.
func services(m *Machine) *suite {
	var (
		l       launcher
		streams []*runtime.Stream
	)
	const most = 64
	s := &suite{open: func(_ context.Context, c *closers) (err error) {
		if l, err = openLauncher(m, c); err != nil {
			return err
		}
		streams, err = openStreams(l.context, c, most)
		return err
	}}
	for _, bytes := range []int{4 << 10, 64 << 10, 1 << 20} {
		in, out := make([][]float32, most), make([][]float32, most)
		for _, goroutines := range []int{1, 16, most} {
			r := new(requests)
			s.add(Case{
				Name:     fmt.Sprintf("Service/size=%s/goroutines=%d", SizeName(int64(bytes)), goroutines),
				Bytes:    2 * int64(bytes),
				requests: r,
				op: r.between(goroutines, func(ctx context.Context, g int) error {
					if in[g] == nil {
						in[g], out[g] = make([]float32, bytes/4), make([]float32, bytes/4)
					}
					return l.request(ctx, streams[g], in[g], out[g])
				}),
			})
		}
	}
	return s
}

// request is what a service does for one caller.
func (l *launcher) request(ctx context.Context, s *runtime.Stream, in, out []float32) (err error) {
	x, err := runtime.Alloc[float32](s, len(in))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	y, err := runtime.Alloc[float32](s, len(out))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.Close()) }()
	if err := runtime.Upload(ctx, s, x, in); err != nil {
		return err
	}
	err = l.empty4.Launch(s, oneWarp, runtime.InOut(x), runtime.InOut(y), runtime.Value(float32(2)), runtime.Value(uint64(1)))
	if err != nil {
		return err
	}
	return runtime.Download(ctx, s, out, y)
}

func openStreams(c *runtime.Context, open *closers, n int) (streams []*runtime.Stream, err error) {
	for range n {
		s, err := c.NewStream()
		if s, err = opened(open, s, err); err != nil {
			return nil, err
		}
		streams = append(streams, s)
	}
	return streams, nil
}
