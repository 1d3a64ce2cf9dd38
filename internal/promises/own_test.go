package promises_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/internal/promises/sample"
	"github.com/purecuda/purecuda/internal/race"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// The tests of promises that are like no other, by door.

type cells = map[string]func(t *testing.T)

// shape has a block for each n threads.
func shape(n int) runtime.Shape { return runtime.Shape1D(n, 32) }

// pick has n items. With a bad index each item fails, and says which one it was.
func pick(n int, bad int32) (at []int32, in, out, too []float32) {
	at, in, out, too = make([]int32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range n {
		at[i], in[i] = int32(n-1-i), float32(i)
		if bad != 0 {
			at[i] = bad
		}
	}
	return at, in, out, too
}

// picked checks the result of pick.
func picked(t *testing.T, bad int32, out, too []float32, err error) {
	t.Helper()
	if bad == 0 {
		if assert.NoError(t, err) {
			for i := range out {
				assert.Equal(t, float32(len(out)-1-i), out[i])
			}
			assert.Equal(t, out, too)
		}
		return
	}
	if assert.Error(t, err) {
		assert.Contains(t, err.Error(), fmt.Sprintf("[%d]", bad), "the check of another request")
	}
}

// manyPicks does requests at the same time. Each second one has a bad index of its own.
func manyPicks(t *testing.T, do func(bad int32) (out, too []float32, err error)) {
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for range 4 {
				bad := int32(i%2) * int32(1000+i)
				out, too, err := do(bad)
				picked(t, bad, out, too, err)
			}
		})
	}
	all.Wait()
}

// launched loads the kernels, and gives a stream and slices on the device to a function.
func launched(t *testing.T, f func(c *runtime.Context, s *runtime.Stream, k *sample.Kernels)) {
	rt, _ := machine(t)
	c, err := rt.Context(0)
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	k, err := sample.Load(c)
	require.NoError(t, err)
	defer func() { assert.NoError(t, k.Close()) }()
	f(c, s, k)
}

// pickOn launches pick on a stream, and downloads the result.
func pickOn(ctx context.Context, s *runtime.Stream, k *sample.Kernels, bad int32) (out, too []float32, err error) {
	at, in, _, _ := pick(32, bad)
	var scope runtime.Scope
	defer scope.Close()
	dAt := runtime.Keep(runtime.UploadNew(ctx, s, at))(&scope)
	dIn := runtime.Keep(runtime.UploadNew(ctx, s, in))(&scope)
	dOut := runtime.Keep(runtime.Alloc[float32](s, 32))(&scope)
	dToo := runtime.Keep(runtime.Alloc[float32](s, 32))(&scope)
	if err := scope.Err(); err != nil {
		return nil, nil, err
	}
	if err := k.Pick(s, shape(32), dAt, dIn, dOut, dToo); err != nil {
		return nil, nil, err
	}
	if err := s.Synchronize(ctx); err != nil {
		return nil, nil, err
	}
	if out, err = runtime.DownloadNew(ctx, s, dOut); err != nil {
		return nil, nil, err
	}
	too, err = runtime.DownloadNew(ctx, s, dToo)
	return out, too, err
}

