package main

import (
	"fmt"

	"github.com/purecuda/purecuda/runtime"
)

// Copies of Go slices from 1 KiB to 1 GiB both ways, and of page-locked memory at three sizes, each waited for. In C
// all are from and to page-locked memory.
func init() {
	suites = append(suites, func(m *machine) *suite {
		largest, largestPinned := 1<<30, 256<<20
		if m.simulated != nil {
			largest, largestPinned = 4<<20, 1<<20
		}
		var (
			l      launcher
			device *runtime.Ref[byte]
			pinned *runtime.HostBuffer[byte]
			slice  []byte
		)
		s := &suite{open: func(c *closers) error {
			if err := l.open(m, c); err != nil {
				return err
			}
			c.later(func() error { slice = nil; return l.context.TrimMemory(0) })
			ref, err := runtime.Alloc[byte](l.stream, largest)
			if device, err = opened(c, ref, err); err != nil {
				return err
			}
			host, err := runtime.AllocHost[byte](l.context, largestPinned)
			if pinned, err = opened(c, host, err); err != nil {
				return err
			}
			slice = make([]byte, largest)
			for _, memory := range [][]byte{slice, pinned.Data()} {
				for i := range memory { // no page is touched first while it is timed
					memory[i] = byte(i)
				}
			}
			return nil
		}}
		wait := func(err error) error {
			if err != nil {
				return err
			}
			return l.stream.Synchronize(bg)
		}
		for _, way := range []struct {
			dir, host string
			sizes     []int
			copy      func(n int) error
		}{
			{"upload", "slice", copySizes(1<<10, 4, largest), func(n int) error { return wait(runtime.Upload(bg, l.stream, device.Slice(0, n), slice[:n])) }},
			{"download", "slice", copySizes(1<<10, 4, largest), func(n int) error { return runtime.Download(bg, l.stream, slice[:n], device.Slice(0, n)) }},
			{"upload", "pinned", copySizes(4<<10, 256, largestPinned), func(n int) error {
				return wait(runtime.UploadHost(l.stream, device.Slice(0, n), pinned.Slice(0, n)))
			}},
			{"download", "pinned", copySizes(4<<10, 256, largestPinned), func(n int) error {
				return wait(runtime.DownloadHost(l.stream, pinned.Slice(0, n), device.Slice(0, n)))
			}},
		} {
			for _, n := range way.sizes {
				s.add(benchmark{fmt.Sprintf("Copy/dir=%s/host=%s/size=%s", way.dir, way.host, sizeName(n)),
					inC{[]string{"copy"}, fmt.Sprintf("HardwareCopies/dir=%s/host=pinned/size=%s", way.dir, sizeName(n))},
					loop(each(func() error { return way.copy(n) }))})
			}
		}
		return s
	})
}

func copySizes(first, factor, largest int) (sizes []int) {
	for n := first; n <= largest; n *= factor {
		sizes = append(sizes, n)
	}
	return sizes
}

// sizeName is "64KiB".
func sizeName(n int) string {
	units := []string{"B", "KiB", "MiB", "GiB"}
	i := 0
	for ; n >= 1024 && i < len(units)-1; i++ {
		n /= 1024
	}
	return fmt.Sprint(n, units[i])
}
