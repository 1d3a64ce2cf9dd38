package pool

import (
	"context"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/runtime"
)

// Wins is for tests.
func (b *BreakEven) Wins(n int) bool { return b.wins(n) }

// SetNow gives a break-even the clock of a test.
func (c *BreakEvenConfig) SetNow(now func() time.Time) { c.now = now }

// A function that ends its goroutine does not count as a call that is under way: later ones are alone again.
func TestBreakEvenAfterGoexit(t *testing.T) {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff))
	require.NoError(t, err)
	defer rt.Close()
	p, err := Open(rt)
	require.NoError(t, err)
	defer p.Close()
	b, err := NewBreakEven(p, BreakEvenConfig{Name: "a", Largest: 1, Run: func(context.Context, int) error { return nil }})
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = p.Do(context.Background(), func(*Worker) error { return nil }, DoOptions{BreakEven: b,
			Fallback: func(context.Context) error { goruntime.Goexit(); return nil }})
	}()
	<-ended
	assert.Zero(t, b.active.Load())
}