var launchCells = cells{
	"ctx": func(t *testing.T) {
		launched(t, func(c *runtime.Context, s *runtime.Stream, k *sample.Kernels) {
			waitsFor(t, s)
		})
	},
	"own-error": func(t *testing.T) {
		launched(t, func(c *runtime.Context, _ *runtime.Stream, k *sample.Kernels) {
			manyPicks(t, func(bad int32) (out, too []float32, err error) {
				s, err := c.NewStream()
				if err != nil {
					return nil, nil, err
				}
				defer s.Close()
				return pickOn(t.Context(), s, k, bad)
			})
		})
	},
	"empty": func(t *testing.T) {
		launched(t, func(c *runtime.Context, s *runtime.Stream, k *sample.Kernels) {
			none, err := runtime.Alloc[float32](s, 0)
			require.NoError(t, err)
			defer none.Close()
			assert.NoError(t, k.Double(s, shape(0), none, none))
			assert.NoError(t, k.Double(s, shape(1), none, none))
			assert.Error(t, k.Double(s, shape(1), nil, nil))
			assert.NoError(t, s.Synchronize(t.Context()))
		})
	},
	"huge": func(t *testing.T) {
		launched(t, func(c *runtime.Context, s *runtime.Stream, k *sample.Kernels) {
			_, err := runtime.Alloc[float32](s, math.MaxInt)
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
			_, err = runtime.Alloc[float32](s, math.MaxInt>>23)
			assert.ErrorIs(t, err, driver.ErrOutOfMemory)
			x, err := runtime.Alloc[float32](s, 1)
			require.NoError(t, err)
			defer x.Close()
			y, err := runtime.Alloc[float32](s, 1)
			require.NoError(t, err)
			defer y.Close()
			assert.ErrorIs(t, k.Double(s, runtime.Shape1D(math.MaxInt, 1), x, y), driver.ErrInvalidArgument)
			assert.ErrorIs(t, k.Double(s, runtime.Shape1D(1, 4096), x, y), driver.ErrInvalidArgument)
		})
	},
	"overlap": func(t *testing.T) {
		launched(t, func(c *runtime.Context, s *runtime.Stream, k *sample.Kernels) {
			x, err := runtime.UploadNew(t.Context(), s, []float32{1, 2, 3, 4})
			require.NoError(t, err)
			defer x.Close()
			assert.ErrorContains(t, k.Double(s, shape(3), x.Slice(0, 3), x.Slice(1, 4)), "overlap")
			assert.NoError(t, k.Double(s, shape(2), x.Slice(0, 2), x.Slice(2, 4)))
			got, err := runtime.DownloadNew(t.Context(), s, x)
			require.NoError(t, err)
			assert.Equal(t, []float32{1, 2, 2, 4}, got)
		})
	},
	"leak": func(t *testing.T) {
		sim := simulate(1)
		rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(sim))
		require.NoError(t, err)
		c, err := rt.Context(0)
		require.NoError(t, err)
		_, err = sample.Load(c)
		require.NoError(t, err)
		leaks := sim.Leaks()
		var modules int
		for _, l := range leaks {
			if len(l) > 6 && l[:6] == "module" {
				modules++
				assert.Contains(t, l, "own_test.go:")
			}
		}
		assert.Equal(t, 1, modules, "%q", leaks)
		_ = rt.Close()
		_ = sim.Close()
	},
}

// waitsFor holds a stream up, and ends the ctx of all that wait for it.
func waitsFor(t *testing.T, s *runtime.Stream) {
	release := make(chan struct{})
	x, err := runtime.Alloc[byte](s, 1<<20)
	require.NoError(t, err)
	defer x.Close()
	require.NoError(t, s.LaunchHostFunc(func() { <-release }))
	defer func() {
		close(release)
		assert.NoError(t, s.Synchronize(t.Context()))
	}()
	mine := errors.New("the caller has left")
	host := make([]byte, 1<<20)
	for name, wait := range map[string]func(ctx context.Context) error{
		"Synchronize": s.Synchronize,
		"Download":    func(ctx context.Context) error { return runtime.Download(ctx, s, host, x) },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- wait(ctx) }()
		cancel(mine)
		assert.ErrorIs(t, await(t, name, done), mine, name)
	}
}

// A kernel on the CPU panics: that is the error.
func kernelPanics(t *testing.T, run func(kernel func()) error) {
	mine := errors.New("mine")
	assert.ErrorContains(t, run(func() { panic(mine) }), "mine")
	assert.NotPanics(t, func() { assert.Error(t, run(func() { panic((*bad)(nil)) })) })
	assert.NoError(t, run(func() {}))
}

func runKernel(kernel func()) error {
	return gpu.Run(gpu.Shape1D(1, 1), func(*gpu.Thread) { kernel() })
}

