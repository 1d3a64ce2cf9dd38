package arena_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
)

// hardwareCopies is a device of this machine with the two ends of a copy.
type hardwareCopies struct {
	*driver.Binding
	*arena.Copier
	stream driver.Stream
	device driver.DevicePtr
	pinned unsafe.Pointer
	host   []byte // of the Go heap
}

func openCopies(tb testing.TB, ordinal int, w *arena.Workers, largest uint64, config ...arena.CopierConfig) *hardwareCopies {
	tb.Helper()
	lib := hardware.Open(tb)
	device, r := lib.DeviceGet(int32(ordinal))
	require.Equal(tb, driver.Success, r)
	handle, r := lib.DevicePrimaryCtxRetain(device)
	require.Equal(tb, driver.Success, r)
	h := &hardwareCopies{Binding: &driver.Binding{API: lib, Context: handle, Ordinal: ordinal}}
	require.NoError(tb, h.Do(func() error {
		var r [3]driver.Result
		h.stream, r[0] = lib.StreamCreate(driver.StreamNonBlocking)
		h.device, r[1] = lib.MemAlloc(largest)
		h.pinned, r[2] = lib.MemHostAlloc(largest, driver.HostAllocPortable)
		require.Equal(tb, [3]driver.Result{}, r)
		return nil
	}))
	h.host = make([]byte, largest)
	for i := range h.host { // no page is touched first while it is timed
		h.host[i] = byte(i)
	}
	copy(unsafe.Slice((*byte)(h.pinned), largest), h.host)
	pool := arena.NewPinned(h.Binding, arena.PinnedConfig{})
	h.Copier = arena.NewCopierWith(h.Binding, w, pool, append(config, arena.CopierConfig{})[0])
	tb.Cleanup(func() {
		require.NoError(tb, h.Copier.Close())
		require.NoError(tb, pool.Close())
		require.NoError(tb, h.Do(func() error {
			require.Equal(tb, [3]driver.Result{}, [3]driver.Result{lib.StreamDestroy(h.stream), lib.MemFree(h.device), lib.MemFreeHost(h.pinned)})
			return nil
		}))
		lib.DevicePrimaryCtxRelease(device)
	})
	return h
}

// ways are the ways of a copy. Each waits for the stream, so that all do the same.
func (h *hardwareCopies) ways(up bool) map[string]func(n int) error {
	wait := func(r driver.Result) error {
		if r == driver.Success {
			r = h.API.StreamSynchronize(h.stream)
		}
		return h.Failed("copy", r)
	}
	if up {
		return map[string]func(n int) error{
			"staged": func(n int) error {
				if err := h.Upload(background, h.stream, h.device, h.host[:n]); err != nil {
					return err
				}
				return wait(driver.Success)
			},
			"pageable": func(n int) error {
				return wait(h.MemcpyHtoDAsync(h.device, pointerTo(h.host), uint64(n), h.stream))
			},
			"pinned": func(n int) error { return wait(h.MemcpyHtoDAsync(h.device, h.pinned, uint64(n), h.stream)) },
		}
	}
	return map[string]func(n int) error{
		"staged":   func(n int) error { return h.Download(background, h.stream, h.host[:n], h.device) },
		"pageable": func(n int) error { return wait(h.MemcpyDtoHAsync(pointerTo(h.host), h.device, uint64(n), h.stream)) },
		"pinned":   func(n int) error { return wait(h.MemcpyDtoHAsync(h.pinned, h.device, uint64(n), h.stream)) },
	}
}

// copyBenchSizes are 1 KiB to 1 GiB in powers of 4.
func copyBenchSizes() (sizes []int) {
	for n := 1 << 10; n <= 1<<30; n *= 4 {
		sizes = append(sizes, n)
	}
	return sizes
}

func sizeName(n int) string {
	for _, unit := range []struct {
		bytes int
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.bytes {
			return fmt.Sprintf("%d%s", n/unit.bytes, unit.name)
		}
	}
	return fmt.Sprint(n)
}

