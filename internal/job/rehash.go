package job

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// The rounds of a job where the engine has a [Rehasher]: a batch has a thousand digests, and a GPU wants a hundred thousand. So the digests of
// many batches become one large batch, without the data. Large batches are the pieces of a second stream, of which the first is
// the source. While each device has one, the next ones are gathered, and those that are done are verified. A device that had a second one
// waiting would take it from another that is done sooner.

// sample is what the rounds of a chunk begin with.
type sample struct {
	chunk  int // of the batch
	digest Digest
}

// mostRehashed bounds the memory of large batches, with 32 bytes a digest, and a span for each where files are small. For each device there are
// one under way, one that was gathered ahead, and two results.
const mostRehashed = 1 << 20

// rehashed does the rounds of batches on so many devices, and verifies them. A failure ends a verification that is under way.
func (r *run) rehashed(ctx context.Context, p *pool.Pool, batches iter.Seq2[*batch, error], devices int) iter.Seq2[*batch, error] {
	return func(yield func(*batch, error) bool) {
		verifying, fail := context.WithCancelCause(ctx)
		defer fail(nil)
		again := func(w *pool.Worker, b *batch, _ *runtime.HostBuffer[byte]) (*batch, error) {
			err := r.again(w, b)
			if err != nil {
				fail(err)
			}
			return b, err
		}
		large := ahead(r.gather(batches, r.enough(devices)), devices, fail)
		for b, err := range pool.Stream(ctx, p, large, again, pool.StreamOptions[*batch, *batch]{PerDevice: 1, Ahead: 2 * devices}) {
			if err == nil {
				err = r.verifyAgain(verifying, b)
			}
			if verifying.Err() != nil && ctx.Err() == nil {
				err = context.Cause(verifying)
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// ahead gathers up to so many batches before they are asked for. fail hears of an error at once.
func ahead(batches iter.Seq2[*batch, error], n int, fail func(error)) iter.Seq2[*batch, error] {
	type gathered struct {
		b   *batch
		err error
	}
	return func(yield func(*batch, error) bool) {
		next, left := make(chan gathered, n), make(chan struct{})
		var gathering sync.WaitGroup
		defer gathering.Wait()
		defer close(left)
		gathering.Go(func() {
			defer close(next)
			for b, err := range batches {
				if err != nil {
					fail(err)
				}
				select {
				case next <- gathered{b, err}:
				case <-left:
					return
				}
			}
		})
		for g := range next {
			if !yield(g.b, g.err) {
				return
			}
		}
	}
}

// enough is how many digests a large batch has at least. A device has four of them where there are as many, so that all devices begin
// early and end at about the same time. With a quarter of what fills it, an H200 is 4 % slower.
func (r *run) enough(devices int) int {
	full := max(r.rehash.Enough(), 1)
	quarter := min(r.total/int64(4*devices)+1, mostRehashed)
	return min(max(int(quarter), (full+3)/4), full, mostRehashed/devices, int(min(r.total/int64(devices)+1, mostRehashed)))
}

// gather makes large batches of at least so many digests, but for the last. That one does not wait for the end of the batches.
func (r *run) gather(batches iter.Seq2[*batch, error], enough int) iter.Seq2[*batch, error] {
	return func(yield func(*batch, error) bool) {
		n, left := r.empty(), r.total
		for b, err := range batches {
			if err != nil {
				yield(nil, err)
				return
			}
			r.count(b)
			if len(n.Digests) == 0 {
				n.number = b.number
			}
			for _, s := range b.before {
				n.before = append(n.before, sample{len(n.Digests) + s.chunk, s.digest})
			}
			for _, s := range b.spans {
				s.first += len(n.Digests)
				n.spans = append(n.spans, s)
			}
			n.Digests = append(n.Digests, b.Digests...)
			left -= int64(len(b.Digests))
			n.bytes += b.bytes
			n.checked += b.checked
			r.reuse(b)
			if len(n.Digests) >= enough || left <= 0 {
				if !yield(n, nil) {
					return
				}
				n = new(batch)
			}
		}
		if len(n.Digests) > 0 {
			yield(n, nil)
		}
	}
}

// again does the rounds of a large batch on a device.
func (r *run) again(w *pool.Worker, b *batch) error {
	err := r.rehash.Rehash(w, b.Digests, r.opt.Rounds)
	if err == nil {
		return nil
	}
	path, number := r.where(b, 0)
	return &Error{Kind: EngineFailed, Path: path, Err: err,
		Detail: fmt.Sprintf("%s: the rounds of %d chunks from chunk %d of this file on", r.engine.Name(), len(b.Digests), number)}
}

// verifyAgain verifies the rounds of a large batch on all cores.
func (r *run) verifyAgain(ctx context.Context, b *batch) error {
	_, err := pool.Parallel(ctx, len(b.before), func(ctx context.Context, lo, hi int) error {
		for _, s := range b.before[lo:hi] {
			if want, err := hashAgain(ctx, s.digest, r.opt.Rounds); err != nil {
				return err
			} else if want != b.Digests[s.chunk] {
				return r.mismatch(b, s.chunk, r.engine.Name(), want)
			}
		}
		return nil
	})
	return err
}
