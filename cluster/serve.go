package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/traceparent"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

// maxDeliveries is how many hosts may begin a piece and fall silent.
const maxDeliveries = 5

// Serve serves functions with the devices of a group or of a pool, until ctx ends. functions are names of [isolate.Register]; nil
// is all. A group survives kernels that fault or never end. With a pool they do what they do to any program.
//
// When ctx ends, Serve takes no more pieces, and those that run may end ([WithDrain]). What is left goes to other hosts. A device
// that fails takes its slots away until it works again. A lost connection ends nothing: Serve goes on when it is
// back.
//
// The error is nil after ctx has ended, unless the connection was closed or the server refuses what Serve needs ([ErrPermission]). Serve
// returns within its drain and 10 s. Where a function heeds no context the error is [driver.ErrTimeout], and the function runs on.
// The group or the pool and the connection stay the caller's.
func Serve[D *isolate.Group | *pool.Pool](ctx context.Context, nc *nats.Conn, devices D, functions []string, options ...Option) error {
	config, err := configured(atServe, nil, options)
	if err != nil {
		return err
	}
	if ctx == nil || nc == nil {
		return driver.Errorf(driver.ErrInvalidArgument, "Serve takes a context and a connection")
	}
	h := &host{config: config, nc: nc, names: names(config.name), self: Host{ID: config.hostName + "." + nuid.Next(), Name: config.hostName}, failed: make(chan error, 1), stopped: make(chan struct{}),
		held: map[*held]bool{}, answers: map[string]*answer{}, cancelled: map[string]time.Time{}, average: shortPiece}
	h.room.max = config.memory / 4 * 3
	if h.devices, err = devicesOf(devices, config); err != nil {
		return err
	}
	known := isolate.Functions()
	if functions == nil {
		functions = known
	}
	for _, f := range functions {
		if !slices.Contains(known, f) && config.cpu[f] == nil {
			return driver.Errorf(driver.ErrInvalidArgument, "no function %.40q was registered (isolate.Register); there are: %q", f, known)
		}
		if _, err := functionToken(h.wire(f)); err != nil {
			return err
		}
	}
	if len(functions) == 0 {
		return driver.Errorf(driver.ErrInvalidArgument, "Serve takes functions, and none was registered (isolate.Register)")
	}
	h.functions = slices.Clone(functions)
	h.self.Build, h.self.Pieces = Build(), map[string]Pieces{}
	if h.js, err = jetstream.New(nc); err != nil {
		return err
	}
	if h.source, err = newSource(h.js, config); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		defer h.close()
		ended <- h.serve(ctx)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	case <-h.stopped:
	}
	limit := time.NewTimer(h.drain + endWithin)
	defer limit.Stop()
	select {
	case err := <-ended:
		return err
	case <-limit.C:
		return driver.Errorf(driver.ErrTimeout, "Serve goes on in the background: its pieces or its connection did not end within %v (WithDrain) and %v more, though they were told to; there are %s", h.drain, endWithin, h.remain())
	}
}

// endWithin is how long Serve may take to end besides its drain: what is left is a function that heeds no ctx, or a connection that
// takes nothing.
const endWithin = 10 * time.Second

// remain says what did not end.
func (h *host) remain() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	functions := map[string]int{}
	for w := range h.held {
		functions[w.function]++
	}
	return fmt.Sprintf("%d pieces: %v", len(h.held), functions)
}

// close frees what Serve has made.
func (h *host) close() {
	if c, ok := h.devices.(*children); ok {
		c.close()
	}
	h.source.close()
}

