package cluster

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/pool"
)

// Piece is what a function gets for one piece of work.
type Piece struct {
	// Data become [isolate.Request].Data. They are at most 16 MiB.
	Data []byte
	// Refs name data that the host gets itself. Each becomes one of [isolate.Request].Buffers.
	Refs []Ref
	// Result is for a result of more than 16 MiB: so many bytes, at most 1 GiB with Refs. The function gets one more buffer of that size,
	// the last one. Its content is the result, and the function returns no other data. 0 is for a result that the function returns.
	Result int64
}

// Scatter does n pieces with a function, on the hosts that serve it. piece makes a piece when it is sent, so that not all are
// in memory. take gets each result once, in any order; an error of it refuses the result, and another host repeats the piece.
// Both are called on the caller's goroutine, which waits for them.
//
// There are about twice as many pieces under way as the hosts have slots. A call does all pieces or fails, as pool.Scatter. The
// error is a [*pool.Error] with the pieces that are not done; their causes are joined [*TryError] or have a kind of this
// package. Results that take has got stay taken. The report needs some bytes for each piece.
//
// When ctx ends, hosts stop what they run of the call, and the error has ctx's cause.
func Scatter(ctx context.Context, c *Cluster, function string, n int, piece func(i int) (Piece, error), take func(i int, result []byte) error, options ...Option) (pool.Report, error) {
	k, err := newCall(ctx, c, function, n, options)
	if err != nil {
		return nothing, err
	}
	if piece == nil || take == nil {
		return nothing, driver.Errorf(driver.ErrInvalidArgument, "Scatter takes a function for pieces and one for results")
	}
	k.make, k.take = piece, take
	return k.start()
}

// nothing is the report of a call that has tried nothing.
var nothing = pool.Report{Device: driver.NoDevice}

// start does the pieces, if there are some.
func (k *call) start() (pool.Report, error) {
	if k.n == 0 {
		return nothing, nil
	}
	return k.traced()
}

// perform does the pieces on the hosts, or else here.
func (k *call) perform() (pool.Report, error) {
	begin := time.Now()
	err := k.run()
	if err == nil || k.fallback == nil || k.ctx.Err() != nil || is(err, driver.ErrClosed) {
		return k.report(time.Since(begin), err)
	}
	k.log.Warn("the hosts did not do the work, and the fallback does", "function", k.function, "left", k.left, "error", err)
	here := k.fallBack()
	r, failed := k.report(time.Since(begin), here)
	r.Where, r.Err, r.Reason = pool.OnCPU, err, reasonOf(err)
	if e, ok := errors.AsType[*pool.Error](failed); ok {
		e.Devices = err
	}
	return r, failed
}

// reasonOf is the reason for which the fallback did the work.
func reasonOf(err error) pool.Reason {
	if _, ok := errors.AsType[*pieceError](err); ok {
		return pool.Failed
	}
	switch {
	case is(err, ErrNoWorker):
		return NoWorker
	case is(err, ErrPermission, ErrQuota, driver.ErrUnsupported):
		return Refused
	case is(err, ErrDisconnected):
		return Disconnected
	}
	return pool.Failed
}

// fallBack does what is left in this process.
func (k *call) fallBack() error {
	var left []int
	for i := range k.done {
		if !k.done[i].done {
			left = append(left, i)
		}
	}
	turn := make(chan struct{}, 1) // of the caller's functions, and of what the call knows
	one := func(ctx context.Context, i int) error {
		turn <- struct{}{}
		p, err := k.make(i)
		<-turn
		if err != nil {
			return err
		}
		began := time.Now()
		result, err := k.fallback(ctx, p)
		if err != nil {
			return err
		}
		turn <- struct{}{}
		defer func() { <-turn }()
		if err := k.take(i, result); err != nil {
			return err
		}
		k.done[i] = outcome{done: true, device: driver.NoDevice, where: pool.OnCPU, ran: time.Since(began)}
		if k.left--; k.progress != nil {
			k.progress(k.n-k.left, k.n)
		}
		return nil
	}
	_, err := pool.Parallel(k.ctx, len(left), func(ctx context.Context, lo, hi int) error {
		for _, i := range left[lo:hi] {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := contain.Do(func() error { return one(ctx, i) }); err != nil {
				return &pieceError{number: i, device: driver.NoDevice, here: true, err: err}
			}
		}
		return nil
	}, pool.ParallelOptions{Chunk: 1})
	return err
}

// Do runs a function once.
func Do(ctx context.Context, c *Cluster, function string, p Piece, options ...Option) (result []byte, report pool.Report, err error) {
	r, err := Scatter(ctx, c, function, 1, func(int) (Piece, error) { return p, nil }, func(_ int, data []byte) error {
		result = data
		return nil
	}, options...)
	if len(r.Tiles) == 0 {
		return nil, r, err
	}
	t := r.Tiles[0]
	report = pool.Report{Where: r.Where, Reason: r.Reason, Err: r.Err, Wall: t.Compute, Tries: t.Retries + 1, Host: t.Host, Device: t.Device}
	if e, ok := errors.AsType[*pool.Error](err); ok {
		err = t.Cause
		if e.Devices != nil {
			err = errors.Join(err, e.Devices)
		}
	}
	return result, report, err
}

// Map calls a function for each of the data, and returns the results in their order.
func Map(ctx context.Context, c *Cluster, function string, in [][]byte, options ...Option) ([][]byte, pool.Report, error) {
	out := make([][]byte, len(in))
	report, err := Scatter(ctx, c, function, len(in), func(i int) (Piece, error) { return Piece{Data: in[i]}, nil }, func(i int, data []byte) error {
		out[i] = data
		return nil
	}, options...)
	if err != nil {
		return nil, report, err
	}
	return out, report, nil
}

// Reduce computes one result from n pieces. result decodes the result of a piece, and combine computes one from two adjacent
// ranges. The order is fixed, a binary tree as in pool.Reduce: if the function gives the same for a piece, the result is the same
// bit for bit on any hosts. combine may change and return its first argument. For n = 0 the result is the zero value.
func Reduce[R any](ctx context.Context, c *Cluster, function string, n int, piece func(i int) (Piece, error), result func(i int, data []byte) (R, error), combine func(a, b R) R, options ...Option) (R, pool.Report, error) {
	var zero R
	if result == nil || combine == nil {
		return zero, nothing, driver.Errorf(driver.ErrInvalidArgument, "Reduce takes a function that decodes results and one that combines them")
	}
	if n < 0 || n > math.MaxInt32 {
		return zero, nothing, driver.Errorf(driver.ErrInvalidArgument, "Reduce of %d pieces: want 0 to %d", n, math.MaxInt32)
	}
	all := make([]R, n)
	report, err := Scatter(ctx, c, function, n, piece, func(i int, data []byte) (err error) {
		all[i], err = result(i, data)
		return err
	}, options...)
	if err != nil || n == 0 {
		return zero, report, err
	}
	err = contain.Do(func() error {
		for m := n; m > 1; m = (m + 1) / 2 {
			for i := range m / 2 {
				all[i] = combine(all[2*i], all[2*i+1])
			}
			if m%2 == 1 {
				all[m/2] = all[m-1]
			}
		}
		return nil
	})
	if err != nil {
		return zero, report, err
	}
	return all[0], report, nil
}
