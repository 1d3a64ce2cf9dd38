package job

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync"
	"time"
)

// Options are the choices of a job. ChunkBytes must be set.
type Options struct {
	ChunkBytes int    // 1 to MaxChunkBytes
	Rounds     uint32 // how many times more each digest is hashed
	Verify     Verify
	Workers    int // 0: as many as the engine wishes
	BatchBytes int // 0: what the engine wishes

	// Sink gets every digest in order; nil for none.
	Sink Sink
	// Progress gets how many chunks, and bytes of them, were hashed since it was last
	// called; nil for none. It is called from the goroutine of Run.
	Progress func(chunks, bytes int64)

	open func(path string) (content, error) // nil: os.Open
}

// Sink takes the digests of a job in order. It is called from the goroutine of Run.
type Sink interface {
	// Digests gets the digests of consecutive chunks of one file, of which the first
	// is chunk number first of the file. path is File.Path. The slice is only valid
	// during the call.
	Digests(path string, first int64, digests []Digest) error
}

// Result is what a completed job found.
type Result struct {
	Root   Digest
	Files  int64
	Bytes  int64
	Chunks int64

	Verified       int64  // chunks compared with crypto/sha256
	VerifyMode     string // "all", "sample" or "none"
	VerifyFraction float64

	RanOn       string // the engine's name
	Workers     int
	BatchBytes  int
	MemoryBytes int64         // the most that buffers and batches could take
	Setup       time.Duration // opening the workers
	Elapsed     time.Duration // from the first byte read to the root
	Shares      []Share       // of the places that had workers
}

// Share is what one place did.
type Share struct {
	Name    string
	Workers int
	Chunks  int64
	Bytes   int64
	Busy    time.Duration // for which it had work
}

// Run hashes the input on the engine and returns the root. The first failure stops
// all workers and is returned; no goroutine, worker or file stays behind. The
// errors are of type *Error, with the kinds ReadFailed, FileChanged,
// DigestMismatch, EngineFailed, OutputFailed, InvalidArgument and Canceled. A
// failure of the engine or the sink is wrapped, not replaced.
//
// When ctx ends, Run returns after the reads and Worker.Hash calls in progress.
func Run(ctx context.Context, in *Input, engine Engine, opt Options) (Result, error) {
	if err := CheckChunkBytes(int64(opt.ChunkBytes)); err != nil {
		return Result{}, err
	}
	if opt.open == nil {
		opt.open = in.open
	}
	r := &run{in: in, engine: engine, places: slices.Clone(engine.Places()), opt: opt, rounds: opt.Rounds, root: sha256.New()}
	if e := engine.Rehasher(); e != nil && opt.Rounds > 0 {
		r.rounds, r.rehash = 0, newRehash(r, e)
	}
	workers, batchBytes := opt.Workers, 0
	for i := range r.places {
		if opt.BatchBytes > 0 {
			r.places[i].BatchBytes = opt.BatchBytes
		}
		batchBytes = max(batchBytes, r.places[i].BatchBytes)
		if opt.Workers < 1 {
			workers += r.places[i].Workers
		}
	}
	r.layout = in.layout(opt.ChunkBytes, workers, batchBytes)
	r.plan = &planner{in: in, chunk: opt.ChunkBytes, open: opt.open}
	r.pace = newPace(len(r.places), r.layout.shape, r.layout.largest)
	r.shares = make([]Share, len(r.places))
	for i, n := range deal(r.places, r.layout.workers, opt.Workers < 1) {
		r.shares[i] = Share{Name: r.places[i].Name, Workers: n}
	}
	r.verifyPlan = opt.Verify.resolve(in.Bytes, in.Chunks(opt.ChunkBytes))
	return r.do(ctx)
}

// deal gives every place one worker after the other, those that have enough left out if
// wishes count, until n are given.
func deal(places []Place, n int, wishes bool) []int {
	workers := make([]int, len(places))
	for given := 0; given < n; {
		before := given
		for i := range places {
			if given < n && (!wishes || workers[i] < places[i].Workers) {
				workers[i]++
				given++
			}
		}
		if given == before {
			break
		}
	}
	return workers
}

// Chunks is the number of chunks that the input has at the given chunk size.
func (in *Input) Chunks(chunkBytes int) int64 {
	var n int64
	for _, f := range in.Files {
		n += f.Size / int64(chunkBytes)
		if f.Size%int64(chunkBytes) != 0 {
			n++
		}
	}
	return n
}