// host serves.
type host struct {
	*config
	nc      *nats.Conn
	js      jetstream.JetStream
	names   names
	devices devices
	source  *source
	// functions are those of Serve, and self.Functions those that can run now.
	functions []string
	heads     heads[pieceHead]
	base      context.Context // of the functions
	inbox     string          // of what the server says about results
	failed    chan error
	room      budget        // for references and large data
	stopped   chan struct{} // closed when Serve ends before its ctx

	looking sync.Mutex // one after the other, so that the newest state stays

	mu        sync.Mutex
	self      Host
	pullers   []*puller
	queue     []*held // that wait for a slot
	held      map[*held]bool
	bytes     int64              // that came with their messages
	answers   map[string]*answer // that the server has not acknowledged, by the last token of its answer
	answered  uint64
	connects  uint64
	cancelled map[string]time.Time // calls that have ended, and when
	average   time.Duration        // of the last pieces
	draining  bool
	parked    []chan *held // goroutines without a piece, the one that ran last at the end: its stack has grown
	work      sync.WaitGroup
}

// held is a piece that this host has fetched.
type held struct {
	function string
	token    string // the function as part of a subject
	piece    string // CALLER.CALL.PIECE
	head     pieceHead
	data     []byte
	reply    string          // for the acknowledgement, of a piece from the queue
	tries    uint64          // deliveries
	ctx      context.Context // of the function
	cancel   context.CancelFunc
	began    time.Time // when it began to run
	got      time.Time
	free     func() // gives back the memory of the result, where that is a buffer. The host's lock is held
}

// answer is what a host publishes about a piece.
type answer struct {
	*held
	head   resultHead
	result []byte
	try    string // the last token of its subject
	acked  bool   // the piece is
	at     time.Time
}

func (h *host) serve(ctx context.Context) error {
	var stop context.CancelFunc
	h.base, stop = context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var subs []*nats.Subscription
	defer func() {
		for _, s := range subs {
			_ = s.Unsubscribe() // an error says that the connection is closed
		}
	}()
	subscribe := func(subject string, f nats.MsgHandler) error {
		s, err := h.nc.Subscribe(subject, f)
		if err != nil {
			return classify(h.nc, "subscribing to "+subject, err)
		}
		subs = append(subs, s)
		return s.SetPendingLimits(-1, -1)
	}
	h.inbox = h.nc.NewInbox() + "."
	h.connects = h.nc.Stats().Reconnects
	err := errors.Join(subscribe(h.inbox+"*", h.acknowledged), subscribe(h.names.subject("host", h.self.ID), h.sent), subscribe(h.names.cancel(), h.cancelCall),
		subscribe(h.names.ask(), func(*nats.Msg) { h.say(false) }))
	if err != nil {
		return err
	}
	for _, function := range h.functions {
		h.pullers = append(h.pullers, newPuller(h, function))
	}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.draining = true
		h.giveBackQueue()
	}()
	h.tick()
	h.tell(false)
	tick := time.NewTicker(healthEvery / 4)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return h.drainOut(stop)
		case err := <-h.failed:
			h.stopAll(stop)
			return err
		case <-tick.C:
		}
		if h.nc.IsClosed() {
			h.stopAll(stop)
			return driver.Errorf(ErrDisconnected, "the connection is closed")
		}
		h.tick()
		if n%4 == 0 {
			h.tell(false)
			h.beat()
		}
	}
}

// drainOut ends what runs, within the limit.
func (h *host) drainOut(stop context.CancelFunc) error {
	h.mu.Lock()
	h.draining = true
	h.giveBackQueue()
	h.mu.Unlock()
	h.tell(false)
	done := make(chan struct{})
	go func() {
		h.work.Wait()
		close(done)
	}()
	limit := time.NewTimer(h.drain)
	defer limit.Stop()
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			h.tell(true)
			return classify(h.nc, "telling the end", h.flush())
		case <-limit.C:
			h.giveUp(stop)
		case <-tick.C:
			h.late()
			h.beat()
			h.tell(false)
		}
	}
}

func (h *host) flush() error {
	if !h.nc.IsConnected() {
		return nil // the server has noticed the end
	}
	return h.nc.FlushTimeout(5 * time.Second)
}

// cancelRunning stops what runs.
func (h *host) cancelRunning() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.held {
		if w.cancel != nil {
			w.cancel()
		}
	}
}