var runCells = cells{
	"bound": func(t *testing.T) {
		if race.Enabled {
			t.Skip("with -race each thread of a kernel is a goroutine, so that races are seen")
		}
		var running, most atomic.Int64
		require.NoError(t, gpu.Run(gpu.Shape1D(1000, 1), func(*gpu.Thread) {
			most.Store(max(most.Load(), running.Add(1)))
			goruntime.Gosched()
			running.Add(-1)
		}))
		assert.LessOrEqual(t, most.Load(), int64(goruntime.GOMAXPROCS(0)))
	},
	"own-error": func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				err := runKernel(func() {
					if i%2 == 1 {
						panic(fmt.Sprintf("of request %d.", i))
					}
				})
				if i%2 == 0 {
					assert.NoError(t, err)
				} else {
					assert.ErrorContains(t, err, fmt.Sprintf("of request %d.", i))
				}
			})
		}
		all.Wait()
	},
	"panic": func(t *testing.T) { kernelPanics(t, runKernel) },
	"empty": func(t *testing.T) {
		ran := false
		assert.NoError(t, gpu.Run(gpu.Shape1D(0, 32), func(*gpu.Thread) { ran = true }))
		assert.False(t, ran)
		assert.Error(t, gpu.Run(gpu.Shape1D(1, 1), nil))
	},
	"huge": func(t *testing.T) {
		for _, s := range []gpu.Shape{gpu.Shape1D(1, math.MaxInt-1), gpu.Shape1D(math.MaxInt, 1), {Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: 1}, SharedBytes: math.MaxInt}} {
			assert.Error(t, gpu.Run(s, func(*gpu.Thread) { panic("it began") }), "%v", s)
		}
	},
}

func pickCPU(bad int32) (out, too []float32, err error) {
	at, in, out, too := pick(32, bad)
	err = sample.PickCPU(shape(32), at, in, out, too)
	return out, too, err
}

var cpuKernelCells = cells{
	"bound":     runCells["bound"], // the generated function calls gpu.Run
	"own-error": func(t *testing.T) { manyPicks(t, pickCPU) },
	"panic": func(t *testing.T) {
		_, _, err := pickCPU(1000)
		assert.ErrorContains(t, err, "[1000]")
		out, too, err := pickCPU(0)
		picked(t, 0, out, too, err)
	},
	"goexit": func(t *testing.T) {
		kernel := func(*gpu.Thread) { goruntime.Goexit() }
		assert.Error(t, launch.CPU(shape(1), kernel, nil))
		assert.Error(t, launch.CPU(shape(1), kernel, func(*gpu.Block) { goruntime.Goexit() }))
	},
	"empty": func(t *testing.T) {
		assert.NoError(t, sample.DoubleCPU(shape(0), nil, nil))
		assert.NoError(t, sample.DoubleCPU(shape(1), nil, nil))
	},
	"huge": func(t *testing.T) {
		x, y := []float32{1}, []float32{0}
		assert.Error(t, sample.DoubleCPU(runtime.Shape1D(math.MaxInt, 1), x, y))
		assert.Error(t, sample.DoubleCPU(runtime.Shape1D(1, 4096), x, y))
	},
	"overlap": func(t *testing.T) {
		x := []float32{1, 2, 3, 4}
		assert.ErrorContains(t, sample.DoubleCPU(shape(3), x[:3], x[1:]), "overlap")
		assert.NoError(t, sample.DoubleCPU(shape(2), x[:2], x[2:]))
		assert.Equal(t, []float32{1, 2, 2, 4}, x)
	},
}

// onBoth runs a test of XAuto on a device and on the CPU.
func onBoth(f func(t *testing.T, rt *runtime.Runtime)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Run("gpu", func(t *testing.T) { rt, _ := machine(t); f(t, rt) })
		t.Run("cpu", func(t *testing.T) { f(t, without(t)) })
	}
}

