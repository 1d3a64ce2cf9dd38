package pool_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
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
	"Stream": streamed(1),
}

// streamed does n pieces in a stream.
func streamed(n int) func(ctx context.Context, p *pool.Pool, suits func(runtime.Device) bool, f func(*pool.Worker) error, fallback func() error) (pool.Report, error) {
	return func(ctx context.Context, p *pool.Pool, suits func(runtime.Device) bool, f func(*pool.Worker) error, fallback func() error) (report pool.Report, err error) {
		o := pool.StreamOptions[int, int]{Suits: suits, Report: &report}
		if fallback != nil {
			o.Fallback = func(context.Context, int, []byte) (int, error) { return 0, fallback() }
		}
		source := func(yield func(int, error) bool) {
			for i := 0; i < n && yield(i, nil); i++ {
			}
		}
		for _, failed := range pool.Stream(ctx, p, source, func(w *pool.Worker, _ int, _ *runtime.HostBuffer[byte]) (int, error) { return 0, f(w) }, o) {
			err = failed
		}
		return report, err
	}
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

// oneOfTwo are all calls of a pool. Each calls f for its work.
var oneOfTwo = map[string]func(ctx context.Context, p *pool.Pool, f func(*pool.Worker) error) (pool.Report, error){
	"Batcher": func(ctx context.Context, p *pool.Pool, f func(*pool.Worker) error) (pool.Report, error) {
		return batched(ctx, p, func(w *pool.Worker, _ []error) error { return f(w) })
	},
	"Batcher, an item": func(ctx context.Context, p *pool.Pool, f func(*pool.Worker) error) (pool.Report, error) {
		return batched(ctx, p, func(w *pool.Worker, errs []error) error { errs[0] = f(w); return nil })
	},
	"Stream, many pieces": func(ctx context.Context, p *pool.Pool, f func(*pool.Worker) error) (report pool.Report, err error) {
		return streamed(20)(ctx, p, nil, f, nil)
	},
}

func batched(ctx context.Context, p *pool.Pool, f func(w *pool.Worker, errs []error) error) (report pool.Report, err error) {
	b, err := pool.NewBatcher(p, func(w *pool.Worker, in, out []int, errs []error) error { return f(w, errs) }, pool.BatcherConfig[int, int]{})
	if err != nil {
		return report, err
	}
	_, err = b.Do(ctx, 1)
	return report, errors.Join(err, b.Close())
}

// One of two devices can run the kernel, which the other one, of whatever score, cannot load: in its setup, or where it is needed.
// Nothing fails, at no door, and the report of a call names the other one.
func TestOneOfTwoDevicesCanDoIt(t *testing.T) {
	ptx := []byte(".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n")
	doors := maps.Clone(oneOfTwo)
	for name, call := range suitingDoors {
		doors[name] = func(ctx context.Context, p *pool.Pool, f func(*pool.Worker) error) (pool.Report, error) {
			return call(ctx, p, nil, f, func() error { panic("the CPU is not asked") })
		}
	}
	for _, first := range []string{"T4", "H100"} {
		for door, call := range doors {
			for _, where := range []string{"setup", "function"} {
				t.Run(door+" loads in its "+where+" beside the better "+first, func(t *testing.T) {
					gpu := drivertest.ForTest(t, drivertest.Config{Devices: []drivertest.DeviceConfig{drivertest.T4(), drivertest.H100()}})
					rt, err := runtime.Open(runtime.WithDriver(gpu), runtime.WithScore(func(d runtime.Device) float64 {
						if strings.Contains(d.Name, first) {
							return 2
						}
						return 1
					}))
					require.NoError(t, err)
					t.Cleanup(func() { assert.NoError(t, rt.Close()) })
					options := pool.Options{Streams: 2}
					load := func(w *pool.Worker) error { return nil }
					if where == "setup" {
						options.Setup = []pool.Setup{pool.PerDevice(func(c *runtime.Context) (*runtime.Module, error) { return c.LoadModule(runtime.Image{Code: ptx}) })}
					} else {
						load = func(w *pool.Worker) error {
							m, err := w.Context().CachedModule(runtime.Image{Code: ptx})
							if err != nil {
								return fmt.Errorf("in the function: %w", err)
							}
							return m.Close()
						}
					}
					p := openOn(t, rt, options)
					var ran atomic.Int64
					for range 10 {
						report, err := call(t.Context(), p, func(w *pool.Worker) error {
							if err := load(w); err != nil {
								return err
							}
							assert.Equal(t, 1, w.Device().Ordinal)
							ran.Add(1)
							return nil
						})
						require.NoError(t, err)
						for _, d := range report.Skipped {
							assert.Equal(t, 0, d.Ordinal)
							assert.Error(t, d.Err)
						}
						if door == "Scatter" || door == "Map" || door == "Reduce" || door == "Do" && where == "function" && first == "T4" {
							assert.Len(t, report.Skipped, 1)
						}
					}
					assert.Positive(t, ran.Load())
				})
			}
		}
	}
}

// Where no device can do it, the error has that of each, and the fallback does it.
func TestNoDeviceCanDoIt(t *testing.T) {
	for door, call := range suitingDoors {
		t.Run(door, func(t *testing.T) {
			p, _ := open(t, machine(3))
			var tries atomic.Int64
			lacks := func(w *pool.Worker) error {
				tries.Add(1)
				return driver.Errorf(driver.ErrUnsupported, "the kernel needs device %d to have wings", w.Device().Ordinal)
			}
			report, err := call(t.Context(), p, nil, lacks, nil)
			assert.ErrorIs(t, err, driver.ErrUnsupported)
			assert.Len(t, report.Skipped, 3)
			assert.EqualValues(t, 3, tries.Load(), "each device once, and no retry")
			report, err = call(t.Context(), p, nil, lacks, func() error { return nil })
			require.NoError(t, err)
			assert.Equal(t, pool.OnCPU, report.Where)
			for _, d := range p.Stats().Devices {
				assert.False(t, d.Quarantined, "other functions may do well there")
			}
		})
	}
}

// Where the setup says so, all later calls hear why, and for how long. Requests beside each other ask the setup once.
func TestSetupOfAnUnfitDevice(t *testing.T) {
	for door, call := range suitingDoors {
		t.Run(door, func(t *testing.T) {
			var tries atomic.Int64
			p, _ := open(t, machine(1), pool.Options{Streams: 8, Setup: []pool.Setup{pool.PerDevice(func(*runtime.Context) (int, error) {
				tries.Add(1)
				return 0, driver.Errorf(driver.ErrUnsupported, "the kernel needs wings")
			})}})
			f := func(*pool.Worker) error { panic("never runs") }
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					_, err := call(t.Context(), p, nil, f, nil)
					assert.ErrorContains(t, err, "wings")
				})
			}
			all.Wait()
			assert.EqualValues(t, 1, tries.Load())
			_, err := call(t.Context(), p, nil, f, nil)
			assert.ErrorIs(t, err, driver.ErrUnsupported)
			assert.ErrorContains(t, err, "wings")
			if errors.Is(err, pool.ErrQuarantined) {
				assert.ErrorContains(t, err, "until the pool is closed")
			}
			report, err := call(t.Context(), p, nil, f, func() error { return nil })
			require.NoError(t, err)
			assert.Equal(t, pool.OnCPU, report.Where)
			assert.ErrorContains(t, report.Err, "wings")
		})
	}
}

