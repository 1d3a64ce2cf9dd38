package main

import (
	"fmt"
	"os"

	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// Requests in child processes: of nothing, and of a buffer of 16 MiB that goes to the device and back.
func init() {
	const bytes = 16 << 20
	isolate.Register("echo/v1", func(_ *pool.Worker, r *isolate.Request) ([]byte, error) { return r.Data, nil })
	isolate.Register("copy/v1", func(w *pool.Worker, r *isolate.Request) ([]byte, error) {
		host, err := isolate.HostBuffer[byte](w, r.Buffers[0])
		if err != nil {
			return nil, err
		}
		x, err := runtime.Alloc[byte](w.Stream(), host.Len())
		if err != nil {
			return nil, err
		}
		defer x.Close()
		if err := runtime.UploadHost(w.Stream(), x, host); err != nil {
			return nil, err
		}
		if err := runtime.DownloadHost(w.Stream(), host, x); err != nil {
			return nil, err
		}
		return nil, w.Stream().Synchronize(bg)
	})
	atStart = append(atStart, func() { isolate.Main(openForChild) })
	suites = append(suites, func(m *machine) *suite {
		var (
			g      *isolate.Group
			buffer *isolate.Buffer
		)
		s := &suite{open: func(c *closers) error {
			group, err := isolate.Open(m.rt, isolate.WithQueueWait(), isolate.WithOutput(os.Stderr), isolate.WithEnvironment(simulateVariable+"="+os.Getenv(simulateVariable)))
			if g, err = opened(c, group, err); err != nil {
				return err
			}
			b, err := g.NewBuffer(bytes)
			buffer, err = opened(c, b, err)
			return err
		}}
		do := func(name string, options ...isolate.Option) error {
			_, _, err := g.Do(bg, name, nil, options...)
			return err
		}
		for _, goroutines := range []int{1, 64} {
			s.add(benchmark{fmt.Sprintf("Isolate/do=nothing/goroutines=%d", goroutines), inC{}, requests(goroutines, func(int) error { return do("echo/v1") })})
		}
		first := isolate.WithDevices(m.rt.Devices()[0].Ordinal)
		s.add(benchmark{"Isolate/do=copy/size=16MiB", inC{}, loop(each(func() error { return do("copy/v1", isolate.WithBuffers(buffer), first) }))})
		return s
	})
}