var autoCells = cells{
	"ctx": onBoth(func(t *testing.T, rt *runtime.Runtime) {
		mine := errors.New("the caller has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(mine)
		x, y := []float32{1, 2}, []float32{0, 0}
		_, err := sample.DoubleAuto(ctx, rt, shape(2), x, y)
		assert.ErrorIs(t, err, mine)
		assert.Equal(t, []float32{0, 0}, y, "all outputs change, or none")
	}),
	"own-error": onBoth(func(t *testing.T, rt *runtime.Runtime) {
		manyPicks(t, func(bad int32) (out, too []float32, err error) {
			at, in, out, too := pick(32, bad)
			_, err = sample.PickAuto(t.Context(), rt, shape(32), at, in, out, too)
			return out, too, err
		})
	}),
	"empty": onBoth(func(t *testing.T, rt *runtime.Runtime) {
		_, err := sample.DoubleAuto(t.Context(), rt, shape(1), nil, nil)
		assert.NoError(t, err)
	}),
	"huge": onBoth(func(t *testing.T, rt *runtime.Runtime) {
		x, y := []float32{1}, []float32{0}
		_, err := sample.DoubleAuto(t.Context(), rt, runtime.Shape1D(math.MaxInt, 1), x, y)
		assert.Error(t, err)
		_, err = sample.DoubleAuto(t.Context(), rt, runtime.Shape1D(1, 4096), x, y)
		assert.Error(t, err)
		assert.Equal(t, []float32{0}, y)
	}),
	"overlap": onBoth(func(t *testing.T, rt *runtime.Runtime) {
		x := []float32{1, 2, 3, 4}
		_, err := sample.DoubleAuto(t.Context(), rt, shape(3), x[:3], x[1:])
		assert.ErrorContains(t, err, "overlap")
		assert.Equal(t, []float32{1, 2, 3, 4}, x)

		// Pick has no noalias: a device copies its slices apart, and so the CPU may not take them together.
		for name, of := range map[string]func(in, out, too []float32) (in2, out2, too2 []float32){
			"a part of the input and an output": func(in, out, too []float32) ([]float32, []float32, []float32) { return in, in[1:], too },
			"the input and an output":           func(in, out, too []float32) ([]float32, []float32, []float32) { return in, in, too },
			"a part of two outputs":             func(in, out, too []float32) ([]float32, []float32, []float32) { return in, out, out[1:] },
			"two outputs":                       func(in, out, too []float32) ([]float32, []float32, []float32) { return in, out, out },
		} {
			at, in, out, too := pick(32, 0)
			x, y, z := of(in, out, too)
			place, err := sample.PickAuto(t.Context(), rt, shape(32), at, x, y, z)
			assert.ErrorContains(t, err, "overlap", name)
			assert.Zero(t, place, name)
			_, want, zeros, _ := pick(32, 0)
			assert.Equal(t, want, in, name)
			assert.Equal(t, zeros, out, name)
		}
		at, in, out, too := pick(32, 0)
		_, err = sample.PickAuto(t.Context(), rt, shape(32), at, in, out[3:3], out)
		assert.NoError(t, err, "nothing shares no memory")
		_, err = sample.PickAuto(t.Context(), rt, shape(32), at, in, out, too)
		picked(t, 0, out, too, err)
	}),
}

// none counts calls that must not happen.
func none(t *testing.T) (calls func()) {
	return func() { assert.Fail(t, "a function was called for nothing") }
}

// pooled runs a test on a pool of two devices, and on one without.
func pooled(f func(t *testing.T, p *pool.Pool)) func(t *testing.T) {
	return func(t *testing.T) {
		for name, open := range map[string]func(t *testing.T) *runtime.Runtime{
			"gpu": func(t *testing.T) *runtime.Runtime {
				rt, _ := onDriver(t, config(2))
				return rt
			},
			"cpu": without,
		} {
			t.Run(name, func(t *testing.T) {
				p, err := pool.Open(open(t))
				require.NoError(t, err)
				defer func() { assert.NoError(t, p.Close()) }()
				f(t, p)
			})
		}
	}
}

var scatterCells = cells{
	"empty": pooled(func(t *testing.T, p *pool.Pool) {
		called := none(t)
		_, err := p.Scatter(t.Context(), 0, func(*pool.Worker, pool.Tile) error { called(); return nil },
			pool.ScatterOptions{Fallback: func(context.Context, int, int) error { called(); return nil }})
		assert.NoError(t, err)
	}),
	"huge": pooled(func(t *testing.T, p *pool.Pool) {
		_, err := p.Scatter(t.Context(), math.MaxInt, func(_ *pool.Worker, tile pool.Tile) error {
			assert.True(t, 0 <= tile.Lo && tile.Lo < tile.Hi)
			return nil
		}, pool.ScatterOptions{Fallback: func(_ context.Context, lo, hi int) error { assert.True(t, 0 <= lo && lo < hi); return nil }})
		assert.NoError(t, err)
		_, err = p.Scatter(t.Context(), -1, func(*pool.Worker, pool.Tile) error { return nil })
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	}),
}

var streamCells = cells{
	"empty": pooled(func(t *testing.T, p *pool.Pool) {
		called := none(t)
		o := pool.StreamOptions[int, int]{BufferBytes: 1, Read: func(context.Context, int, []byte) (int, error) { called(); return 0, nil },
			Fallback: func(context.Context, int, []byte) (int, error) { called(); return 0, nil }}
		for range pool.Stream(t.Context(), p, func(func(int, error) bool) {}, func(*pool.Worker, int, *runtime.HostBuffer[byte]) (int, error) { called(); return 0, nil }, o) {
			called()
		}
	}),
	"huge": pooled(func(t *testing.T, p *pool.Pool) {
		o := pool.StreamOptions[int, int]{BufferBytes: math.MaxInt, Read: func(context.Context, int, []byte) (int, error) { return 0, nil },
			Fallback: func(context.Context, int, []byte) (int, error) { return 0, nil }}
		for _, err := range pool.Stream(t.Context(), p, oneOf(1), func(*pool.Worker, int, *runtime.HostBuffer[byte]) (int, error) { return 0, nil }, o) {
			assert.ErrorContains(t, err, fmt.Sprint(math.MaxInt))
		}
	}),
}

var mapCells = cells{
	"empty": pooled(func(t *testing.T, p *pool.Pool) {
		called := none(t)
		_, err := pool.Map(t.Context(), p, nil, nil, func(*pool.Worker, []int, []int) error { called(); return nil },
			pool.MapOptions[int, int]{Fallback: func(context.Context, []int, []int) error { called(); return nil }})
		assert.NoError(t, err)
	}),
	"huge": pooled(func(t *testing.T, p *pool.Pool) { // elements without a size: there can be as many as an int can count
		n := make([]struct{}, math.MaxInt)
		_, err := pool.Map(t.Context(), p, n, n, func(*pool.Worker, []struct{}, []struct{}) error { return nil },
			pool.MapOptions[struct{}, struct{}]{Fallback: func(context.Context, []struct{}, []struct{}) error { return nil }})
		assert.NoError(t, err)
		_, err = pool.Map(t.Context(), p, n, make([]int, 1), func(*pool.Worker, []struct{}, []int) error { return nil })
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	}),
	"overlap": pooled(func(t *testing.T, p *pool.Pool) {
		for _, shift := range []int{0, 1, 7} {
			memory, want := make([]int, 1000+shift), make([]int, 1000)
			for i := range want {
				memory[i], want[i] = i, 2*i
			}
			double := func(in, out []int) error {
				for i := range in {
					out[i] = 2 * in[i]
				}
				return nil
			}
			_, err := pool.Map(t.Context(), p, memory[:1000], memory[shift:], func(_ *pool.Worker, in, out []int) error { return double(in, out) },
				pool.MapOptions[int, int]{Fallback: func(_ context.Context, in, out []int) error { return double(in, out) }})
			require.NoError(t, err)
			assert.Equal(t, want, memory[shift:])
		}
	}),
}

func add(a, b int) int { return a + b }

func nothingOf(*pool.Worker, int, int, []int) error { return nil }

var reduceCells = cells{
	"empty": pooled(func(t *testing.T, p *pool.Pool) {
		called := none(t)
		got, _, err := pool.Reduce(t.Context(), p, 0, 8, func(*pool.Worker, int, int, []int) error { called(); return nil },
			func(int, int) int { called(); return 0 }, pool.ReduceOptions[int]{Fallback: func(context.Context, int, int, []int) error { called(); return nil }})
		assert.NoError(t, err)
		assert.Zero(t, got)
	}),
	"huge": pooled(func(t *testing.T, p *pool.Pool) {
		fallback := pool.ReduceOptions[int]{Fallback: func(context.Context, int, int, []int) error { return nil }}
		_, _, err := pool.Reduce(t.Context(), p, math.MaxInt, math.MaxInt/2+1, nothingOf, add, fallback)
		assert.NoError(t, err)
		assert.NotPanics(t, func() {
			_, _, err := pool.Reduce(t.Context(), p, math.MaxInt, 1, nothingOf, add, fallback)
			assert.ErrorIs(t, err, driver.ErrInvalidArgument, "there is no room for so many results")
		})
		_, _, err = pool.Reduce(t.Context(), p, -1, 1, nothingOf, add, fallback)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	}),
}

var batcherCells = cells{
	"empty": pooled(func(t *testing.T, p *pool.Pool) {
		b := batcher(t, p)
		out, errs := b.DoAll(t.Context(), nil)
		assert.Empty(t, out)
		assert.Empty(t, errs)
	}),
	"huge": pooled(func(t *testing.T, p *pool.Pool) {
		b := batcher(t, p)
		_, errs := b.DoAll(t.Context(), make([]int, 1000))
		for _, err := range errs {
			require.ErrorIs(t, err, driver.ErrInvalidArgument)
		}
		_, err := b.Do(t.Context(), 1000)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, "the bytes of an item")
		got, err := b.Do(t.Context(), 7)
		assert.NoError(t, err)
		assert.Equal(t, 7, got)
	}),
}