// BenchmarkHardwareCopies measures copies between Go memory and the device. What
// scripts/baseline/copy.c measures has the same names.
func BenchmarkHardwareCopies(b *testing.B) {
	sizes := copyBenchSizes()
	h := openCopies(b, 0, arena.NewWorkers(0), uint64(sizes[len(sizes)-1]))
	for _, n := range sizes {
		for _, dir := range []string{"upload", "download"} {
			ways := h.ways(dir == "upload")
			for _, host := range []string{"staged", "pageable", "pinned"} {
				b.Run(fmt.Sprintf("dir=%s/host=%s/size=%s/impl=arena", dir, host, sizeName(n)), func(b *testing.B) {
					b.SetBytes(int64(n))
					b.ReportAllocs()
					for b.Loop() {
						if err := ways[host](n); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkHardwareCopiesOfAllDevices measures what all devices get at the same time, by the
// number of workers that they share and that help with one copy.
func BenchmarkHardwareCopiesOfAllDevices(b *testing.B) {
	lib := hardware.Open(b)
	count, r := lib.DeviceGetCount()
	require.Equal(b, driver.Success, r)
	for _, crew := range []struct{ workers, helpers int }{{16, 4}, {32, 8}, {48, 12}} {
		b.Run(fmt.Sprintf("workers=%d/helpers=%d", crew.workers, crew.helpers), func(b *testing.B) {
			w := arena.NewWorkers(crew.workers)
			b.Cleanup(w.Close)
			devices := make([]*hardwareCopies, count)
			for i := range devices {
				devices[i] = openCopies(b, i, w, allDevicesBytes, arena.CopierConfig{Helpers: crew.helpers})
			}
			benchAllDevices(b, devices)
		})
	}
}

// allDevicesBytes is what each device gets.
const allDevicesBytes = 256 << 20

func benchAllDevices(b *testing.B, devices []*hardwareCopies) {
	for _, dir := range []string{"upload", "download"} {
		for _, host := range []string{"staged", "pageable", "pinned"} {
			b.Run(fmt.Sprintf("dir=%s/host=%s/devices=%d/size=256MiB", dir, host, len(devices)), func(b *testing.B) {
				b.SetBytes(allDevicesBytes * int64(len(devices)))
				for b.Loop() {
					var wg sync.WaitGroup
					for _, h := range devices {
						wg.Go(func() {
							if err := h.ways(dir == "upload")[host](allDevicesBytes); err != nil {
								b.Error(err)
							}
						})
					}
					wg.Wait()
				}
			})
		}
	}
}

func TestHardwareCopies(t *testing.T) {
	const room = 64 << 20
	w := arena.NewWorkers(0)
	defer w.Close()
	h := openCopies(t, 0, w, room)
	for _, n := range []int{1, 1000, 32 << 10, 32<<10 + 1, 256 << 10, 256<<10 + 1, 1 << 20, 1<<20 + 1, 5<<20 + 7, room} {
		src, dst := random(n), make([]byte, n)
		want := string(src)
		require.NoError(t, h.Upload(background, h.stream, h.device, src))
		clear(src)
		require.NoError(t, h.Download(background, h.stream, dst, h.device))
		require.True(t, want == string(dst), "%d bytes", n)
	}
	const width, height, hostPitch, devicePitch = 3001, 2000, 3333, 4096
	src, dst := random(hostPitch*height), make([]byte, hostPitch*height)
	require.NoError(t, h.Upload2D(background, h.stream, h.device, devicePitch, src, hostPitch, width, height))
	require.NoError(t, h.Download2D(background, h.stream, dst, hostPitch, h.device, devicePitch, width, height))
	for row := range height {
		require.Equal(t, src[row*hostPitch:][:width], dst[row*hostPitch:][:width])
	}
}

// The source of an upload is free when the call returns, also while the device has not yet
// begun with it: the work before it on the stream has not ended.
func TestHardwareUploadsAreOrdered(t *testing.T) {
	w := arena.NewWorkers(0)
	defer w.Close()
	h := openCopies(t, 0, w, 8<<20)
	for n := 1 << 10; n <= 1<<20; n *= 2 {
		src := random(n)
		want := string(src)
		gate := make(chan struct{})
		require.Equal(t, driver.Success, h.API.LaunchHostFunc(h.stream, func() { <-gate }))
		require.Equal(t, driver.Success, h.MemsetD8Async(h.device, 0xEE, uint64(n), h.stream))
		uploaded := make(chan error, 1)
		go func() { uploaded <- h.Upload(background, h.stream, h.device, src) }()
		select {
		case err := <-uploaded:
			require.NoError(t, err)
			clear(src)
			close(gate)
		case <-time.After(2 * time.Second):
			t.Errorf("%s: the upload waits for the work before it", sizeName(n))
			close(gate)
			require.NoError(t, <-uploaded)
			clear(src)
		}
		dst := make([]byte, n)
		require.NoError(t, h.Download(background, h.stream, dst, h.device))
		require.True(t, want == string(dst), sizeName(n))
	}
}

// BenchmarkHardwarePinned measures a lease from the pool.
func BenchmarkHardwarePinned(b *testing.B) {
	w := arena.NewWorkers(0)
	h := openCopies(b, 0, w, 4096)
	p := arena.NewPinned(h.Binding, arena.PinnedConfig{})
	defer func() { require.NoError(b, p.Close()) }()
	for _, n := range []uint64{4 << 10, 16 << 20} {
		b.Run("size="+strings.TrimSpace(sizeName(int(n))), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l, err := p.Lease(n)
				if err == nil {
					err = l.Free()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