func TestOneIsland(t *testing.T) {
	config := drivertest.Config{}
	for i := range 5 {
		d := drivertest.H100()
		d.Island = []int{1, 2, 2, 1, 2}[i]
		config.Devices = append(config.Devices, d)
	}
	for door, call := range suitingDoors {
		t.Run(door, func(t *testing.T) {
			gpu := drivertest.ForTest(t, config)
			rt, err := runtime.Open(runtime.WithDriver(gpu))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, rt.Close()) })
			p := openOn(t, rt)
			for range 10 {
				report, err := call(t.Context(), p, rt.OneIsland(), func(w *pool.Worker) error {
					assert.Contains(t, []int{1, 2, 4}, w.Device().Ordinal)
					return nil
				}, nil)
				require.NoError(t, err)
				assert.Equal(t, []int{0, 3}, ordinalsOf(report.Skipped))
			}
		})
	}
}

// Each call says in the same way which devices it takes.
func TestAllCallsChooseDevices(t *testing.T) {
	for _, options := range []any{pool.Options{}, pool.DoOptions{}, pool.ScatterOptions{}, pool.MapOptions[int, int]{}, pool.ReduceOptions[int]{},
		pool.StreamOptions[int, int]{}, pool.BatcherConfig[int, int]{}} {
		for field, of := range map[string]any{"Devices": []int{}, "Suits": isHopper} {
			f, ok := reflect.TypeOf(options).FieldByName(field)
			if assert.True(t, ok, "%T has no %s", options, field) {
				assert.Equal(t, reflect.TypeOf(of), f.Type, "%T.%s", options, field)
			}
		}
	}
	p, _ := open(t, mixed())
	var report pool.Report
	for _, err := range pool.Stream(t.Context(), p, func(yield func(int, error) bool) { _ = yield(1, nil) && yield(2, nil) }, func(w *pool.Worker, i int, _ *runtime.HostBuffer[byte]) (int, error) {
		assert.Equal(t, 2, w.Device().Ordinal)
		return i, nil
	}, pool.StreamOptions[int, int]{Devices: []int{2}, Report: &report}) {
		assert.NoError(t, err)
	}
	for _, err := range pool.Stream(t.Context(), p, func(yield func(int, error) bool) { yield(1, nil) }, func(*pool.Worker, int, *runtime.HostBuffer[byte]) (int, error) { panic("never") },
		pool.StreamOptions[int, int]{Devices: []int{9}}) {
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	}
}
