package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/nccl"
	"github.com/purecuda/purecuda/libs/nccl/nccltest"
	"github.com/purecuda/purecuda/runtime"
)

// AllReduce on two devices: 256 MiB, queued behind each other, and 4 KiB that somebody waits for each time; with NCCL
// that blocks in its calls, and without.
func init() {
	addKernels(nccltest.Kernels())
	suites = append(suites, func(m *machine) *suite {
		const devices = 2
		var (
			comms map[bool]*nccl.Comm
			x     map[int][]*runtime.Ref[float32]
		)
		large := 256 << 20
		if m.simulated != nil {
			large = 64 << 10
		}
		s := &suite{open: func(c *closers) error {
			if n := len(m.rt.Devices()); n < devices {
				return skip("AllReduce takes %d devices, and there is %d", devices, n)
			}
			api, err := openNCCL(m)
			if errors.Is(err, driver.ErrLibraryUnavailable) {
				return skip("%v", err)
			}
			if err != nil {
				return err
			}
			comms, x = map[bool]*nccl.Comm{}, map[int][]*runtime.Ref[float32]{}
			var streams []*runtime.Stream
			for _, d := range m.rt.Devices()[:devices] {
				on, err := m.rt.Context(d.Ordinal)
				if err != nil {
					return err
				}
				s, err := on.NewStream()
				if s, err = opened(c, s, err); err != nil {
					return err
				}
				streams = append(streams, s)
				for _, bytes := range []int{4 << 10, large} {
					r, err := dense[float32](&launcher{stream: s}, c, bytes/4)
					if err != nil {
						return err
					}
					x[bytes] = append(x[bytes], r)
				}
			}
			for _, blocking := range []bool{true, false} {
				id, err := nccl.UniqueID(api)
				if err != nil {
					return err
				}
				comm, err := nccl.Join(bg, api, id, devices, []int{0, 1}, streams, nccl.Options{Blocking: blocking})
				if comms[blocking], err = opened(c, comm, err); err != nil {
					return err
				}
			}
			return nil
		}}
		for _, blocking := range []bool{true, false} {
			do := func(bytes int) error { return comms[blocking].Do(bg, nccl.AllReduce(nccl.Sum, x[bytes], x[bytes])) }
			s.add(benchmark{fmt.Sprintf("nccl/call=AllReduce/size=4KiB/blocking=%v", blocking), inC{}, loop(each(func() error {
				if err := do(4 << 10); err != nil {
					return err
				}
				return comms[blocking].Wait(bg)
			}))})
			s.add(benchmark{fmt.Sprintf("nccl/call=AllReduce/size=256MiB/blocking=%v", blocking), inC{}, loop(func(n int) (time.Duration, error) {
				start := time.Now()
				for range n {
					if err := do(large); err != nil {
						return 0, err
					}
				}
				err := comms[blocking].Wait(bg)
				return time.Since(start), err
			})})
		}
		return s
	})
}

func openNCCL(m *machine) (nccl.API, error) {
	if m.simulated != nil {
		return nccltest.New(m.simulated), nil
	}
	return nccl.Open()
}
