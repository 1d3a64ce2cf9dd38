package pool

import (
	"cmp"
	"context"
	"errors"
	"iter"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/runtime"
)

// StreamOptions are the choices of [Stream]. The zero value is right for pieces that f gets by itself. Numbers of pieces are
// 1,048,576 at most.
type StreamOptions[In, Out any] struct {
	// Read brings the data of a piece into a buffer of BufferBytes, and returns how many bytes they are. The buffer is page-locked
	// where there is a device. Read is called for several pieces at the same time, and not in order. Without BufferBytes, the piece
	// itself keeps what Read has read.
	Read        func(ctx context.Context, in In, buffer []byte) (int, error)
	BufferBytes int
	// Readers is how many pieces are read for devices at the same time. 0 is as many as pay: 12 for one device, 16 for more, but
	// no more than there are cores.
	Readers int
	// PerDevice is how many pieces a device has at a time, read or done, and so how many buffers. It has no more than the device
	// has streams. 0 is two for each reader, or 16 where many devices share the readers.
	PerDevice int
	// Ahead is how many pieces may be under way or done before the caller has taken the first of them. 0 is four for each piece
	// that the devices have at a time.
	Ahead int
	// Retry is how often a piece that has failed is repeated on another device.
	Retry int
	// Devices and Suits are as in [DoOptions]. Suits is asked once for a loop.
	Devices []int
	Suits   func(runtime.Device) bool
	// Fallback does a piece on the CPU, if no device can. data are what Read has read, as the tries of f have left it. As many run at
	// the same time in a pool as there are cores.
	Fallback func(ctx context.Context, in In, data []byte) (Out, error)
	// Cores is how many pieces Fallback does at a time beside the devices. Under runtime.PolicyRequired it does none.
	Cores int
	// Report, if it is not nil, is set when the sequence ends. It has a tile for each device and for the CPU, with as many items as
	// pieces were done there; which ones is not kept. Reason and Err are those of the last piece that no device did. The other devices have done the pieces of those that were skipped.
	Report *Report
}

// Stream does the pieces of a source on the devices of the pool, and yields the results in the order of the source. Pieces are
// taken from source when there is room for them, one at a time. f does a piece with a worker, as the function of [Pool.Do] does a
// request, for several pieces at the same time. data is what Read of the options has read, or nil. Neither f nor Fallback may keep it. What f
// writes there is what its next try, on another device, and Fallback get.
//
//	for digest, err := range pool.Stream(ctx, p, files, hash, pool.StreamOptions[string, Digest]{Read: read, BufferBytes: 1 << 20}) {
//		if err != nil {
//			return err
//		}
//		root.Write(digest[:])
//	}
//
// The sequence ends with the first error: of source, of Read, of f after its tries, or the cause of ctx. A panic of one of them
// is a [*PanicError]. An error of source comes after the results before it, any other one at once. When the loop ends, also by break
// or by a panic, the contexts of all functions end, and Stream waits for them. It waits for source too, if that is being asked: source
// should end with ctx.
//
// Memory is bounded: by a buffer for each piece of a device, and by Ahead results. A caller who is slow slows down the source. A device
// that is slower than others gets fewer pieces at a time, so that they need not wait for its results.
//
// What [Pool.Do] promises holds for each piece: quarantine, another device where one cannot be prepared or Retry allows it, the
// fallback and who hears of it. Requests of Do go on beside a stream, in turn with its pieces. The first piece is refused
// with [ErrQueueFull] if it had to wait in a queue that is full. [Pool.Close] waits for a stream that has begun. f must not call
// the pool; source, Read and the caller's loop may.
//
// Each loop over the sequence asks source anew. Its first piece makes the buffers and prepares the streams of the devices, which takes some milliseconds.
func Stream[In, Out any](ctx context.Context, p *Pool, source iter.Seq2[In, error], f func(w *Worker, in In, data *runtime.HostBuffer[byte]) (Out, error), options ...StreamOptions[In, Out]) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		o, err := one(options)
		s := &stream[In, Out]{StreamOptions: o, pool: p, f: f, report: Report{Device: driver.NoDevice}}
		err = cmp.Or(err, p.check(ctx, source != nil && f != nil), s.check())
		if err == nil {
			err = s.run(ctx, source, yield)
		}
		if err != nil && !s.left {
			var none Out
			yield(none, err)
		}
	}
}

