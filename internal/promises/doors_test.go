package promises_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/internal/promises/sample"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

type request = func(context.Context, functions) answer

// items are what a call of several items does. Its functions are called for all together, or for parts.
const items = 8

// doors are the doors of this module that are no programs.
var doors = map[string]door{
	"runtime.Open": {way: tells, open: func(t testing.TB, rt *runtime.Runtime, _ limits) request {
		return func(context.Context, functions) answer {
			rt, err := runtime.Open()
			if err != nil {
				return answer{Err: err}
			}
			defer rt.Close()
			return answer{Why: rt.Err()}
		}
	}},
	"Runtime.Probe": {open: func(t testing.TB, rt *runtime.Runtime, _ limits) request {
		return func(ctx context.Context, f functions) answer {
			b, err := rt.Probe("promises")
			if err != nil {
				return answer{Err: err}
			}
			return answer{Where: pool.OnGPU, Err: f.onStream(ctx, b.Stream)}
		}
	}},
	"Kernels.X": {open: openLaunch, own: launchCells},
	"XCPU": {way: always, open: func(t testing.TB, rt *runtime.Runtime, _ limits) request {
		return func(context.Context, functions) answer {
			x, y := []float32{1, 2, 3}, make([]float32, 3)
			err := sample.DoubleCPU(runtime.Shape1D(3, 256), x, y)
			assert.Equal(t, []float32{2, 4, 6}, y)
			return answer{Where: pool.OnCPU, Err: err}
		}
	}, own: cpuKernelCells},
	"XAuto": {way: onCPU, open: func(t testing.TB, rt *runtime.Runtime, _ limits) request {
		return func(ctx context.Context, _ functions) answer {
			x, y := []float32{1, 2, 3}, make([]float32, 3)
			place, err := sample.DoubleAuto(ctx, rt, runtime.Shape1D(3, 256), x, y)
			where := pool.OnCPU
			switch {
			case err != nil:
				assert.Equal(t, make([]float32, 3), y, "all outputs change, or none")
				return answer{Err: err}
			case place.GPU:
				where = pool.OnGPU
			}
			assert.Equal(t, []float32{2, 4, 6}, y)
			return answer{Where: where, Why: place.Reason}
		}
	}, own: autoCells},
	"gpu.Run": {way: always, open: func(t testing.TB, rt *runtime.Runtime, _ limits) request {
		return func(ctx context.Context, f functions) answer {
			err := gpu.Run(gpu.Shape1D(1, 1), func(*gpu.Thread) {
				if f.cpu != nil {
					_ = f.cpu(ctx)
				}
			})
			return answer{Where: pool.OnCPU, Err: err}
		}
	}, own: runCells},
	"pool.Do": {way: onCPU, broken: onCPU, running: 2, open: onPool(func(ctx context.Context, p *pool.Pool, f functions) answer {
		r, err := p.Do(ctx, f.onGPU, pool.DoOptions{Fallback: f.cpu})
		return answer{r.Where, r.Err, err}
	})},
	"pool.Scatter": {way: onCPU, broken: onCPU, running: 1, own: scatterCells, open: onPool(func(ctx context.Context, p *pool.Pool, f functions) answer {
		var options pool.ScatterOptions
		if f.cpu != nil {
			options.Fallback = func(ctx context.Context, _, _ int) error { return f.cpu(ctx) }
		}
		return reported(p.Scatter(ctx, items, func(w *pool.Worker, _ pool.Tile) error { return f.onGPU(w) }, options))
	})},
	"pool.Map": {way: onCPU, broken: onCPU, running: 1, own: mapCells, open: onPool(func(ctx context.Context, p *pool.Pool, f functions) answer {
		var options pool.MapOptions[int32, int32]
		if f.cpu != nil {
			options.Fallback = func(ctx context.Context, _, _ []int32) error { return f.cpu(ctx) }
		}
		return reported(pool.Map(ctx, p, make([]int32, items), make([]int32, items),
			func(w *pool.Worker, _, _ []int32) error { return f.onGPU(w) }, options))
	})},
	"pool.Reduce": {way: onCPU, broken: onCPU, running: 1, own: reduceCells, open: onPool(func(ctx context.Context, p *pool.Pool, f functions) answer {
		var options pool.ReduceOptions[int]
		if f.cpu != nil {
			options.Fallback = func(ctx context.Context, _, _ int, _ []int) error { return f.cpu(ctx) }
		}
		_, report, err := pool.Reduce(ctx, p, items, 2, func(w *pool.Worker, _, _ int, _ []int) error { return f.onGPU(w) },
			func(a, b int) int { return a + b }, options)
		return reported(report, err)
	})},
	"pool.Stream": {way: onCPU, broken: onCPU, running: 2, own: streamCells, open: onPool(func(ctx context.Context, p *pool.Pool, f functions) (a answer) {
		var report pool.Report
		o := pool.StreamOptions[int, int]{Report: &report}
		if f.cpu != nil {
			o.Fallback = func(ctx context.Context, _ int, _ []byte) (int, error) { return 0, f.cpu(ctx) }
		}
		onGPU := func(w *pool.Worker, _ int, _ *runtime.HostBuffer[byte]) (int, error) { return 0, f.onGPU(w) }
		for _, a.Err = range pool.Stream(ctx, p, oneOf(7), onGPU, o) {
		}
		a.Where, a.Why = report.Where, report.Err
		return a
	})},
	"pool.Batcher": {way: onCPU, broken: onCPU, running: 2, open: openBatcher, own: batcherCells},
	"pool.Parallel": {way: always, open: func(t testing.TB, rt *runtime.Runtime, _ limits) request {
		return func(ctx context.Context, f functions) answer {
			return reported(pool.Parallel(ctx, items, func(ctx context.Context, _, _ int) error {
				if f.cpu == nil {
					return nil
				}
				return f.cpu(ctx)
			}))
		}
	}, own: cpuCells},
	"isolate.Group.Do": {way: onCPU, open: openIsolate, own: isolateCells},
	"kernels.Reducer": {way: onCPU, broken: onCPU, running: 1, own: reducerCells, open: func(t testing.TB, rt *runtime.Runtime, l limits) request {
		r, err := kernels.OpenReducer(rt, kernels.ReducerOptions{Pool: l.pool()})
		if err != nil {
			return func(context.Context, functions) answer { return answer{Err: err} }
		}
		t.Cleanup(func() { assert.NoError(t, r.Close()) })
		return func(ctx context.Context, _ functions) answer {
			sum, report, err := r.Sum(ctx, []float32{1, 2, 3})
			if err == nil {
				assert.Equal(t, 6.0, sum)
			}
			return reported(report, err)
		}
	}},
}