// run is one job under way.
type run struct {
	in         *Input
	engine     Engine
	places     []Place
	opt        Options
	rounds     uint32  // that the workers do
	rehash     *rehash // does the rest; nil for nothing
	layout     layout
	plan       *planner
	pace       *pace
	verifyPlan Verify

	root     hash.Hash
	chunks   int64
	bytes    int64
	verified int64
	shares   []Share // of all places
}

// ring is the workers of one place that a goroutine serves.
type ring struct {
	place   int
	shape   Shape
	workers []Worker
}

func (r *run) do(parent context.Context) (Result, error) {
	began := time.Now()
	rings, err := r.openWorkers(parent)
	if err != nil {
		return Result{}, err
	}
	ready := time.Now()
	err = r.hash(parent, rings)
	finished := time.Now()
	r.plan.close()
	if closeErr := closeWorkers(rings); err == nil {
		err = closeErr
	}
	if err != nil {
		return Result{}, err
	}
	result := Result{
		Files:          int64(len(r.in.Files)),
		Bytes:          r.bytes,
		Chunks:         r.chunks,
		Verified:       r.verified,
		VerifyMode:     r.verifyPlan.modeName(),
		VerifyFraction: r.verifyPlan.fraction,
		RanOn:          r.engine.Name(),
		Workers:        r.layout.workers,
		BatchBytes:     r.layout.shape.Bytes,
		MemoryBytes:    r.layout.bytes(),
		Setup:          ready.Sub(began),
		Elapsed:        finished.Sub(ready),
	}
	for i, share := range r.shares {
		if share.Workers > 0 {
			share.Busy = r.engine.Busy(i)
			result.Shares = append(result.Shares, share)
		}
	}
	r.root.Sum(result.Root[:0])
	return result, nil
}

// openWorkers opens all workers at once: page-locked memory takes its time.
func (r *run) openWorkers(ctx context.Context) ([]ring, error) {
	if ctx.Err() != nil {
		return nil, canceled(ctx)
	}
	var rings []ring
	for place := range r.places {
		shape, left := r.layout.shapeAt(r.places[place].BatchBytes), r.shares[place].Workers
		for inTurn := max(r.places[place].InTurn, 1); left > 0; left -= inTurn {
			rings = append(rings, ring{place, shape, make([]Worker, min(inTurn, left))})
		}
	}
	var wg sync.WaitGroup
	var failed struct {
		sync.Mutex
		err error // the first one
	}
	for _, g := range rings {
		for i := range g.workers {
			wg.Go(func() {
				w, err := r.openWorker(ctx, g)
				g.workers[i] = w
				failed.Lock()
				defer failed.Unlock()
				if failed.err == nil {
					failed.err = err
				}
			})
		}
	}
	wg.Wait()
	if failed.err == nil {
		return rings, nil
	}
	_ = closeWorkers(rings) // the first failure is the one to tell
	if ctx.Err() != nil {
		return nil, canceled(ctx)
	}
	return nil, failed.err
}

// openWorker may return a worker together with an error.
func (r *run) openWorker(ctx context.Context, g ring) (Worker, error) {
	name := r.places[g.place].Name
	w, err := r.engine.NewWorker(ctx, g.place, g.shape)
	if err != nil {
		return nil, &Error{Kind: EngineFailed, Detail: "opening a worker on " + name, Err: err}
	}
	if n := len(w.Buffer()); n < g.shape.Bytes {
		return w, &Error{Kind: EngineFailed, Detail: fmt.Sprintf("the buffer of a worker on %s has %d bytes, needs %d", name, n, g.shape.Bytes)}
	}
	return w, nil
}

