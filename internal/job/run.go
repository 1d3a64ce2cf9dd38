package job

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync"
	"time"

	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
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
// everything and is returned; no goroutine, buffer or file stays behind. The
// errors are of type *Error, with the kinds ReadFailed, FileChanged,
// DigestMismatch, EngineFailed, OutputFailed, InvalidArgument and Canceled. A
// failure of the engine or the sink is wrapped, not replaced.
//
// When ctx ends, Run returns after the reads and the batches in progress.
func Run(ctx context.Context, in *Input, engine Engine, opt Options) (Result, error) {
	if err := CheckChunkBytes(int64(opt.ChunkBytes)); err != nil {
		return Result{}, err
	}
	if opt.open == nil {
		opt.open = in.open
	}
	r := &run{in: in, engine: engine, places: engine.Places(), opt: opt, rounds: opt.Rounds, root: sha256.New()}
	if e := engine.Rehasher(); e != nil && opt.Rounds > 0 {
		r.rounds, r.rehash = 0, e
	}
	workers, batchBytes := opt.Workers, 0
	for _, place := range r.places {
		batchBytes = max(batchBytes, place.BatchBytes)
		if opt.Workers < 1 {
			workers += place.Workers
		}
	}
	r.layout = in.layout(opt.ChunkBytes, workers, cmp.Or(opt.BatchBytes, batchBytes))
	r.plan = &planner{in: in, chunk: opt.ChunkBytes, open: opt.open}
	r.shares = deal(r.places, r.layout.workers, opt.Workers < 1)
	r.total = in.Chunks(opt.ChunkBytes)
	r.verifyPlan = opt.Verify.resolve(in.Bytes, r.total)
	r.free = make(chan *batch, r.layout.slots+1)
	return r.do(ctx)
}

// deal gives every place one worker after the other, those that have enough left out if
// wishes count, until n are given. Devices then have as many as the one that got least.
func deal(places []Place, n int, wishes bool) []Share {
	shares := make([]Share, len(places))
	for i, place := range places {
		shares[i].Name = place.Name
	}
	for given := -1; given != 0 && n > 0; n -= given {
		given = 0
		for i, place := range places {
			if given < n && (!wishes || shares[i].Workers < place.Workers) {
				shares[i].Workers++
				given++
			}
		}
	}
	for i := len(places) - 1; i > 0; i-- {
		if before := &shares[i-1]; !places[i].CPU && shares[i].Workers > 0 {
			before.Workers = min(before.Workers, shares[i].Workers)
		}
	}
	return shares
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
	rounds     uint32   // that batches do
	rehash     Rehasher // does the rest; nil for nothing
	layout     layout
	plan       *planner
	verifyPlan Verify
	free       chan *batch // to be used again
	cpu        Busy
	began      sync.Once     // to read
	ready      time.Duration // when it began
	finished   time.Duration // when the last batch was taken
	total      int64         // chunks of the input

	root     hash.Hash
	chunks   int64
	bytes    int64
	verified int64
	shares   []Share // of all places
}

func (r *run) do(parent context.Context) (Result, error) {
	if parent.Err() != nil {
		return Result{}, canceled(parent)
	}
	began := time.Since(epoch)
	devices, workers, cores := 0, 0, 0
	for i, place := range r.places {
		switch n := r.shares[i].Workers; {
		case place.CPU:
			cores = n
		case n > 0:
			devices, workers = devices+1, n
		}
	}
	p, err := r.engine.Open(devices, workers, r.layout.shape, r.rehash != nil)
	if err != nil {
		return Result{}, &Error{Kind: EngineFailed, Detail: "opening " + r.engine.Name(), Err: err}
	}
	err = r.hash(parent, p, devices, workers, cores)
	r.plan.close()
	if closeErr := p.Close(); err == nil && closeErr != nil {
		err = &Error{Kind: EngineFailed, Detail: "closing " + r.engine.Name(), Err: closeErr}
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
		Workers:        devices*workers + cores,
		BatchBytes:     r.layout.shape.Bytes,
		MemoryBytes:    r.layout.bytes(),
		Setup:          r.ready - began,
		Elapsed:        r.finished - r.ready,
	}
	for i, share := range r.shares {
		if share.Workers > 0 {
			if share.Busy = r.cpu.Total(); !r.places[i].CPU {
				share.Busy = r.engine.Busy(i)
			}
			result.Shares = append(result.Shares, share)
		}
	}
	r.root.Sum(result.Root[:0])
	return result, nil
}

// epoch is what times count from.
var epoch = time.Now()

