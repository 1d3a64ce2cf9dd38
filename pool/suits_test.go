package pool_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// mixed is a machine with devices that can do different things.
func mixed() drivertest.Config {
	return drivertest.Config{Devices: []drivertest.DeviceConfig{drivertest.T4(), drivertest.H100(), drivertest.T4(), drivertest.H100()}}
}

func isHopper(d runtime.Device) bool { return d.Capability.Arch() >= 90 }

func never(runtime.Device) bool { return false }

// suitingDoors are the calls with Suits. Each calls f for its work, or the fallback.
var suitingDoors = map[string]func(ctx context.Context, p *pool.Pool, suits func(runtime.Device) bool, f func(*pool.Worker) error, fallback func() error) (pool.Report, error){
	"Do": func(ctx context.Context, p *pool.Pool, suits func(runtime.Device) bool, f func(*pool.Worker) error, fallback func() error) (pool.Report, error) {
		o := pool.DoOptions{Suits: suits}
		if fallback != nil {
			o.Fallback = func(context.Context) error { return fallback() }
		}
		return p.Do(ctx, f, o)
	},
	"Scatter": func(ctx context.Context, p *pool.Pool, suits func(runtime.Device) bool, f func(*pool.Worker) error, fallback func() error) (pool.Report, error) {
		o := pool.ScatterOptions{Suits: suits, MinPerDevice: 1}
		if fallback != nil {
			o.Fallback = func(context.Context, int, int) error { return fallback() }
		}
		return p.Scatter(ctx, 1000, func(w *pool.Worker, _ pool.Tile) error { return f(w) }, o)
	},
	"Map": func(ctx context.Context, p *pool.Pool, suits func(runtime.Device) bool, f func(*pool.Worker) error, fallback func() error) (pool.Report, error) {
		o := pool.MapOptions[int, int]{Suits: suits, MinPerDevice: 1}
		if fallback != nil {
			o.Fallback = func(context.Context, []int, []int) error { return fallback() }
		}
		return pool.Map(ctx, p, make([]int, 1000), make([]int, 1000), func(w *pool.Worker, _, _ []int) error { return f(w) }, o)
	},
	"Reduce": func(ctx context.Context, p *pool.Pool, suits func(runtime.Device) bool, f func(*pool.Worker) error, fallback func() error) (pool.Report, error) {
		o := pool.ReduceOptions[int]{Suits: suits, MinPerDevice: 1}
		if fallback != nil {
			o.Fallback = func(context.Context, int, int, []int) error { return fallback() }
		}
		_, report, err := pool.Reduce(ctx, p, 1000, 1, func(w *pool.Worker, _, _ int, _ []int) error { return f(w) }, func(a, b int) int { return a + b }, o)
		return report, err
	},
}

func ordinalsOf(devices []runtime.Device) (ordinals []int) {
	for _, d := range devices {
		ordinals = append(ordinals, d.Ordinal)
	}
	return ordinals
}

func TestOnlyDevicesThatSuit(t *testing.T) {
	for door, call := range suitingDoors {
		t.Run(door, func(t *testing.T) {
			p, gpu := open(t, mixed())
			for range 20 {
				report, err := call(t.Context(), p, isHopper, func(w *pool.Worker) error {
					assert.Contains(t, []int{1, 3}, w.Device().Ordinal)
					return nil
				}, nil)
				require.NoError(t, err)
				assert.Equal(t, pool.OnGPU, report.Where)
				assert.Equal(t, []int{0, 2}, ordinalsOf(report.Skipped), "the report names the others")
				assert.ErrorIs(t, report.Skipped[0].Err, driver.ErrUnsupported)
			}
			assert.LessOrEqual(t, gpu.Calls("cuDevicePrimaryCtxRetain"), 2, "the others stay closed")
		})
	}
}

