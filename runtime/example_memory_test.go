package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// The middle of an image goes to the device, which pads its rows to a multiple of four pixels.
func ExampleUpload2D() {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(drivertest.New(drivertest.Config{})))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	backend, err := rt.Probe("example")
	if err != nil {
		fmt.Println(err)
		return
	}
	const imageWidth, width, height, pitch = 5, 3, 2, 4
	image := []byte(".....-abc--def-.....")
	s, ctx := backend.Stream, context.Background()
	x, err := runtime.Alloc[byte](s, height*pitch)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer x.Close()
	if err := runtime.Fill(s, x, '_'); err != nil {
		fmt.Println(err)
		return
	}
	// The first row begins in the second column of the second row of the image.
	if err := runtime.Upload2D(ctx, s, x, pitch, image[imageWidth+1:], imageWidth, width, height); err != nil {
		fmt.Println(err)
		return
	}
	padded := make([]byte, x.Len())
	if err := runtime.Download(ctx, s, padded, x); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", padded)
	fmt.Println(runtime.Upload2D(ctx, s, x, 2, image, imageWidth, width, height))
	// Output:
	// abc_def_
	// InvalidArgument: upload of rows of 3 elements that begin 2 elements apart in the memory: want 3 or more
}

// Results of unknown number are collected in memory that grows. A graph or a kernel that uses the beginning need not know.
func ExampleAllocGrowable() {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(drivertest.New(drivertest.Config{})))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	backend, err := rt.Probe("example")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, ctx := backend.Stream, context.Background()
	results, err := runtime.AllocGrowable[uint32](backend.Context, 1<<32) // addresses for 16 GiB, and no memory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer results.Close()
	for _, batch := range [][]uint32{{1, 2, 3}, {4, 5}, {6}} {
		n := results.Len()
		if err := results.Grow(n + len(batch)); err != nil {
			fmt.Println(err)
			return
		}
		if err := runtime.Upload(ctx, s, results.Ref().Slice(n, n+len(batch)), batch); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(runtime.DownloadNew(ctx, s, results.Ref()))
	// Output:
	// [1 2 3 4 5 6] <nil>
}

// A service that runs short of memory asks what is in use, and which lines allocated it.
func ExampleContext_Leaks() {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(drivertest.New(drivertest.Config{})),
		runtime.WithMemory(arena.DeviceConfig{Sites: true}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	backend, err := rt.Probe("example")
	if err != nil {
		fmt.Println(err)
		return
	}
	forgotten, err := runtime.Alloc[float32](backend.Stream, 1000)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, leak := range backend.Context.Leaks() {
		file, _, _ := strings.Cut(leak.Site, ":") // "example_memory_test.go:70"
		fmt.Println(leak.Bytes, "bytes, allocated in", file)
	}
	forgotten.Close()
	fmt.Println(len(backend.Context.Leaks()), "leaks")
	// Output:
	// 4000 bytes, allocated in example_memory_test.go
	// 0 leaks
}

// Host and device share memory: a fill of the device changes what the host has written and reads.
func ExampleAllocManaged() {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(drivertest.New(drivertest.Config{})))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	backend, err := rt.Probe("example")
	if err != nil {
		fmt.Println(err)
		return
	}
	s := backend.Stream
	m, err := runtime.AllocManaged[byte](s, 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	copy(m.Data(), "hello")
	// Behind each other on the stream: to the device, work there, and back.
	if err := errors.Join(m.Prefetch(s), runtime.Fill(s, m.Ref().Slice(1, 4), '*'), m.PrefetchHost(s)); err != nil {
		fmt.Println(err)
		return
	}
	if err := s.Synchronize(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", m.Data())
	// Output: h***o
}
