package job

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"
	"sync/atomic"
)

// rehash does the rounds of a job where the engine has a [Rehasher]. A batch has a thousand digests, and a GPU wants a
// hundred thousand. So the digests of many batches become one large batch, without the data. While the engine has one,
// the next is gathered. All methods are called from the goroutine of Run.
type rehash struct {
	*run
	engine         Rehasher
	least, most    int    // digests of a large batch, but for the last
	next, underWay *batch // underWay is nil while the engine has none
	spare          *batch // nil while both are in use
	done           chan error
}

// sample is what the rounds of a chunk begin with.
type sample struct {
	chunk  int // of the batch
	digest Digest
}

// mostRehashed bounds the memory of large batches: two with 32 bytes a digest, and a span for each where files are small.
const mostRehashed = 1 << 20

func newRehash(r *run, e Rehasher) *rehash {
	most := min(max(e.Enough(), 1), mostRehashed)
	// A quarter keeps the engine mostly busy, which is better than waiting for more.
	return &rehash{run: r, engine: e, least: max(most/4, 1), most: most, next: new(batch), spare: new(batch), done: make(chan error, 1)}
}

// add gathers a batch, which can be used again then, and begins what there is enough for.
func (h *rehash) add(ctx context.Context, b *batch) error {
	n := h.next
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
	n.bytes += b.bytes
	n.checked += b.checked
	if h.underWay == nil || len(n.Digests) >= h.most || len(h.done) > 0 {
		return h.turn(ctx, h.least)
	}
	return nil
}

// end does what is left.
func (h *rehash) end(ctx context.Context) error {
	if err := h.turn(ctx, 1); err != nil {
		return err
	}
	return h.turn(ctx, 1)
}

// turn waits for the engine, gives it the next large batch if that has enough digests, and consumes what it has done meanwhile.
func (h *rehash) turn(ctx context.Context, enough int) error {
	b := h.underWay
	if err := h.wait(); err != nil {
		return err
	}
	if len(h.next.Digests) >= enough {
		h.begin(ctx)
	}
	if b == nil {
		return nil
	}
	if err := h.consume(b); err != nil {
		return err
	}
	b.reset()
	if h.next == nil {
		h.next = b
	} else {
		h.spare = b
	}
	return nil
}

// begin gives the large batch to the engine.
func (h *rehash) begin(ctx context.Context) {
	b := h.next
	h.underWay, h.next, h.spare = b, h.spare, nil
	go func() {
		err := h.engine.Rehash(ctx, b.Digests, h.opt.Rounds)
		switch {
		case ctx.Err() != nil:
			err = canceled(ctx)
		case err != nil:
			path, number := h.run.where(b, 0)
			err = &Error{Kind: EngineFailed, Path: path, Err: err,
				Detail: fmt.Sprintf("%s: the rounds of %d chunks from chunk %d of this file on", h.run.engine.Name(), len(b.Digests), number)}
		default:
			err = h.verifyRounds(ctx, b)
		}
		h.done <- err
	}()
}

// wait waits for the engine.
func (h *rehash) wait() error {
	if h.underWay == nil {
		return nil
	}
	h.underWay = nil
	return <-h.done
}

// verifyRounds compares with crypto/sha256, on all cores.
func (h *rehash) verifyRounds(ctx context.Context, b *batch) error {
	var next atomic.Int64
	var failed error
	var once sync.Once
	var all sync.WaitGroup
	for range min(goruntime.GOMAXPROCS(0), len(b.before)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(b.before)); i = next.Add(1) - 1 {
				s := b.before[i]
				want, err := hashAgain(ctx, s.digest, h.opt.Rounds)
				switch {
				case err != nil:
					err = canceled(ctx)
				case want != b.Digests[s.chunk]:
					err = h.mismatch(b, s.chunk, h.run.engine.Name(), want)
				}
				if err != nil {
					once.Do(func() { failed = err })
					next.Store(int64(len(b.before)))
				}
			}
		})
	}
	all.Wait()
	return failed
}