// stream is one call of Stream.
type stream[In, Out any] struct {
	StreamOptions[In, Out]
	pool    *Pool
	f       func(*Worker, In, *runtime.HostBuffer[byte]) (Out, error)
	ctx     context.Context // of the functions
	cancel  context.CancelCauseFunc
	next    func() (In, error, bool)
	lanes   []*lane[In, Out]
	running sync.WaitGroup // lanes
	left    bool           // the caller has left the loop, by break or by a panic

	// A lane that takes a piece has these in their order: a permit of its place, room for a result, and the turn to ask the source.
	room, turn chan struct{}
	drained    chan struct{} // closed when the source has no more
	reading    chan struct{} // has a token for each piece that is read for a device
	changed    chan struct{} // a result has arrived, or the source has no more

	first     *In       // was taken before there were lanes
	options   DoOptions // of each piece
	mu        sync.Mutex
	pulled    int // pieces
	taken     int // results
	results   []arrival[Out]
	sourceErr error
	places    places
	report    Report
}

type arrival[Out any] struct {
	out  Out
	here bool
}

// errLoopEnded ends the contexts of the functions when the sequence ends.
var errLoopEnded = errors.New("the loop over the results has ended")

// check checks the options.
func (s *stream[In, Out]) check() error {
	switch {
	case s.Read == nil && s.BufferBytes > 0:
		return driver.Errorf(driver.ErrInvalidArgument, "buffers of %d bytes (BufferBytes), and no Read that fills them", s.BufferBytes)
	case s.Cores > 0 && s.Fallback == nil:
		return driver.Errorf(driver.ErrInvalidArgument, "Cores (%d) need a Fallback, which does the pieces", s.Cores)
	case s.BufferBytes > 0 && s.pool != nil && s.pool.remote != nil:
		return driver.Errorf(driver.ErrInvalidArgument, "a pool of processes has no page-locked memory: let Read fill memory that they share, without BufferBytes")
	}
	for _, n := range []number{{"Readers", int64(s.Readers)}, {"PerDevice", int64(s.PerDevice)}, {"Ahead", int64(s.Ahead)}, {"Cores", int64(s.Cores)}} {
		if n.value > mostPieces {
			return driver.Errorf(driver.ErrInvalidArgument, "%s is %d: want %d at most", n.name, n.value, mostPieces)
		}
		if err := notNegative(n); err != nil {
			return err
		}
	}
	return notNegative(number{"BufferBytes", int64(s.BufferBytes)}, number{"Retry", int64(s.Retry)})
}

// mostPieces is the most that a stream has at a time of anything: there is room for each result before it comes.
const mostPieces = 1 << 20

// run does the pieces. It returns why the sequence ends early, or nil.
func (s *stream[In, Out]) run(parent context.Context, source iter.Seq2[In, error], yield func(Out, error) bool) (err error) {
	p := s.pool
	if err := p.begin(); err != nil {
		return err
	}
	defer p.end()
	parent, end := p.rt.TraceRequest(parent, "pool.Stream")
	began := time.Now()
	if parent.Value(turnOf{p}) != nil {
		parent = &marked{parent, turnOf{p}} // its fallbacks must not wait for the one that calls Stream
	}
	s.ctx, s.cancel = context.WithCancelCause(parent)
	s.turn, s.drained, s.changed = make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 1)
	next, stop := iter.Pull2(source)
	s.next, s.left = next, true
	defer func() {
		s.cancel(errLoopEnded)
		s.running.Wait()
		failed := errors.Join(contain.Do(func() error { stop(); return nil }), s.close())
		if err == nil {
			err = failed
		}
		s.report.Wall = time.Since(began)
		if s.Report != nil {
			*s.Report = s.report
		}
		if end != nil {
			end(runtime.TraceRequest{Device: driver.NoDevice, Where: string(s.report.Where), Reason: string(s.report.Reason), Items: s.taken, Ran: s.report.Wall, Err: err})
		}
	}()
	if s.ctx.Err() == nil {
		if in, _, more := s.pull(); more {
			s.first = &in
			s.start()
			if !s.yieldAll(yield) {
				return nil
			}
		}
	}
	s.left = false
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isDrained() && s.taken == s.pulled {
		return s.sourceErr
	}
	return context.Cause(s.ctx)
}