// batcher has a queue of 100 items, and an item has its value as its size, of 100 bytes at most.
func batcher(t *testing.T, p *pool.Pool) *pool.Batcher[int, int] {
	b, err := pool.NewBatcher(p, func(_ *pool.Worker, in, out []int, _ []error) error { copy(out, in); return nil },
		pool.BatcherConfig[int, int]{Queue: 100, MaxBytes: 100, Bytes: func(in int) int { return in },
			Fallback: func(_ context.Context, in, out []int, _ []error) error { copy(out, in); return nil }})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	return b
}

var cpuCells = cells{
	"bound": func(t *testing.T) {
		var running, most atomic.Int64
		_, err := pool.Parallel(t.Context(), 1000, func(context.Context, int, int) error {
			most.Store(max(most.Load(), running.Add(1)))
			goruntime.Gosched()
			running.Add(-1)
			return nil
		}, pool.ParallelOptions{Chunk: 1})
		require.NoError(t, err)
		assert.LessOrEqual(t, most.Load(), int64(goruntime.GOMAXPROCS(0)))
	},
	"empty": func(t *testing.T) {
		called := none(t)
		_, err := pool.Parallel(t.Context(), 0, func(context.Context, int, int) error { called(); return nil })
		assert.NoError(t, err)
	},
	"huge": func(t *testing.T) {
		_, err := pool.Parallel(t.Context(), math.MaxInt, func(_ context.Context, lo, hi int) error { assert.True(t, 0 <= lo && lo < hi); return nil })
		assert.NoError(t, err)
		_, err = pool.Parallel(t.Context(), -1, func(context.Context, int, int) error { return nil })
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	},
}