func closeWorkers(rings []ring) error {
	var errs []error
	for _, g := range rings {
		for _, w := range g.workers {
			if w == nil {
				continue
			}
			if err := w.Close(); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &Error{Kind: EngineFailed, Detail: "closing the workers", Err: errors.Join(errs...)}
}

// hash runs the workers and, on this goroutine, the collector.
func (r *run) hash(parent context.Context, rings []ring) error {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)

	free := make(chan *batch, r.layout.slots)
	for range r.layout.slots {
		free <- new(batch)
	}
	hashed := make(chan *batch, r.layout.slots) // never full: there are no more batches
	var wg sync.WaitGroup
	for _, ring := range rings {
		wg.Go(func() {
			if err := r.work(ctx, ring, free, hashed); err != nil {
				stop(err)
			}
		})
	}
	go func() {
		wg.Wait()
		close(hashed)
	}()

	if err := r.collect(ctx, hashed, free); err != nil {
		stop(err)
		for range hashed { // until the workers have ended
		}
	}
	if r.rehash != nil {
		_ = r.rehash.wait() // what is under way then is of no use any more
	}
	if r.bytes == r.in.Bytes {
		return nil
	}
	// The cause is the first failure, of a worker or of the collector, or else the
	// end of the caller's context.
	if err, ok := errors.AsType[*Error](context.Cause(ctx)); ok {
		return err
	}
	return canceled(parent)
}

// work takes batches until there are none, and gives them to the workers of the ring in
// turn. It takes an empty batch first and then its place in the order, and waits for an
// empty one only when nothing of its own is under way: whoever holds the next place can
// always proceed.
func (r *run) work(ctx context.Context, ring ring, free <-chan *batch, hashed chan<- *batch) error {
	var started []*batch // oldest first; that of turn t is with worker t modulo the ring
	for turn := 0; ; turn++ {
		finish := func() error {
			b, w := started[0], ring.workers[(turn-len(started))%len(ring.workers)]
			started = started[1:]
			return r.finish(ctx, ring.place, w, b, hashed)
		}
		if len(started) == len(ring.workers) {
			if err := finish(); err != nil {
				return err
			}
		}
		b := takeNow(free)
		for b == nil && len(started) > 0 {
			if err := finish(); err != nil {
				return err
			}
			b = takeNow(free)
		}
		if b == nil {
			select {
			case b = <-free:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return canceled(ctx)
		}
		if !r.plan.next(b, r.pace.limit(ring.place, ring.shape)) {
			for len(started) > 0 {
				if err := finish(); err != nil {
					return err
				}
			}
			return nil
		}
		w := ring.workers[turn%len(ring.workers)]
		if err := r.plan.read(ctx, b, w.Buffer()); err != nil {
			return err
		}
		if err := w.Start(ctx, b.chunks, r.rounds); err != nil {
			if ctx.Err() != nil {
				return canceled(ctx)
			}
			return r.engineError(ring.place, b, err)
		}
		started = append(started, b)
	}
}

func takeNow(free <-chan *batch) *batch {
	select {
	case b := <-free:
		return b
	default:
		return nil
	}
}

// finish waits for a batch, checks it and hands it on.
func (r *run) finish(ctx context.Context, place int, w Worker, b *batch, hashed chan<- *batch) error {
	b.digests = slices.Grow(b.digests, len(b.chunks))[:len(b.chunks)]
	if err := w.Wait(b.digests); err != nil {
		return r.engineError(place, b, err)
	}
	r.pace.finished(place, b.bytes)
	b.place = place
	if err := r.verify(ctx, place, b, w.Buffer()); err != nil {
		return err
	}
	hashed <- b
	return nil
}

func (r *run) engineError(place int, b *batch, err error) error {
	path, number := r.where(b, 0)
	return &Error{Kind: EngineFailed, Path: path,
		Detail: fmt.Sprintf("%s: hashing %d chunks from chunk %d of this file on", r.places[place].Name, len(b.chunks), number), Err: err}
}

// collect takes hashed batches, which come in any order, and consumes them in order.
func (r *run) collect(ctx context.Context, hashed <-chan *batch, free chan<- *batch) error {
	// A batch gets its place only while fewer than slots batches are out, so that two
	// of those never meet in this ring.
	waiting := make([]*batch, r.layout.slots)
	next := int64(0)
	for b := range hashed {
		waiting[b.seq%int64(len(waiting))] = b
		for {
			at := &waiting[next%int64(len(waiting))]
			if *at == nil {
				break
			}
			share := &r.shares[(*at).place]
			share.Chunks, share.Bytes = share.Chunks+int64(len((*at).chunks)), share.Bytes+(*at).bytes
			take := r.consume
			if r.rehash != nil {
				take = func(b *batch) error { return r.rehash.add(ctx, b) }
			}
			if err := take(*at); err != nil {
				return err
			}
			free <- *at
			*at = nil
			next++
		}
	}
	if r.rehash != nil && ctx.Err() == nil {
		return r.rehash.end(ctx)
	}
	return nil
}

func (r *run) consume(b *batch) error {
	for i := range b.digests {
		r.root.Write(b.digests[i][:])
	}
	if r.opt.Sink != nil {
		for _, s := range b.spans {
			digests := b.digests[s.first : s.first+s.chunks]
			if err := r.opt.Sink.Digests(r.in.Files[s.file].Path, s.from/int64(r.opt.ChunkBytes), digests); err != nil {
				return &Error{Kind: OutputFailed, Err: err}
			}
		}
	}
	r.chunks += int64(len(b.digests))
	r.bytes += b.bytes
	r.verified += b.checked
	if r.opt.Progress != nil {
		r.opt.Progress(int64(len(b.digests)), b.bytes)
	}
	return nil
}
