// Package flight lets callers that want the same thing at the same time share the work.
package flight

import (
	"context"
	"sync"

	"github.com/purecuda/purecuda/internal/callsite"
	"github.com/purecuda/purecuda/internal/contain"
)

// Group shares work by key. The zero value is ready. It is safe for concurrent use, and
// holds no lock while work runs.
type Group[K comparable, V any] struct {
	mu      sync.Mutex
	flights map[K]*flight[V]
}

type flight[V any] struct {
	done    chan struct{} // closed when value and err are there
	value   V
	err     error
	waiters int
	// abandoned says that everybody had left before the work was done, so that its
	// context was cancelled.
	abandoned bool
	cancel    context.CancelFunc
}

// Do returns what work returns for the key, and whether it was another caller's work. At
// no time does work run twice for one key; once it has returned, the next call starts it
// anew, and nothing is remembered.
//
// When ctx ends, Do returns its cause, and the others wait on. The context of work has
// the values of the first caller's and ends when nobody waits any more. Work may ignore
// that; who asks in the meantime gets its result, or if it has failed, new work.
// It runs on a goroutine of its own; if it panics or ends that, everybody who waits gets an error.
func (g *Group[K, V]) Do(ctx context.Context, key K, work func(context.Context) (V, error)) (value V, shared bool, err error) {
	for {
		f, joined := g.join(ctx, key, work)
		select {
		case <-f.done:
			if joined && f.err != nil && g.wasAbandoned(f) {
				continue // it failed because of others who had left
			}
			return f.value, joined, f.err
		case <-ctx.Done():
			g.leave(f)
			return value, joined, context.Cause(ctx)
		}
	}
}

// join counts the caller in on the work for the key, and starts it if nobody has.
func (g *Group[K, V]) join(ctx context.Context, key K, work func(context.Context) (V, error)) (f *flight[V], joined bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.flights[key]; f != nil {
		f.waiters++
		return f, true
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f = &flight[V]{done: make(chan struct{}), waiters: 1, cancel: cancel}
	if g.flights == nil {
		g.flights = map[K]*flight[V]{}
	}
	g.flights[key] = f
	go callsite.Carry(func() {
		contain.Call(func() (err error) {
			f.value, err = work(ctx)
			return err
		}, func(err error) {
			f.err = err
			g.mu.Lock()
			delete(g.flights, key)
			g.mu.Unlock()
			close(f.done)
			cancel()
		})
	})()
	return f, false
}

func (g *Group[K, V]) leave(f *flight[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		f.abandoned = true
		f.cancel()
	}
}

func (g *Group[K, V]) wasAbandoned(f *flight[V]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return f.abandoned
}