// stopAll ends without a connection.
func (h *host) stopAll(stop context.CancelFunc) {
	close(h.stopped)
	h.giveUp(stop)
	h.work.Wait()
}

// giveUp stops what runs, and does not wait for the server's answers any more.
func (h *host) giveUp(stop context.CancelFunc) {
	h.mu.Lock()
	h.draining = true
	h.giveBackQueue()
	stop()
	for token, a := range h.answers {
		delete(h.answers, token)
		delete(h.held, a.held)
		h.work.Done()
	}
	h.mu.Unlock()
	h.cancelRunning()
}

// runs tells whether this host can run a function now. h.mu is held.
func (h *host) runs(function string) bool {
	return !h.draining && h.self.Slots > 0 && slices.Contains(h.self.Functions, function)
}

// giveBackQueue asks for no more pieces of the functions that cannot run, and gives back what waits of them. h.mu is held.
func (h *host) giveBackQueue() {
	if h.draining {
		for _, wake := range h.parked {
			close(wake)
		}
		h.parked = nil
	}
	for _, p := range h.pullers {
		if !h.runs(p.function) {
			p.stop()
		}
	}
	h.queue = slices.DeleteFunc(h.queue, func(w *held) bool {
		if h.runs(w.function) {
			return false
		}
		h.release(w)
		h.giveBack(w, 0)
		return true
	})
}

// giveBack gives a piece to another host, after a time in which this one can stop asking for pieces. It tells the caller, which
// counts the hosts that fell silent.
func (h *host) giveBack(w *held, after time.Duration) {
	h.note(w, isolate.EncodeError(driver.Errorf(ErrNoWorker, "host %s has no room", h.self.Name)))
	if w.reply != "" {
		_ = h.nc.Publish(w.reply, fmt.Appendf(nil, `-NAK {"delay":%d}`, after)) // if it is lost, the silence tells
	}
}

// note tells the caller something about a piece that is no result.
func (h *host) note(w *held, text json.RawMessage) {
	m, err := message(h.names.subject("begin", w.token, h.self.Name, w.piece), resultHead{Device: driver.NoDevice, Try: w.head.Try, Error: text}, 0, nil)
	if err == nil {
		_ = h.nc.PublishMsg(m) // the caller has a deadline
	}
}

// sent takes a piece that a caller has sent to this host.
func (h *host) sent(m *nats.Msg) {
	w := &held{got: time.Now(), tries: 1}
	var err error
	if w.head, _, w.data, err = h.heads.read(m); err != nil {
		return
	}
	w.function, w.piece = w.head.Function, w.head.Piece
	if w.token, err = functionToken(h.wire(w.function)); err != nil || w.head.check(w.piece) != nil {
		return
	}
	h.mu.Lock()
	full := len(h.queue) > 2*h.self.Slots
	known := h.has(w) != nil // the connection was lost, and the caller does not know whether this host has the piece
	h.mu.Unlock()
	if full && !known {
		h.giveBack(w, 0)
		return
	}
	h.note(w, nil) // or the caller sends it again
	if !known {
		h.add(w)
	}
}

// has is a piece that this host has already and gets once more, or nil. h.mu is held.
func (h *host) has(w *held) *held {
	for other := range h.held {
		if other.piece == w.piece && other.head.Try == w.head.Try {
			return other
		}
	}
	return nil
}

// inTime tells whether a piece waits, or runs within its deadline.
func (w *held) inTime() bool {
	return w.began.IsZero() || time.Since(w.began) < w.head.Deadline+ackWait
}

// add queues a piece.
func (h *host) add(w *held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.tries > 1 {
		if other := h.has(w); other != nil && other.inTime() { // beat came late. The acknowledgement of one delivery is that of all
			return
		}
	}
	call, _ := splitLast(w.piece)
	switch _, over := h.cancelled[call]; {
	case over:
		h.ack(w)
		return
	case !h.runs(w.function):
		h.giveBack(w, 0)
		return
	case len(h.held) > 0 && h.bytes+int64(len(w.data)) > h.memory/4:
		h.giveBack(w, healthEvery)
		return
	}
	h.held[w] = true
	h.bytes += int64(len(w.data))
	h.queue = append(h.queue, w)
	h.dispatch()
}

