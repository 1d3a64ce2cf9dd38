package cluster_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/promises"
	"github.com/purecuda/purecuda/pool"
)

// unsound is an error whose methods panic where it is nil.
type unsound struct{ cause error }

func (u *unsound) Error() string { return u.cause.Error() }
func (u *unsound) Unwrap() error { return u.cause }

func TestPromises(t *testing.T) {
	mine := errors.New("mine")
	c := onHosts(t, 1)
	piece := func(int) (cluster.Piece, error) { return cluster.Piece{}, nil }
	take := func(int, []byte) error { return nil }
	next := func(t *testing.T) { squares(t, c, "square/v1", 3) }
	promises.Test(t, "cluster.Scatter", map[string]func(t *testing.T){
		"says-so": func(t *testing.T) {
			empty := open(t, connect(t, start(t, embedded.Config{})), cluster.WithPatience(1))
			report, err := cluster.Scatter(within(t), empty, "echo/v1", 2, piece, take,
				cluster.WithFallback(func(context.Context, cluster.Piece) ([]byte, error) { return nil, nil }))
			assert.NoError(t, err)
			assert.Equal(t, pool.OnCPU, report.Where)
			assert.Error(t, report.Why)
		},
		"ctx": func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(within(t))
			cancel(mine)
			_, err := cluster.Scatter(ctx, c, "echo/v1", 1, piece, take)
			assert.ErrorIs(t, err, mine)
			ctx, cancel = context.WithCancelCause(within(t))
			_, err = cluster.Scatter(ctx, c, "wait/v1", 1, func(int) (cluster.Piece, error) { cancel(mine); return cluster.Piece{}, nil }, take)
			assert.ErrorIs(t, err, mine)
			next(t)
		},
		"own-error": func(t *testing.T) {
			var all sync.WaitGroup
			for i := range 16 {
				all.Go(func() {
					own := fmt.Errorf("of call %d", i)
					_, err := cluster.Scatter(within(t), c, "echo/v1", 2, piece, func(int, []byte) error {
						if i%2 == 1 {
							return own
						}
						return nil
					}, cluster.WithRetry(0))
					if i%2 == 0 {
						assert.NoError(t, err)
					} else {
						assert.ErrorIs(t, err, own)
					}
				})
			}
			all.Wait()
		},
		"panic": func(t *testing.T) {
			_, err := cluster.Scatter(within(t), c, "echo/v1", 2, func(int) (cluster.Piece, error) { panic(mine) }, take)
			assert.ErrorIs(t, err, mine)
			_, err = cluster.Scatter(within(t), c, "echo/v1", 2, piece, func(int, []byte) error { panic(mine) }, cluster.WithRetry(0))
			assert.ErrorIs(t, err, mine)
			next(t)
		},
		"nil-error": func(t *testing.T) {
			_, err := cluster.Scatter(within(t), c, "echo/v1", 2, func(int) (cluster.Piece, error) { return cluster.Piece{}, (*unsound)(nil) }, take)
			assert.Error(t, err)
			_, err = cluster.Scatter(within(t), c, "echo/v1", 2, piece, func(int, []byte) error { return (*unsound)(nil) }, cluster.WithRetry(0))
			assert.Error(t, err)
			next(t)
		},
		"goexit": func(t *testing.T) {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = cluster.Scatter(within(t), c, "echo/v1", 2, func(int) (cluster.Piece, error) { goruntime.Goexit(); return cluster.Piece{}, nil }, take)
			}()
			select {
			case <-ended:
			case <-within(t).Done():
				assert.Fail(t, "it hangs")
			}
			next(t)
		},
		"empty": func(t *testing.T) {
			report, err := cluster.Scatter(within(t), c, "echo/v1", 0, func(int) (cluster.Piece, error) { panic("no piece") }, func(int, []byte) error { panic("no result") })
			assert.NoError(t, err)
			assert.Empty(t, report.Tiles)
		},
		"huge": func(t *testing.T) {
			_, err := cluster.Scatter(within(t), c, "echo/v1", 1, func(int) (cluster.Piece, error) { return cluster.Piece{Data: make([]byte, 16<<20+1)}, nil }, take)
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
			_, err = cluster.Scatter(within(t), c, "echo/v1", -1, piece, take)
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		},
	})
}
