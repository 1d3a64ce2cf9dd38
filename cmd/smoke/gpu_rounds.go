package main

import (
	"context"
	"errors"

	"github.com/purecuda/purecuda/internal/job"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

const (
	// roundsPerLaunch take a millisecond on a device that is full. Batches wait for it no longer.
	roundsPerLaunch = 128
	// launchesPerWait bounds what is on the stream when the job is cancelled.
	launchesPerWait = 64
)

// roundsLane is what a device needs for rounds.
type roundsLane struct {
	kernel     kernels.SHA256Rounds
	stream     *runtime.Stream
	begin, end *runtime.Event
}

func (e *gpuEngine) Rehasher() job.Rehasher { return e }

func (e *gpuEngine) Enough() (n int) {
	for _, g := range e.gpus {
		n = max(n, kernels.SHA256RoundsEnough(g.context.Device().Multiprocessors))
	}
	return n
}

// Rehash does one large batch at a time on each device, which that fills.
func (e *gpuEngine) Rehash(w *pool.Worker, digests []job.Digest, rounds uint32) (err error) {
	g, ctx := e.gpus[w.Index()], w.CallContext()
	g.oneAtATime.Lock()
	defer g.oneAtATime.Unlock()
	if g.rounds == nil {
		if g.rounds, err = openRounds(g.context); err != nil {
			return err
		}
	}
	l := g.rounds
	d, err := runtime.UploadNew(ctx, l.stream, digests)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := l.begin.Record(l.stream); err != nil {
		return err
	}
	for launches := 1; rounds > 0; launches++ {
		n := min(rounds, roundsPerLaunch)
		if err := l.kernel.Launch(l.stream, d, n); err != nil {
			return err
		}
		rounds -= n
		if launches%launchesPerWait == 0 {
			if err := errors.Join(l.stream.Synchronize(context.Background()), context.Cause(ctx)); err != nil {
				return err
			}
		}
	}
	if err := l.end.Record(l.stream); err != nil {
		return err
	}
	if err := runtime.Download(ctx, l.stream, digests, d); err != nil {
		return err
	}
	return g.clock(l.begin, l.end)
}

// openRounds opens a lane. What it leaves open belongs to the runtime.
func openRounds(c *runtime.Context) (*roundsLane, error) {
	l := new(roundsLane)
	var err error
	if l.kernel, err = kernels.Load[kernels.SHA256Rounds](c); err != nil {
		return nil, err
	}
	if l.stream, err = c.NewStream(); err != nil {
		return nil, err
	}
	for _, e := range []**runtime.Event{&l.begin, &l.end} {
		if *e, err = c.NewTimingEvent(); err != nil {
			return nil, err
		}
	}
	return l, nil
}