func TestNoDeviceSuits(t *testing.T) {
	for door, call := range suitingDoors {
		t.Run(door, func(t *testing.T) {
			p, _ := open(t, mixed())
			f := func(*pool.Worker) error { panic("never runs") }
			report, err := call(t.Context(), p, never, f, nil)
			assert.ErrorIs(t, err, driver.ErrUnsupported)
			assert.Equal(t, pool.Unsuited, report.Reason)
			report, err = call(t.Context(), p, never, f, func() error { return nil })
			require.NoError(t, err)
			assert.Equal(t, pool.OnCPU, report.Where)
			assert.Equal(t, pool.Unsuited, report.Reason)
			assert.ErrorIs(t, report.Err, driver.ErrUnsupported)
			assert.Len(t, report.Skipped, 4)
			_, err = call(t.Context(), p, func(runtime.Device) bool { panic(errData) }, f, nil)
			assert.ErrorIs(t, err, errData)
		})
	}
	on := drivertest.ForTest(t, mixed())
	rt, err := runtime.Open(runtime.WithDriver(on))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	_, err = pool.Open(rt, pool.Options{Suits: never})
	assert.ErrorIs(t, err, driver.ErrUnsupported)
	p := openOn(t, rt, pool.Options{Suits: isHopper})
	assert.Equal(t, []int{1, 3}, ordinalsOf(p.Devices()))
	_, err = p.Do(t.Context(), func(*pool.Worker) error { return nil }, pool.DoOptions{Devices: []int{0}})
	assert.ErrorIs(t, err, driver.ErrInvalidArgument, "the pool does not have it")
}

// A device on which no image of the kernels runs is asked once. Nothing fails that another device can do.
func TestADeviceThatCannotRunTheKernel(t *testing.T) {
	ptx := []byte(".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n")
	for name, lacks := range map[string]func(c *runtime.Context) (*runtime.Module, error){
		"image": func(c *runtime.Context) (*runtime.Module, error) { return c.LoadModule(runtime.Image{Code: ptx}) },
		"feature": func(c *runtime.Context) (*runtime.Module, error) {
			if c.Device().Capability.Arch() < 90 {
				return nil, driver.Errorf(driver.ErrUnsupported, "the kernel needs TMA")
			}
			return c.LoadModule(runtime.Image{Code: ptx})
		},
	} {
		for door, call := range suitingDoors {
			t.Run(name+"/"+door, func(t *testing.T) {
				var tries [4]atomic.Int64
				p, _ := open(t, mixed(), pool.Options{Streams: 2, Setup: []pool.Setup{pool.PerDevice(func(c *runtime.Context) (*runtime.Module, error) {
					tries[c.Device().Ordinal].Add(1)
					return lacks(c)
				})}})
				for i := range 30 {
					report, err := call(t.Context(), p, nil, func(w *pool.Worker) error {
						assert.Contains(t, []int{1, 3}, w.Device().Ordinal)
						return nil
					}, nil)
					require.NoError(t, err)
					if door != "Do" {
						assert.ElementsMatch(t, []int{0, 2}, ordinalsOf(report.Skipped), i)
					}
				}
				for ordinal, n := range []int64{1, 1, 1, 1} {
					assert.LessOrEqual(t, tries[ordinal].Load(), n, "device %d", ordinal)
				}
				if door != "Do" {
					for _, d := range p.Stats().Devices[2:] { // those with the lowest scores
						assert.True(t, d.Quarantined, "%+v", d)
						assert.Zero(t, d.NextProbe)
					}
				}
			})
		}
	}
}

func TestEqualDevicesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(4))
		require.NoError(t, p.Prepare(t.Context()))
		var by [4]int
		for i := range 40 {
			_, err := p.Do(t.Context(), func(w *pool.Worker) error {
				by[w.Index()]++
				time.Sleep(time.Duration(95+i%10) * time.Microsecond) // is measured a little different
				return nil
			})
			require.NoError(t, err)
		}
		assert.Equal(t, [4]int{10, 10, 10, 10}, by)
	})
}

// A request does not open the context of a device while one that is ready is idle.
func TestOneRequestAtATimeOpensOneDevice(t *testing.T) {
	p, gpu := open(t, machine(4))
	for range 20 {
		_, err := p.Do(t.Context(), func(*pool.Worker) error { return nil })
		require.NoError(t, err)
	}
	assert.Equal(t, 1, gpu.Calls("cuDevicePrimaryCtxRetain"))
}
