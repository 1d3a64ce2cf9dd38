package bench

import (
	"context"
	"fmt"

	"github.com/purecuda/purecuda/runtime"
)

// copyEnds are the ends of copies: two blocks of the device, and host memory once page-locked and
// once of the Go heap.
type copyEnds struct {
	stream        *runtime.Stream
	device, other *runtime.Ref[byte]
	pinned        *runtime.HostBuffer[byte]
	slice         []byte
}

func openCopyEnds(m *Machine, c *closers, largest int) (e copyEnds, err error) {
	on, err := m.Runtime.Context(m.Devices[0].Ordinal)
	if err != nil {
		return e, err
	}
	// What the copies have used is given back to the driver: other cases need the memory too.
	c.later(func() error { return on.TrimMemory(0) })
	stream, err := on.NewStream()
	if e.stream, err = opened(c, stream, err); err != nil {
		return e, err
	}
	for _, ref := range []**runtime.Ref[byte]{&e.device, &e.other} {
		r, err := runtime.Alloc[byte](e.stream, largest)
		if *ref, err = opened(c, r, err); err != nil {
			return e, err
		}
		if err := runtime.Zero(e.stream, *ref); err != nil {
			return e, err
		}
	}
	pinned, err := runtime.AllocHost[byte](on, largest)
	if e.pinned, err = opened(c, pinned, err); err != nil {
		return e, err
	}
	e.slice = make([]byte, largest)
	for _, host := range [][]byte{e.pinned.Data(), e.slice} {
		for i := range host { // no page is touched first while it is timed
			host[i] = byte(i)
		}
	}
	return e, e.wait(nil)
}

// wait waits for the stream unless there is an error already.
func (e *copyEnds) wait(err error) error {
	if err != nil {
		return err
	}
	return e.stream.Synchronize(context.Background())
}

// copies are copies up, down and within the device, each waited for.
func copies(m *Machine, sizes Sizes) *suite {
	var e copyEnds
	all := sizes.copies()
	s := &suite{open: func(_ context.Context, c *closers) (err error) {
		c.later(func() error { e = copyEnds{}; return nil }) // so that the slice can be collected
		e, err = openCopyEnds(m, c, all[len(all)-1])
		return err
	}}
	ctx := context.Background() // a copy that has begun takes less than a second
	for _, way := range []struct {
		name string
		copy func(n int) error
	}{
		{"dir=upload/host=slice", func(n int) error {
			return e.wait(runtime.Upload(ctx, e.stream, e.device.Slice(0, n), e.slice[:n]))
		}},
		{"dir=upload/host=pinned", func(n int) error {
			return e.wait(runtime.UploadHost(e.stream, e.device.Slice(0, n), e.pinned.Slice(0, n)))
		}},
		{"dir=download/host=slice", func(n int) error {
			return runtime.Download(ctx, e.stream, e.slice[:n], e.device.Slice(0, n))
		}},
		{"dir=download/host=pinned", func(n int) error {
			return e.wait(runtime.DownloadHost(e.stream, e.pinned.Slice(0, n), e.device.Slice(0, n)))
		}},
		{"dir=device", func(n int) error {
			return e.wait(runtime.Copy(e.stream, e.other.Slice(0, n), e.device.Slice(0, n)))
		}},
	} {
		for _, n := range all {
			s.add(Case{Name: fmt.Sprintf("Copy/%s/size=%s", way.name, SizeName(int64(n))), Bytes: int64(n),
				op: each(func() error { return way.copy(n) })})
		}
	}
	return s
}

// peers are copies between the first two devices, in both directions, over the link that there
// is.
func peers(m *Machine, sizes Sizes) *suite {
	type end struct {
		stream *runtime.Stream
		memory *runtime.Ref[byte]
	}
	var ends [2]end
	all := sizes.copies()
	s := &suite{open: func(ctx context.Context, c *closers) error {
		for i := range ends {
			on, err := m.Runtime.Context(m.Devices[i].Ordinal)
			if err != nil {
				return err
			}
			c.later(func() error { return on.TrimMemory(0) })
			stream, err := on.NewStream()
			if ends[i].stream, err = opened(c, stream, err); err != nil {
				return err
			}
			memory, err := runtime.Alloc[byte](stream, all[len(all)-1])
			if ends[i].memory, err = opened(c, memory, err); err != nil {
				return err
			}
			if err := runtime.Zero(stream, memory); err != nil {
				return err
			}
		}
		return nil
	}}
	if len(m.Devices) < 2 {
		return s
	}
	for from := range 2 {
		to := 1 - from
		for _, n := range all {
			s.add(Case{
				Name:  fmt.Sprintf("PeerCopy/from=%d/to=%d/size=%s", m.Devices[from].Ordinal, m.Devices[to].Ordinal, SizeName(int64(n))),
				Bytes: int64(n),
				op: each(func() error {
					on := ends[to].stream
					if err := runtime.Copy(on, ends[to].memory.Slice(0, n), ends[from].memory.Slice(0, n)); err != nil {
						return err
					}
					return on.Synchronize(context.Background())
				}),
			})
		}
	}
	return s
}
