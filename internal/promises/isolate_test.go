package promises_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	goruntime "runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/promises"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

func init() {
	for name, f := range map[string]isolate.Func{
		"echo":  func(_ *pool.Worker, r *isolate.Request) ([]byte, error) { return r.Data, nil },
		"fail":  func(_ *pool.Worker, r *isolate.Request) ([]byte, error) { return nil, errors.New(string(r.Data)) },
		"panic": func(_ *pool.Worker, r *isolate.Request) ([]byte, error) { panic(string(r.Data)) },
		"nil":   func(*pool.Worker, *isolate.Request) ([]byte, error) { return nil, (*bad)(nil) },
		"goexit": func(*pool.Worker, *isolate.Request) ([]byte, error) {
			goruntime.Goexit()
			return nil, nil
		},
		"wait": func(w *pool.Worker, r *isolate.Request) ([]byte, error) {
			r.Buffers[0].Bytes()[0] = 1
			<-w.CallContext().Done()
			return nil, context.Cause(w.CallContext())
		},
		"leak": func(w *pool.Worker, _ *isolate.Request) ([]byte, error) {
			x, err := runtime.Alloc[byte](w.Stream(), 1<<20)
			if err != nil {
				return nil, err
			}
			defer x.Close()
			return fmt.Append(nil, w.Context().Leaks()), nil
		},
		"add": func(_ *pool.Worker, r *isolate.Request) ([]byte, error) { // to the second buffer, what is in the first
			a, b := r.Buffers[0].Bytes(), r.Buffers[1].Bytes()
			for i := range a {
				b[i] += a[i]
			}
			return nil, nil
		},
	} {
		isolate.Register("promises/"+name, f)
	}
}