// dispatch starts what there are slots for, and asks for more. h.mu is held.
func (h *host) dispatch() {
	for w := h.take(); w != nil; w = h.take() {
		if last := len(h.parked) - 1; last >= 0 {
			h.parked[last] <- w // it has room
			h.parked = h.parked[:last]
			continue
		}
		h.work.Go(func() { h.doAll(w) })
	}
	if h.draining {
		return
	}
	for _, p := range h.pullers {
		p.pull()
	}
}

// take takes a piece that can run from the queue, or nil. h.mu is held.
func (h *host) take() *held {
	if len(h.queue) == 0 || h.self.Busy >= h.self.Slots {
		return nil
	}
	w := h.queue[0]
	h.queue = h.queue[1:]
	h.self.Busy++
	w.ctx, w.cancel = context.WithTimeout(traceparent.With(h.base, w.head.Trace), w.head.Deadline)
	w.began = time.Now()
	return w
}

// doAll does a piece, and those that come after it.
func (h *host) doAll(w *held) {
	defer func() {
		if w != nil { // a function has ended the goroutine
			h.work.Go(func() { h.doAll(w) })
		}
	}()
	for w != nil {
		h.do(w, func(next *held) { w = next })
		if w == nil {
			w = h.park()
		}
	}
}

// park waits for another piece, as many goroutines as there are slots. A new one would copy its stack several times while it grows,
// which costs as much as a short piece. The result is nil when Serve ends.
func (h *host) park() *held {
	h.mu.Lock()
	w := h.take()
	if w != nil || h.draining || len(h.parked) >= h.self.Slots {
		h.mu.Unlock()
		return w
	}
	wake := make(chan *held, 1)
	h.parked = append(h.parked, wake)
	h.mu.Unlock()
	return <-wake
}

// do does a piece, and calls then with another one for its slot, or nil.
func (h *host) do(w *held, then func(next *held)) {
	defer w.cancel()
	var result []byte
	report := pool.Report{Device: driver.NoDevice}
	contain.Call(func() (err error) {
		if w.tries > 1 {
			h.note(w, nil)
			_ = h.nc.FlushTimeout(100 * time.Millisecond) // the note is out before the function can end this process
		}
		if w.tries > maxDeliveries { // the caller, which knows how many fell silent, may end the call
			select {
			case <-w.ctx.Done():
				return context.Cause(w.ctx)
			case <-time.After(100 * time.Millisecond):
			}
		}
		result, report, err = h.call(w.ctx, w)
		return err
	}, func(err error) { then(h.done(w, result, report, err)) })
}

// done takes what a piece has become, and returns another one for its slot, or nil.
func (h *host) done(w *held, result []byte, report pool.Report, err error) (next *held) {
	if err != nil {
		h.look() // a host whose devices are lost would fail all pieces of the queue in no time
	}
	h.mu.Lock()
	h.self.Busy--
	call, _ := splitLast(w.piece)
	_, over := h.cancelled[call]
	if report.Wall > 0 {
		h.average += (report.Wall - h.average) / 8
	}
	absent := err != nil && temporary(&report, err)
	back := err != nil && !over && (h.draining || h.base.Err() != nil || absent) && !errors.Is(w.ctx.Err(), context.DeadlineExceeded)
	failed := err != nil && !back && !over
	if err == nil || failed {
		h.count(w.function, report.Wall, failed)
	}
	next = h.take()
	h.dispatch()
	h.mu.Unlock()
	if failed && h.log.Enabled(context.Background(), slog.LevelDebug) {
		h.log.Debug("a piece failed", "function", w.function, "piece", w.piece, "error", string(isolate.EncodeError(err)))
	}
	switch {
	case over:
		h.ack(w)
	case back && absent:
		h.giveBack(w, healthEvery)
	case back:
		h.giveBack(w, 0)
	default:
		h.answer(w, result, report, err)
		return next
	}
	h.forget(w)
	return next
}