// reducers runs a test on a Reducer on a device, and on one without.
func reducers(f func(t *testing.T, r *kernels.Reducer)) func(t *testing.T) {
	return onBoth(func(t *testing.T, rt *runtime.Runtime) {
		r, err := kernels.OpenReducer(rt)
		require.NoError(t, err)
		defer func() { assert.NoError(t, r.Close()) }()
		f(t, r)
	})
}

var reducerCells = cells{
	"ctx": reducers(func(t *testing.T, r *kernels.Reducer) {
		mine := errors.New("the caller has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(mine)
		_, _, err := r.Sum(ctx, []float32{1})
		assert.ErrorIs(t, err, mine)
		_, _, err = r.Histogram256(ctx, []byte{1})
		assert.ErrorIs(t, err, mine)
		_, _, err = r.Gram(ctx, []float64{1}, []float64{1}, 1)
		assert.ErrorIs(t, err, mine)
	}),
	"own-error": reducers(func(t *testing.T, r *kernels.Reducer) {
		mine := errors.New("the caller has left")
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(mine)
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				ctx := t.Context()
				if i%2 == 1 {
					ctx = ended
				}
				sum, _, err := r.Sum(ctx, []float32{float32(i), 1})
				if i%2 == 1 {
					assert.ErrorIs(t, err, mine)
				} else if assert.NoError(t, err) {
					assert.Equal(t, float64(i+1), sum)
				}
			})
		}
		all.Wait()
	}),
	"empty": reducers(func(t *testing.T, r *kernels.Reducer) {
		sum, _, err := r.Sum(t.Context(), nil)
		assert.NoError(t, err)
		assert.Zero(t, sum)
		counts, _, err := r.Histogram256(t.Context(), nil)
		assert.NoError(t, err)
		assert.Equal(t, [256]uint64{}, counts)
	}),
	"huge": reducers(func(t *testing.T, r *kernels.Reducer) {
		_, _, err := r.Gram(t.Context(), nil, nil, math.MaxInt)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, "a result of n times n numbers")
	}),
}
