package pool_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// onHardware runs f with a pool on one device of the machine, on two, four and so on.
func onHardware(b *testing.B, f func(b *testing.B, devices int, p *pool.Pool), options pool.Options) {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(hardware.Open(b)))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, rt.Close()) })
	var ordinals []int
	for _, d := range rt.Devices() {
		if d.Err == nil {
			ordinals = append(ordinals, d.Ordinal)
		}
	}
	for n := 1; n <= len(ordinals); n *= 2 {
		b.Run(fmt.Sprintf("devices=%d/impl=runtime", n), func(b *testing.B) {
			options.Devices = ordinals[:n]
			f(b, n, openOn(b, rt, options))
		})
	}
}

// BenchmarkHardwareScatter is a call with one item for each device: by itself, with a wait
// for the stream, and with a launch and a wait.
func BenchmarkHardwareScatter(b *testing.B) {
	ctx := context.Background()
	empty := pool.PerDevice(func(c *runtime.Context) (*runtime.Kernel, error) {
		m, err := c.LoadModule(runtime.Image{Code: hardware.EmptyKernels})
		if err != nil {
			return nil, err
		}
		return m.Kernel("empty")
	})
	shape := runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 32}}
	for _, c := range []struct {
		name string
		f    func(*pool.Worker) error
	}{
		{"nothing", func(*pool.Worker) error { return nil }},
		{"wait", func(w *pool.Worker) error { return w.Stream().Synchronize(ctx) }},
		{"launch", func(w *pool.Worker) error {
			if err := empty.Of(w).Launch(w.Stream(), shape); err != nil {
				return err
			}
			return w.Stream().Synchronize(ctx)
		}},
	} {
		b.Run("do="+c.name, func(b *testing.B) {
			onHardware(b, func(b *testing.B, devices int, p *pool.Pool) {
				call := func() {
					_, err := p.Scatter(ctx, devices, func(w *pool.Worker, _ pool.Tile) error { return c.f(w) }, pool.ScatterOptions{MinPerDevice: 1})
					require.NoError(b, err)
				}
				call() // opens the contexts
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					call()
				}
			}, pool.Options{Setup: []pool.Setup{empty}})
		})
	}
}

// uploadBytes is how much each device gets.
const uploadBytes = 256 << 20

// BenchmarkHardwareUploadAll copies Go memory, which is not page-locked, to all devices at
// the same time: 256 MiB to each, as whole tiles.
func BenchmarkHardwareUploadAll(b *testing.B) {
	ctx := context.Background()
	onHardware(b, func(b *testing.B, devices int, p *pool.Pool) {
		data := make([]byte, devices*uploadBytes)
		for i := range data { // no page is touched first while it is timed
			data[i] = byte(i)
		}
		call := func() {
			_, err := p.Scatter(ctx, len(data), func(w *pool.Worker, t pool.Tile) error {
				x, err := runtime.Alloc[byte](w.Stream(), t.Len())
				if err != nil {
					return err
				}
				defer x.Close()
				if err := runtime.Upload(ctx, w.Stream(), x, data[t.Lo:t.Hi]); err != nil {
					return err
				}
				return w.Stream().Synchronize(ctx)
			}, pool.ScatterOptions{Chunk: len(data), MinPerDevice: 1})
			require.NoError(b, err)
		}
		call()
		b.SetBytes(int64(len(data)))
		b.ResetTimer()
		for range b.N {
			call()
		}
	}, pool.Options{})
}