// count counts a piece. h.mu is held.
func (h *host) count(function string, ran time.Duration, failed bool) {
	p := h.self.Pieces[function]
	p.Ran += ran
	if failed {
		p.Failed++
		h.self.Failed++
	} else {
		p.Done++
		h.self.Done++
	}
	h.self.Pieces[function] = p
}

// release counts a piece no more. h.mu is held.
func (h *host) release(w *held) {
	if h.held[w] {
		delete(h.held, w)
		h.bytes -= int64(len(w.data))
	}
}

func (h *host) forget(w *held) {
	h.mu.Lock()
	h.release(w)
	free := w.free
	w.free = nil
	h.mu.Unlock()
	if free != nil {
		free()
	}
}

// call gets the data and calls the function.
func (h *host) call(ctx context.Context, w *held) ([]byte, pool.Report, error) {
	report := pool.Report{Device: driver.NoDevice}
	data := w.data
	sizes := make([]int64, len(w.head.Refs))
	total := int64(0)
	for i := range w.head.Refs {
		r := &w.head.Refs[i]
		if err := r.check(); err != nil {
			return nil, report, err
		}
		if total += r.Length; r.Length == 0 || total > maxRef {
			return nil, report, driver.Errorf(driver.ErrInvalidArgument, "references with %d bytes, and %d in all: want 1 to %d", r.Length, total, maxRef)
		}
		sizes[i] = r.Length
	}
	if n := w.head.Result; n > 0 {
		if n > maxRef-total {
			return nil, report, driver.Errorf(driver.ErrInvalidArgument, "a result of %d bytes, and references with %d: want at most %d", n, total, maxRef)
		}
		sizes, total = append(sizes, n), total+n
	}
	if w.head.Large != nil {
		total += max(w.head.Large.Length, 0)
	}
	free := func() {}
	defer func() { free() }()
	if total > 0 {
		if err := h.room.take(ctx, total); err != nil {
			return nil, report, err
		}
		free = func() { h.room.giveBack(total) }
	}
	if w.head.Large != nil {
		var err error
		if data, err = getObject(ctx, h.js, h.names, w.head.Large, maxData); err != nil {
			if err = classify(h.nc, "getting the data of the piece", err); !is(err, ErrPermission, driver.ErrInvalidArgument) {
				err = driver.Errorf(dataLost, "%w", err)
			}
			return nil, report, err
		}
	}
	var b buffers
	if len(sizes) > 0 {
		var back func()
		var err error
		if b, back, err = h.devices.memory(sizes); err != nil {
			return nil, report, err
		}
		free = func() {
			back()
			h.room.giveBack(total)
		}
		for i := range w.head.Refs {
			if err := h.source.fetch(ctx, &w.head.Refs[i], b.bytes[i]); err != nil {
				return nil, report, err
			}
		}
	}
	result, report, err := h.devices.run(ctx, w.function, data, b)
	switch {
	case err != nil:
	case len(result) > maxData:
		err = driver.Errorf(driver.ErrInvalidArgument, "a result of %d bytes: want at most %d, or a buffer (Piece.Result)", len(result), maxData)
	case w.head.Result > 0 && len(result) > 0:
		err = driver.Errorf(driver.ErrInvalidArgument, "%q returned %d bytes beside the buffer for its result (Piece.Result): want none", w.function, len(result))
	case w.head.Result > 0:
		result = b.bytes[len(b.bytes)-1]
		h.mu.Lock()
		w.free, free = free, func() {} // when it is published
		h.mu.Unlock()
	}
	return result, report, err
}

// ack tells the server that a piece needs no other delivery. It is not repeated: the caller would ask for the piece again.
func (h *host) ack(w *held) {
	if w.reply != "" {
		_ = h.nc.Publish(w.reply, []byte("+ACK")) // a lost one leads to a second result, which is refused
	}
}