// group opens a group on a simulated device.
func group(t *testing.T, options ...isolate.Option) *isolate.Group {
	t.Helper()
	if goruntime.GOOS != "linux" {
		t.Skip("no isolation here")
	}
	rt, _ := machine(t)
	g, err := isolate.Open(rt, append([]isolate.Option{isolate.WithEnvironment(simulated + "=1"), isolate.WithOutput(io.Discard)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

// isolated is a group whose children nobody has ended: most tests can share it.
func isolated(f func(t *testing.T, do func(ctx context.Context, name, data string) (string, error))) func(t *testing.T) {
	return func(t *testing.T) {
		g := group(t)
		f(t, func(ctx context.Context, name, data string) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, promises.Patience/2)
			defer cancel()
			got, _, err := g.Do(ctx, "promises/"+name, []byte(data))
			return string(got), err
		})
		got, _, err := g.Do(t.Context(), "promises/echo", []byte("next"))
		assert.NoError(t, err)
		assert.Equal(t, "next", string(got))
	}
}

// openIsolate calls a function in a child. The fallback is that of the request.
func openIsolate(t testing.TB, rt *runtime.Runtime, _ limits) request {
	var f functions
	g, err := isolate.Open(rt, isolate.WithEnvironment(simulated+"=1"), isolate.WithOutput(io.Discard),
		isolate.WithFallback(func(ctx context.Context, _ string, _ *isolate.Request) ([]byte, error) { return nil, f.cpu(ctx) }))
	if err != nil {
		return func(context.Context, functions) answer { return answer{Err: err} }
	}
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return func(ctx context.Context, of functions) answer {
		f = of
		_, report, err := g.Do(ctx, "promises/echo", nil)
		return answer{report.Where, report.Err, err}
	}
}

var isolateCells = cells{
	"ctx": func(t *testing.T) {
		g := group(t)
		mine := errors.New("the caller has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(mine)
		_, _, err := g.Do(ctx, "promises/echo", nil)
		assert.ErrorIs(t, err, mine)

		ctx, cancel = context.WithCancelCause(t.Context())
		wait := waiting(t, g, ctx)
		cancel(mine)
		assert.ErrorIs(t, await(t, "the request", wait), mine)
		_, _, err = g.Do(t.Context(), "promises/echo", nil)
		assert.NoError(t, err)
	},
	"bound": func(t *testing.T) {
		g := group(t, isolate.WithStreams(1), isolate.WithQueue(1))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := waiting(t, g, ctx)
		full := make(chan error, 3)
		for range 3 {
			go func() {
				_, _, err := g.Do(ctx, "promises/echo", nil)
				full <- err
			}()
		}
		for range 2 {
			assert.ErrorIs(t, await(t, "one more than may wait", full), pool.ErrQueueFull)
		}
		cancel()
		assert.ErrorIs(t, await(t, "the one that waited", full), context.Canceled)
		assert.ErrorIs(t, await(t, "the one that ran", first), context.Canceled)
	},
	"own-error": isolated(func(t *testing.T, do func(ctx context.Context, name, data string) (string, error)) {
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				name, data := []string{"echo", "fail"}[i%2], fmt.Sprintf("of request %d.", i)
				got, err := do(t.Context(), name, data)
				if i%2 == 1 {
					assert.ErrorContains(t, err, data)
				} else if assert.NoError(t, err) {
					assert.Equal(t, data, got)
				}
			})
		}
		all.Wait()
	}),
	"panic": isolated(func(t *testing.T, do func(ctx context.Context, name, data string) (string, error)) {
		_, err := do(t.Context(), "panic", "mine")
		assert.ErrorContains(t, err, "mine")
	}),
	"nil-error": isolated(func(t *testing.T, do func(ctx context.Context, name, data string) (string, error)) {
		_, err := do(t.Context(), "nil", "")
		assert.ErrorContains(t, err, "bad")
	}),
	"goexit": isolated(func(t *testing.T, do func(ctx context.Context, name, data string) (string, error)) {
		_, err := do(t.Context(), "goexit", "")
		assert.ErrorContains(t, err, "Goexit")
	}),
	"empty": isolated(func(t *testing.T, do func(ctx context.Context, name, data string) (string, error)) {
		got, err := do(t.Context(), "echo", "")
		assert.NoError(t, err)
		assert.Empty(t, got)
	}),
	"huge": func(t *testing.T) {
		g := group(t)
		_, _, err := g.Do(t.Context(), "promises/echo", make([]byte, 16<<20+1))
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		_, err = g.NewBuffer(math.MaxInt)
		assert.Error(t, err)
		data := bytes.Repeat([]byte{7}, 16<<20)
		got, _, err := g.Do(t.Context(), "promises/echo", data)
		assert.NoError(t, err)
		assert.True(t, bytes.Equal(data, got))
	},
	"overlap": func(t *testing.T) { // the same buffer twice
		g := group(t)
		b, err := g.NewBuffer(4)
		require.NoError(t, err)
		defer b.Close()
		binary.LittleEndian.PutUint32(b.Bytes(), 0x01020304)
		_, _, err = g.Do(t.Context(), "promises/add", nil, isolate.WithBuffers(b, b))
		assert.NoError(t, err)
		assert.Equal(t, uint32(0x02040608), binary.LittleEndian.Uint32(b.Bytes()))
	},
	"leak": isolated(func(t *testing.T, do func(ctx context.Context, name, data string) (string, error)) {
		got, err := do(t.Context(), "leak", "")
		assert.NoError(t, err)
		assert.Contains(t, got, "isolate_test.go:")
	}),
}

// waiting begins a request that runs until its ctx ends.
func waiting(t *testing.T, g *isolate.Group, ctx context.Context) <-chan error {
	t.Helper()
	b, err := g.NewBuffer(1)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	done := make(chan error, 1)
	go func() {
		_, _, err := g.Do(ctx, "promises/wait", nil, isolate.WithBuffers(b))
		done <- err
	}()
	require.Eventually(t, func() bool { return b.Bytes()[0] == 1 }, promises.Patience, 1e6)
	return done
}
