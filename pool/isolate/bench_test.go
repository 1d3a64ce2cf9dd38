//go:build linux && (amd64 || arm64)

package isolate_test

import (
	"testing"
	"time"

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
		p, err := pool.Open(rt, pool.WithDevices(0))
		require.NoError(b, err)
		defer p.Close()
		for b.Loop() {
			_, err := pool.Do(b.Context(), p, func(w *pool.Worker) error { return w.Stream().Synchronize(w.Ctx()) })
			require.NoError(b, err)
		}
	})
}

// BenchmarkAdd is 256 MiB that go to the device and back: through a shared buffer, and in this process through page-locked
// memory of the driver.
func BenchmarkAdd(b *testing.B) {
	const bytes = 256 << 20
	b.Run("pool", func(b *testing.B) {
		rt, err := runtime.Open(runtime.WithDriver(hardware.Open(b)))
		require.NoError(b, err)
		defer rt.Close()
		p, err := pool.Open(rt, pool.WithDevices(0))
		require.NoError(b, err)
		defer p.Close()
		c, err := rt.Context(0)
		require.NoError(b, err)
		host, err := runtime.AllocHost[uint32](c, bytes/4)
		require.NoError(b, err)
		defer host.Close()
		b.SetBytes(2 * bytes)
		for b.Loop() {
			_, err := pool.Do(b.Context(), p, func(w *pool.Worker) error { return addTo(w, host, 1) })
			require.NoError(b, err)
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
	for b.Loop() {
		_, _, err := g.Do(b.Context(), "add/v1", []byte{1, 0, 0, 0}, isolate.WithBuffers(buffer), isolate.WithDevices(0))
		require.NoError(b, err)
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