// answer publishes what became of a piece. It does not wait for the server.
func (h *host) answer(w *held, result []byte, report pool.Report, failed error) {
	a := &answer{held: w, try: "ok", result: result, at: time.Now(), head: resultHead{Try: w.head.Try,
		Device: report.Device, Where: report.Where, Reason: report.Reason, Ran: report.Wall}}
	if failed != nil {
		a.acked = true
		a.head.Error, a.try, a.result = isolate.EncodeError(failed), strconv.Itoa(w.head.Try), nil
		h.ack(w) // first: the caller may publish the piece again at once
	}
	if len(a.result) > inline(h.nc) || w.head.Result > 0 {
		h.work.Go(func() { h.insist(a, h.publish(a)) })
		return
	}
	m, err := h.message(a)
	if err != nil {
		h.insist(a, err)
		return
	}
	h.mu.Lock()
	if h.base.Err() != nil { // see stopAll
		h.release(w)
		h.mu.Unlock()
		return
	}
	h.answered++
	token := strconv.FormatUint(h.answered, 10)
	h.answers[token] = a
	h.work.Add(1) // by the goroutine of a piece, so that nobody waits for none yet
	h.mu.Unlock()
	m.Reply = h.inbox + token
	if err := h.nc.PublishMsg(m); err != nil {
		h.settle(token, err)
	}
}

// acknowledged takes what the server says about a result.
func (h *host) acknowledged(m *nats.Msg) {
	_, token := splitLast(m.Subject)
	h.settle(token, refusal(m))
}

// settle ends an answer that the server has, and insists on one that it has not.
func (h *host) settle(token string, err error) {
	h.mu.Lock()
	a := h.answers[token]
	delete(h.answers, token)
	h.mu.Unlock()
	if a == nil {
		return
	}
	defer h.work.Done()
	if err == nil || alreadyThere(err) {
		h.insist(a, nil)
		return
	}
	h.work.Go(func() { h.insist(a, err) })
}

// late insists on answers that the server should have acknowledged.
func (h *host) late() {
	reconnects := h.nc.Stats().Reconnects
	var all []string
	h.mu.Lock()
	for token, a := range h.answers {
		if reconnects != h.connects || time.Since(a.at) > answerWithin {
			all = append(all, token)
		}
	}
	h.connects = reconnects
	h.mu.Unlock()
	for _, token := range all {
		h.settle(token, nats.ErrTimeout)
	}
}

// insist publishes an answer until the server has it, and acknowledges the piece. err is of the first time.
func (h *host) insist(a *answer, err error) {
	defer h.forget(a.held)
	for wait := 50 * time.Millisecond; err != nil && !alreadyThere(err); wait = min(2*wait, time.Second) {
		err = classify(h.nc, "publishing a result", err)
		if is(err, ErrPermission) {
			select {
			case h.failed <- err:
			default:
			}
		}
		if h.nc.IsClosed() || h.base.Err() != nil || time.Since(a.got) > a.held.head.Deadline+time.Minute || is(err, ErrPermission) {
			h.log.Warn("a result could not be published", "piece", a.piece, "error", err)
			return // it will be delivered again
		}
		select {
		case <-h.base.Done():
		case <-time.After(wait):
		}
		err = h.publish(a)
	}
	if !a.acked {
		h.ack(a.held)
	}
}

// publish publishes an answer, through the object store if it is large, and waits for the server.
func (h *host) publish(a *answer) error {
	ctx, cancel := context.WithTimeout(h.base, storeWithin(int64(len(a.result))))
	defer cancel()
	if len(a.result) > inline(h.nc) { // each time: the server may have lost it
		ref, err := putObject(ctx, h.js, h.names, resultObject(a.piece, h.self.Name), a.result, h.config)
		if err != nil {
			return err
		}
		a.head.Large = ref
	}
	m, err := h.message(a)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		_, err = h.js.PublishMsg(ctx, m)
	}
	return err
}