// pull asks the source. The caller has the turn.
func (s *stream[In, Out]) pull() (in In, number int, more bool) {
	if s.first != nil {
		in, s.first = *s.first, nil
		return in, 0, true
	}
	if s.isDrained() {
		return in, 0, false
	}
	err := contain.Do(func() (err error) {
		in, err, more = s.next()
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || !more {
		s.sourceErr = err
		close(s.drained)
		s.signal()
		return in, 0, false
	}
	s.pulled++
	return in, s.pulled - 1, true
}

func (s *stream[In, Out]) isDrained() bool {
	select {
	case <-s.drained:
		return true
	default:
		return false
	}
}

// start makes the lanes. They wait for each other before they take a piece.
func (s *stream[In, Out]) start() {
	p := s.pool
	var devices []*device
	s.options = DoOptions{Retry: s.Retry, Devices: s.Devices, Suits: s.Suits}
	all, err := p.selectDevices(s.Devices) // without a device each piece hears why
	if err == nil && s.Suits != nil {
		var others []runtime.Device
		all, others, err = pick(all, s.Suits)
		s.report.Skipped = others
		if err == nil {
			s.options.Suits, s.options.Devices = nil, ordinals(all)
		}
	}
	for _, d := range all {
		if info, leftOut := p.state(d); leftOut || errors.Is(info.Err, driver.ErrDeviceLost) {
			s.skip(info)
		} else {
			devices = append(devices, d)
		}
	}
	cores := goruntime.GOMAXPROCS(0)
	readers, perDevice := cores, 0
	if len(devices) > 0 {
		readers, perDevice = Readers(len(devices))
	}
	readers = cmp.Or(s.Readers, readers)
	perDevice = min(cmp.Or(s.PerDevice, perDevice), p.streams)
	for i, d := range devices {
		s.places.add(perDevice, len(devices) > 1)
		for range perDevice {
			s.lanes = append(s.lanes, &lane[In, Out]{stream: s, place: i, device: d})
		}
	}
	onCPU := s.Cores
	switch {
	case len(devices) == 0:
		onCPU = cmp.Or(s.Cores, cores)
	case p.rt.Policy() == runtime.PolicyRequired:
		onCPU = 0
	}
	for range onCPU {
		s.lanes = append(s.lanes, &lane[In, Out]{stream: s, place: len(devices), beside: len(devices) > 0})
	}
	s.places.add(onCPU, false)
	s.results = make([]arrival[Out], cmp.Or(s.Ahead, 4*len(s.lanes)))
	s.room, s.reading = make(chan struct{}, len(s.results)), make(chan struct{}, readers)
	for range s.results {
		s.room <- struct{}{}
	}
	s.turn <- struct{}{}
	var ready sync.WaitGroup
	var usable atomic.Int64
	ready.Add(len(s.lanes))
	for _, l := range s.lanes {
		s.running.Go(func() { l.work(&ready, &usable) })
	}
}

// yieldAll gives the caller the results in their order. It is false if the caller leaves.
func (s *stream[In, Out]) yieldAll(yield func(Out, error) bool) bool {
	for s.ctx.Err() == nil {
		s.mu.Lock()
		at := &s.results[s.taken%len(s.results)]
		r := *at
		if r.here {
			*at = arrival[Out]{}
			s.taken++
		}
		over := s.isDrained() && s.taken == s.pulled
		s.mu.Unlock()
		if r.here {
			if !yield(r.out, nil) {
				return false
			}
			s.room <- struct{}{}
		}
		if over {
			break
		}
		if !r.here {
			select {
			case <-s.changed:
			case <-s.ctx.Done():
			}
		}
	}
	return true
}

// signal wakes the caller, if it waits.
func (s *stream[In, Out]) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// skip reports a device that cannot be used, once for all its lanes.
func (s *stream[In, Out]) skip(info runtime.Device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteSkipped(info)
}

func (s *stream[In, Out]) noteSkipped(info runtime.Device) {
	if !slices.ContainsFunc(s.report.Skipped, func(d runtime.Device) bool { return d.Ordinal == info.Ordinal }) {
		s.report.Skipped = append(s.report.Skipped, info)
	}
}

// tile adds a piece to the report.
func (s *stream[In, Out]) tile(piece *Report) {
	tiles := &s.report.Tiles
	at := slices.IndexFunc(*tiles, func(t TileReport) bool { return t.Device == piece.Device })
	if at < 0 {
		at = len(*tiles)
		*tiles = append(*tiles, TileReport{Device: piece.Device, Done: true})
	}
	t := &(*tiles)[at]
	t.Hi++
	t.Compute += piece.Wall
	t.Retries += max(piece.Tries-1, 0)
	if s.report.Where != OnGPU {
		s.report.Where = piece.Where
	}
}

// close closes the buffers.
func (s *stream[In, Out]) close() error {
	var errs []error
	for _, l := range s.lanes {
		errs = append(errs, l.host.Close())
	}
	return errors.Join(errs...)
}