// hash streams the input through the pool. This goroutine gets the batches in their order.
func (r *run) hash(parent context.Context, p *pool.Pool, devices, workers, cores int) (err error) {
	var report pool.Report
	o := pool.StreamOptions[*batch, *batch]{Read: r.read, BufferBytes: r.layout.shape.Bytes, PerDevice: workers, Ahead: r.layout.slots, Cores: cores, Report: &report}
	if r.engine.Sharer() != nil {
		o.BufferBytes = 0
	}
	if cores > 0 {
		o.Fallback = r.onCPU
	}
	batches := pool.Stream(parent, p, r.batches, r.onDevice, o)
	if r.rehash != nil {
		batches = r.rehashed(parent, p, batches, devices)
	}
	for b, failed := range batches {
		if err = failed; err == nil {
			err = r.consume(b)
		}
		if err != nil {
			break
		}
	}
	if err == nil && len(report.Skipped) > 0 {
		err = report.Skipped[0].Err // others have done its work, and somebody has to look at it
	}
	known, _ := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return nil
	case known != nil:
		return known
	case parent.Err() != nil:
		return canceled(parent)
	}
	return &Error{Kind: EngineFailed, Detail: r.engine.Name(), Err: err}
}

// batches of the input.
func (r *run) batches(yield func(*batch, error) bool) {
	for {
		b := r.empty()
		if !r.plan.next(b, r.layout.shape) || !yield(b, nil) {
			return
		}
	}
}

// empty returns a batch to fill.
func (r *run) empty() *batch {
	select {
	case b := <-r.free:
		b.reset()
		return b
	default:
		return new(batch)
	}
}

// reuse lets empty return a batch.
func (r *run) reuse(b *batch) {
	select {
	case r.free <- b:
	default:
	}
}

// read reads a batch.
func (r *run) read(ctx context.Context, b *batch, buffer []byte) (int, error) {
	r.began.Do(func() { r.ready = time.Since(epoch) })
	last := b.Chunks[len(b.Chunks)-1]
	n := int(kernels.PaddedSize(last.Offset + uint64(last.Length)))
	if e := r.engine.Sharer(); e != nil {
		memory, err := e.Share()
		if err != nil {
			return 0, err
		}
		b.Shared, buffer = memory, memory.Bytes()
		b.Data = buffer[:n]
		return 0, r.plan.read(ctx, b, buffer)
	}
	return n, r.plan.read(ctx, b, buffer)
}

// onDevice hashes a batch on a device.
func (r *run) onDevice(w *pool.Worker, b *batch, data *runtime.HostBuffer[byte]) (*batch, error) {
	b.place, b.Host = w.Index(), data
	if data != nil {
		b.Data = data.Data()
	}
	return b, r.hashed(w.CallContext(), b, func() error { return r.engine.Hash(w, &b.Batch) })
}

// onCPU hashes a batch on a core: the job goes on with that after no failure of a device.
func (r *run) onCPU(ctx context.Context, b *batch, data []byte) (*batch, error) {
	if b.failed != nil {
		return nil, b.failed
	}
	b.place = len(r.places) - 1
	if b.Shared == nil {
		b.Data = data
	}
	return b, r.hashed(ctx, b, func() error {
		began := time.Since(epoch)
		defer func() { r.cpu.Add(began, time.Since(epoch)) }()
		return b.HashOnCPU(ctx)
	})
}

// hashed hashes a batch and verifies it.
func (r *run) hashed(ctx context.Context, b *batch, hash func() error) error {
	b.Rounds, b.Digests = r.rounds, slices.Grow(b.Digests[:0], len(b.Chunks))[:len(b.Chunks)]
	b.failed = hash()
	switch {
	case b.failed != nil && ctx.Err() != nil:
		b.failed = canceled(ctx)
	case b.failed != nil:
		path, number := r.where(b, 0)
		b.failed = &Error{Kind: EngineFailed, Path: path, Err: b.failed,
			Detail: fmt.Sprintf("%s: hashing %d chunks from chunk %d of this file on", r.places[b.place].Name, len(b.Chunks), number)}
	default:
		b.failed = r.verify(ctx, b)
	}
	b.Data, b.Host = nil, nil
	if b.Shared != nil && b.failed == nil {
		b.Shared.Return()
		b.Shared = nil
	}
	return b.failed
}

// count counts a batch that is hashed for its place.
func (r *run) count(b *batch) {
	share := &r.shares[b.place]
	share.Chunks, share.Bytes = share.Chunks+int64(len(b.Digests)), share.Bytes+b.bytes
}

// consume takes a batch that is done, with its rounds.
func (r *run) consume(b *batch) error {
	if r.rehash == nil {
		r.count(b)
	}
	for i := range b.Digests {
		r.root.Write(b.Digests[i][:])
	}
	if r.opt.Sink != nil {
		for _, s := range b.spans {
			digests := b.Digests[s.first : s.first+s.chunks]
			if err := r.opt.Sink.Digests(r.in.Files[s.file].Path, s.from/int64(r.opt.ChunkBytes), digests); err != nil {
				return &Error{Kind: OutputFailed, Err: err}
			}
		}
	}
	r.chunks += int64(len(b.Digests))
	r.bytes += b.bytes
	r.verified += b.checked
	if r.opt.Progress != nil {
		r.opt.Progress(int64(len(b.Digests)), b.bytes)
	}
	r.reuse(b)
	r.finished = time.Since(epoch)
	return nil
}