// message is an answer as it is published.
func (h *host) message(a *answer) (*nats.Msg, error) {
	result := a.result
	if a.head.Large != nil {
		result = nil
	}
	m, err := message(h.names.subject("result", a.token, h.self.Name, a.piece, a.try), a.head, a.head.Ran, result)
	if err != nil {
		a.try, a.result = strconv.Itoa(a.head.Try), nil
		a.head = resultHead{Try: a.head.Try, Device: a.head.Device,
			Error: isolate.EncodeError(fmt.Errorf("an error that is too long for a message: %.4096s", a.head.Error))}
		m, err = message(h.names.subject("result", a.token, h.self.Name, a.piece, a.try), a.head, 0, nil)
	}
	return m, err
}

// maxCancelled is how many calls that have ended are known.
const maxCancelled = 1 << 14

// cancelCall stops the pieces of a call that has ended.
func (h *host) cancelCall(m *nats.Msg) {
	call := string(m.Data)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !isCall(call) || len(h.cancelled) >= maxCancelled { // what is not cancelled ends at its deadline
		return
	}
	h.cancelled[call] = time.Now()
	of := func(w *held) bool { return strings.HasPrefix(w.piece, call+".") }
	h.queue = slices.DeleteFunc(h.queue, func(w *held) bool {
		if of(w) {
			h.release(w)
			h.ack(w)
			return true
		}
		return false
	})
	for w := range h.held {
		if of(w) && w.cancel != nil {
			w.cancel()
		}
	}
	h.dispatch()
}

// look looks at the devices.
func (h *host) look() {
	h.looking.Lock()
	defer h.looking.Unlock()
	slots, runs, all := h.devices.state()
	var functions []string
	for _, f := range h.functions {
		if slots > 0 && runs(f) {
			functions = append(functions, f)
		}
	}
	h.mu.Lock()
	changed := slots != h.self.Slots || !slices.Equal(functions, h.self.Functions)
	h.self.Slots, h.self.Functions, h.self.Devices = slots, functions, all
	if changed {
		h.giveBackQueue()
	}
	h.mu.Unlock()
	if changed {
		h.say(false)
		h.log.Info("what this host can run has changed", "host", h.self.Name, "slots", slots, "functions", functions, "devices", all)
	}
}

// tick looks at the devices, the answers and the requests for pieces.
func (h *host) tick() {
	h.late()
	h.look()
	h.devices.idle(time.Now())
	h.mu.Lock()
	defer h.mu.Unlock()
	for call, at := range h.cancelled {
		if time.Since(at) > time.Minute {
			delete(h.cancelled, call)
		}
	}
	for _, p := range h.pullers {
		p.check()
		if _, free := h.space(); free <= 0 && p.open > 0 { // what is full asks for nothing, so that others get it
			p.stop()
		}
	}
	h.dispatch()
}

// beat tells the server that the pieces here are being done, each only within its own deadline: that this goroutine lives says
// nothing about a kernel that hangs.
func (h *host) beat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.held {
		if w.reply != "" && w.inTime() {
			_ = h.nc.Publish(w.reply, []byte("+WPI")) // another one follows
		}
	}
}

// tell tells callers and the observer how this host is.
func (h *host) tell(gone bool) {
	self := h.say(gone)
	if h.observe != nil {
		h.observe(self)
	}
}

// say tells callers.
func (h *host) say(gone bool) Host {
	h.mu.Lock()
	h.self.Waiting, h.self.Draining, h.self.Gone = len(h.queue), h.draining, gone
	self := h.self
	self.Functions, self.Pieces = slices.Clone(self.Functions), maps.Clone(self.Pieces)
	h.mu.Unlock()
	for i, f := range self.Functions {
		self.Functions[i] = h.wire(f)
	}
	text, err := json.Marshal(self)
	if err == nil {
		_ = h.nc.Publish(h.names.subject("health", self.ID), text) // another one follows
	}
	return self
}