// oneOf is a source of one piece.
func oneOf[In any](in In) iter.Seq2[In, error] {
	return func(yield func(In, error) bool) { yield(in, nil) }
}

// onStream calls the function for a device.
func (f functions) onStream(ctx context.Context, s *runtime.Stream) error {
	if f.gpu == nil {
		return nil
	}
	return f.gpu(ctx, s)
}

func reported(r pool.Report, err error) answer {
	return answer{r.Where, r.Err, err}
}

// onPool opens a pool for the requests of a door.
func onPool(do func(context.Context, *pool.Pool, functions) answer) func(testing.TB, *runtime.Runtime, limits) request {
	return func(t testing.TB, rt *runtime.Runtime, l limits) request {
		p, err := pool.Open(rt, l.pool())
		if err != nil {
			return func(context.Context, functions) answer { return answer{Err: err} }
		}
		t.Cleanup(func() { assert.NoError(t, p.Close()) })
		return func(ctx context.Context, f functions) answer { return do(ctx, p, f) }
	}
}

// openBatcher makes a Batcher whose items are functions, with a fallback and without.
func openBatcher(t testing.TB, rt *runtime.Runtime, l limits) request {
	p, err := pool.Open(rt, l.pool())
	if err != nil {
		return func(context.Context, functions) answer { return answer{Err: err} }
	}
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	onGPU := func(w *pool.Worker, in []functions, out []pool.Place, errs []error) error {
		for i, f := range in {
			out[i], errs[i] = pool.OnGPU, f.onGPU(w)
		}
		return nil
	}
	onCPU := func(ctx context.Context, in []functions, out []pool.Place, errs []error) error {
		for i, f := range in {
			out[i], errs[i] = pool.OnCPU, f.cpu(ctx)
		}
		return nil
	}
	config := pool.BatcherConfig[functions, pool.Place]{Batches: l.streams, Queue: l.queue}
	if l.streams > 0 {
		config.MaxItems = 1
	}
	plain, err := pool.NewBatcher(p, onGPU, config)
	require.NoError(t, err)
	config.Fallback = onCPU
	withFallback, err := pool.NewBatcher(p, onGPU, config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, errors.Join(plain.Close(), withFallback.Close())) })
	return func(ctx context.Context, f functions) answer {
		b := plain
		if f.cpu != nil {
			b = withFallback
		}
		where, err := b.Do(ctx, f)
		return answer{Where: where, Why: rt.Err(), Err: err}
	}
}

// openLaunch launches a generated kernel.
func openLaunch(t testing.TB, rt *runtime.Runtime, _ limits) request {
	return func(ctx context.Context, _ functions) (a answer) {
		a.Err = func() error {
			b, err := rt.Probe("launch")
			if err != nil {
				return err
			}
			k, err := sample.Load(b.Context)
			if err != nil {
				return err
			}
			defer k.Close()
			var scope runtime.Scope
			defer scope.Close()
			x := runtime.Keep(runtime.UploadNew(ctx, b.Stream, []float32{1, 2, 3}))(&scope)
			y := runtime.Keep(runtime.Alloc[float32](b.Stream, 3))(&scope)
			if err := scope.Err(); err != nil {
				return err
			}
			if err := k.Double(b.Stream, runtime.Shape1D(3, 256), x, y); err != nil {
				return err
			}
			got, err := runtime.DownloadNew(ctx, b.Stream, y)
			if err == nil {
				assert.Equal(t, []float32{2, 4, 6}, got)
			}
			return err
		}()
		if a.Err == nil {
			a.Where = pool.OnGPU
		}
		return a
	}
}
