package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/purecuda/purecuda/runtime"
)

// requestStreams is how many streams all goroutines share.
const requestStreams = 64

var waitInC = []string{"wait", "-ptx", "empty.ptx"}

// Waits: launches of a kernel that takes a while, and the wait for it.
func init() {
	suites = append(suites, func(m *machine) *suite {
		l, streams, s := requestSuite(m)
		for _, kernel := range []time.Duration{0, 50 * time.Microsecond, 2 * time.Millisecond} {
			for _, goroutines := range []int{1, 16, 64, 1000} {
				name, length := fmt.Sprintf("Wait/kernel=%v/goroutines=%d", kernel, goroutines), uint64(kernel)
				if m.simulated != nil {
					length /= 1000
				}
				s.add(benchmark{name, inC{waitInC, name}, requests(m.atMost(goroutines), func(g int) error {
					stream := (*streams)[g%requestStreams]
					if err := l.spin.Launch(stream, oneWarp, runtime.Value(length)); err != nil {
						return err
					}
					return stream.Synchronize(bg)
				})})
			}
		}
		return s
	})
}

// Requests of a service: two allocations, an upload, a kernel and a download. In C the memory of the host is page-locked.
func init() {
	suites = append(suites, func(m *machine) *suite {
		l, streams, s := requestSuite(m)
		for _, bytes := range []int{4 << 10, 64 << 10, 1 << 20} {
			for _, goroutines := range []int{1, 4, 16, 64, 1000} {
				var in [requestStreams][]float32
				out := make([][]float32, goroutines)
				name := fmt.Sprintf("Service/size=%s/goroutines=%d", sizeName(bytes), goroutines)
				run := requests(m.atMost(goroutines), func(g int) error {
					if out[g] == nil {
						out[g] = make([]float32, bytes/4)
					}
					return l.request((*streams)[g%requestStreams], in[g%requestStreams], out[g])
				})
				s.add(benchmark{name, inC{waitInC, name + "/host=pinned"}, func(least time.Duration) ([]value, error) {
					for i := range in[:min(goroutines, requestStreams)] {
						in[i] = make([]float32, bytes/4)
					}
					defer clear(out) // what all benchmarks keep would be gigabytes
					return run(least)
				}})
			}
		}
		return s
	})
}

// atMost is how many goroutines there are: simulated devices are too slow for more than a stream has.
func (m *machine) atMost(goroutines int) int {
	if m.simulated != nil {
		return min(goroutines, requestStreams)
	}
	return goroutines
}

// requestSuite is a suite with a launcher and streams.
func requestSuite(m *machine) (l *launcher, streams *[]*runtime.Stream, s *suite) {
	l, streams = new(launcher), new([]*runtime.Stream)
	return l, streams, &suite{open: func(c *closers) (err error) {
		if err = l.open(m, c); err == nil {
			*streams, err = openStreams(l.context, c, requestStreams)
		}
		return err
	}}
}

// request is what a service does for one caller.
func (l *launcher) request(s *runtime.Stream, in, out []float32) (err error) {
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
	if err := runtime.Upload(bg, s, x, in); err != nil {
		return err
	}
	if err := l.empty4.Launch(s, oneWarp, runtime.InOut(x), runtime.InOut(y), runtime.Value(float32(2)), runtime.Value(uint64(1))); err != nil {
		return err
	}
	return runtime.Download(bg, s, out, y)
}
