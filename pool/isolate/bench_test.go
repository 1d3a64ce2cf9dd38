//go:build linux && (amd64 || arm64)

package isolate_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// BenchmarkDo is an empty request in a child, and by pool.Do in this process.
func BenchmarkDo(b *testing.B) {
	b.Run("isolated", func(b *testing.B) {
		g := onHardware(b)
		for b.Loop() {
			_, _, err := g.Do(b.Context(), "echo/v1", nil, isolate.WithDevices(0))
			require.NoError(b, err)
		}
	})
	b.Run("pool", func(b *testing.B) {
		rt, err := runtime.Open(runtime.WithDriver(hardware.Open(b)))
		require.NoError(b, err)
		defer rt.Close()
		p, err := pool.Open(rt, pool.Options{Devices: []int{0}})
		require.NoError(b, err)
		defer p.Close()
		do := func() {
			_, err := p.Do(b.Context(), func(w *pool.Worker) error { return w.Stream().Synchronize(w.CallContext()) })
			require.NoError(b, err)
		}
		do() // opens the device
		for b.Loop() {
			do()
		}
	})
}

// BenchmarkDoOnAll is an empty request by eight goroutines for each device, on one device, two and so on, with a child for each.
func BenchmarkDoOnAll(b *testing.B) {
	g := onHardware(b)
	var ordinals []int
	for _, d := range g.Stats().Devices {
		ordinals = append(ordinals, d.Device)
	}
	for n := 1; n <= len(ordinals); n *= 2 {
		b.Run(fmt.Sprintf("devices=%d", n), func(b *testing.B) {
			on := isolate.WithDevices(ordinals[:n]...)
			var all sync.WaitGroup
			var left atomic.Int64
			left.Store(int64(b.N))
			for range 8 * n {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						if _, _, err := g.Do(b.Context(), "echo/v1", nil, on); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// BenchmarkAdd is 256 MiB that go to the device and back: through a shared buffer, and in this process through page-locked
// memory of the driver.
func BenchmarkAdd(b *testing.B) {
	const bytes = 256 << 20
	b.Run("pool", func(b *testing.B) {
		rt, err := runtime.Open(runtime.WithDriver(hardware.Open(b)))
		require.NoError(b, err)
		defer rt.Close()
		p, err := pool.Open(rt, pool.Options{Devices: []int{0}})
		require.NoError(b, err)
		defer p.Close()
		c, err := rt.Context(0)
		require.NoError(b, err)
		host, err := runtime.AllocHost[uint32](c, bytes/4)
		require.NoError(b, err)
		defer host.Close()
		b.SetBytes(2 * bytes)
		add := func() {
			_, err := p.Do(b.Context(), func(w *pool.Worker) error { return addTo(w, host, 1) })
			require.NoError(b, err)
		}
		add() // opens the device, and loads the kernel
		for b.Loop() {
			add()
		}
	})
	b.Run("isolated", func(b *testing.B) { addIsolated(b, bytes) })
}

func addIsolated(b *testing.B, bytes int) {
	g := onHardware(b)
	buffer, err := g.NewBuffer(bytes)
	require.NoError(b, err)
	defer buffer.Close()
	b.SetBytes(int64(2 * bytes))
	add := func() {
		_, _, err := g.Do(b.Context(), "add/v1", []byte{1, 0, 0, 0}, isolate.WithBuffers(buffer), isolate.WithDevices(0))
		require.NoError(b, err)
	}
	add() // makes the buffer page-locked in the child
	for b.Loop() {
		add()
	}
}

// BenchmarkRestart is a fault, and the first answer of the next child.
func BenchmarkRestart(b *testing.B) {
	for name, option := range map[string]isolate.Option{"alone": nil, "standby": isolate.WithStandby()} {
		b.Run(name, func(b *testing.B) {
			g := onHardware(b, isolate.WithRestarts(1<<30, 1), option)
			for b.Loop() {
				b.StopTimer()
				time.Sleep(2 * time.Second) // a service does not fault all the time
				b.StartTimer()
				_, _, err := g.Do(b.Context(), "fault/v1", nil, isolate.WithDevices(0))
				require.ErrorIs(b, err, isolate.ErrChildDied)
				_, _, err = g.Do(b.Context(), "echo/v1", nil, isolate.WithDevices(0))
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkFaultBesideRequests is a kernel with an illegal address on the first device, while 64 goroutines make requests of
// 4 KiB on all devices. restart-ns is from its error to the first answer of the next child.
func BenchmarkFaultBesideRequests(b *testing.B) {
	for name, option := range map[string]isolate.Option{"alone": nil, "standby": isolate.WithStandby()} {
		b.Run(name, func(b *testing.B) {
			g := onHardware(b, isolate.WithRestarts(1<<30, 1), option)
			in := make([]byte, 4096)
			want := bytes.Repeat([]byte{1, 0, 0, 0}, len(in)/4)
			_, _, err := g.Do(b.Context(), "next/v1", in)
			require.NoError(b, err)
			var (
				ended atomic.Bool
				right atomic.Int64
				all   sync.WaitGroup
			)
			for range 64 {
				all.Go(func() {
					for !ended.Load() {
						got, _, err := g.Do(b.Context(), "next/v1", in, isolate.WithRetry(3))
						if !assert.NoError(b, err) || !assert.Equal(b, want, got) {
							return
						}
						right.Add(1)
					}
				})
			}
			var restart time.Duration
			for b.Loop() {
				_, _, err := g.Do(b.Context(), "fault/v1", nil, isolate.WithDevices(0))
				require.ErrorIs(b, err, isolate.ErrChildDied)
				start := time.Now()
				_, _, err = g.Do(b.Context(), "echo/v1", nil, isolate.WithDevices(0))
				require.NoError(b, err)
				restart = max(restart, time.Since(start))
				time.Sleep(2 * time.Second) // for the standby, and because a service does not fault all the time
			}
			ended.Store(true)
			all.Wait()
			b.ReportMetric(float64(restart), "longest-restart-ns")
			b.ReportMetric(float64(right.Load())/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(float64(g.Stats().Retries), "retries")
		})
	}
}

// BenchmarkFaults are faults on all devices, one after the other on each. It fails if something is left behind.
func BenchmarkFaults(b *testing.B) {
	var before, after uint64
	free := func(bytes *uint64) {
		rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto))
		require.NoError(b, err)
		defer rt.Close()
		if c, err := rt.Context(0); err == nil {
			*bytes, _, err = c.MemInfo()
			require.NoError(b, err)
		}
	}
	free(&before)
	g := onHardware(b, isolate.WithRestarts(1<<30, 1), isolate.WithStandby())
	open := len(descriptors("self"))
	devices := g.Stats().Devices
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	for _, d := range devices {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				_, _, err := g.Do(b.Context(), "fault/v1", nil, isolate.WithDevices(d.Device))
				assert.ErrorIs(b, err, isolate.ErrChildDied)
				_, _, err = g.Do(b.Context(), "echo/v1", nil, isolate.WithDevices(d.Device))
				assert.NoError(b, err)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	deaths := uint64(0)
	for _, d := range g.Stats().Devices {
		deaths += d.Deaths
	}
	assert.GreaterOrEqual(b, deaths, uint64(b.N))
	assert.LessOrEqual(b, len(descriptors("self")), open+5*len(devices), "descriptors; a child has up to five")
	var memory goruntime.MemStats
	goruntime.GC()
	goruntime.ReadMemStats(&memory)
	require.NoError(b, g.Close())
	free(&after)
	b.ReportMetric(float64(deaths), "deaths")
	b.ReportMetric(float64(memory.HeapAlloc)/(1<<20), "heap-MiB")
	b.ReportMetric(float64(before)-float64(after), "device-bytes-lost")
	b.ReportMetric(float64(children(b)), "children-left")
}

// BenchmarkSpin is a kernel that never ends, with a deadline of 100 ms. late-ns is from the deadline to the answer, and gone-ns
// to the end of the child.
func BenchmarkSpin(b *testing.B) {
	g := onHardware(b, isolate.WithRestarts(1<<30, 1), isolate.WithStandby())
	var late, gone time.Duration
	for b.Loop() {
		_, _, err := g.Do(b.Context(), "echo/v1", nil, isolate.WithDevices(0))
		require.NoError(b, err)
		pid := g.Stats().Devices[0].PID
		deadline := time.Now().Add(100 * time.Millisecond)
		ctx, cancel := context.WithDeadline(b.Context(), deadline)
		_, _, err = g.Do(ctx, "spin/v1", nil, isolate.WithDevices(0))
		cancel()
		require.ErrorIs(b, err, driver.ErrTimeout)
		late = max(late, time.Since(deadline))
		for syscall.Kill(pid, 0) == nil {
			time.Sleep(100 * time.Microsecond)
		}
		gone = max(gone, time.Since(deadline))
	}
	b.ReportMetric(float64(late), "longest-late-ns")
	b.ReportMetric(float64(gone), "longest-gone-ns")
}

// children counts the child processes of this one.
func children(t testing.TB) int {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	require.NoError(t, err)
	n := 0
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		n += len(bytes.Fields(text))
	}
	return n
}

// onHardware is a group on the devices of this machine, or without any, on a simulated one.
func onHardware(b *testing.B, options ...isolate.Option) *isolate.Group {
	b.Helper()
	var g *isolate.Group
	if _, err := driver.Open(); err != nil {
		g = open(b, 1, options...)
	} else {
		rt, err := runtime.Open(runtime.WithDriver(hardware.Open(b)))
		require.NoError(b, err)
		b.Cleanup(func() { _ = rt.Close() })
		g, err = isolate.Open(rt, append([]isolate.Option{isolate.WithOutput(lines{b})}, options...)...)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, g.Close()) })
	}
	_, _, err := g.Do(b.Context(), "echo/v1", nil, isolate.WithDevices(0))
	require.NoError(b, err)
	return g
}
