package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

// call is one call of Scatter and its kin. One goroutine has all of it but the events.
type call struct {
	*config
	cluster  *Cluster
	ctx      context.Context
	id       string // CALLER.CALL
	function string
	token    string
	parent   string // of the trace, for the hosts
	n        int
	make     func(i int) (Piece, error)
	take     func(i int, result []byte) error

	mu     sync.Mutex
	events []event
	signal chan struct{}

	flights map[int]*flight // pieces that were sent, by number
	bytes   int             // of their data
	storing int             // of them, those whose data are being stored
	stored  []event         // results in the object store, to get
	getting int             // of them, those that are being got, or wait for take
	within  context.Context // of what the call does in the background
	next    int             // the first piece that was never sent
	checks  int             // pieces that were sent to verify others: their numbers begin with n
	done    []outcome       // by number, the caller's truth
	left    int
	slots   int           // of the hosts
	average time.Duration // that the last pieces ran
	hosts   []Host        // that serve the function

	since      time.Time // when hosts or the connection were there last
	accepted   time.Time // when the last piece was done
	heard      time.Time // when a stream accepted or acknowledged something, or a result came
	asking     bool      // the streams are being asked how they are
	unheard    error     // of the last time, or nil
	unanswered bool      // a piece was published without an answer
	reconnects uint64
	trustAfter time.Time // hosts that are silent before it may be silent because the connection was
	lost       bool      // the server may have lost the streams
	recovering bool
	leftover   bool // a piece is done that a host keeps, and the server for it
	work       sync.WaitGroup
}

// outcome is what is kept of a piece that is done.
type outcome struct {
	done   bool
	host   string
	device int32
	tries  int32 // that failed
	where  pool.Place
	reason pool.Reason // why a CPU did it
	ran    time.Duration
	last   error // of the tries before
}

// flight is a piece that was sent.
type flight struct {
	number  int
	head    pieceHead
	data    []byte
	size    int
	host    string    // ID, of a piece for one host
	due     time.Time // when it should be done, or a host has lost it
	look    time.Time // when to look for its result, which may have been lost on its way
	looks   int
	again   time.Duration
	asked   time.Time // when a host got it, of a piece for one host
	askedOf string    // that host
	sent    time.Time // while the server has not said that it has it, or the host to which it was sent
	first   time.Time // when it was first sent to the queue
	resend  bool      // due is when to send it again, and not to look first
	storing bool      // the data are on their way to the object store
	tries   []error   // that failed, and of hosts that did not answer
	failed  int       // of these, those that count
	avoid   []string  // names of hosts that have failed, or whose result this piece verifies
	alone   time.Time // since when a verification waits for another host
	silent  int       // deliveries that began, as far as is known, and were not given back
	checked int       // the number of the piece that this one verifies, or -1
	// held is a result that is being verified, and heldHead is from whom. A piece that verifies has the same heldHead.
	held     []byte
	heldHead resultHead
}

type eventKind int

const (
	resultEvent eventKind = iota
	begunEvent
	publishedEvent // or refused
	absentEvent    // the server has no result
	lostEvent      // nor the data
	storedEvent    // or not
	gotEvent       // a result from the object store, or not
	recoveredEvent
	askedEvent // the streams have said how they are, or not
	hostsEvent
	closeEvent
)

type event struct {
	kind   eventKind
	token  string // the function that the host names
	number int
	head   resultHead
	data   []byte
	err    error
	at     time.Time // when the streams answered: a call that could not send for seconds hears of it late
}

// post adds an event, and never blocks.
func (k *call) post(e event) {
	k.mu.Lock()
	k.events = append(k.events, e)
	k.mu.Unlock()
	select {
	case k.signal <- struct{}{}:
	default:
	}
}

func newCall(ctx context.Context, c *Cluster, function string, n int, options []Option) (*call, error) {
	if ctx == nil || c == nil || c.nc == nil || n < 0 {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a call takes a context, a cluster of Open and a number of pieces that is not negative")
	}
	config, err := configured(atCall, c.config, options)
	if err != nil {
		return nil, err
	}
	token, err := functionToken(config.wire(function))
	if err != nil {
		return nil, err
	}
	return &call{config: config, cluster: c, ctx: ctx, function: function, token: token, n: n, signal: make(chan struct{}, 1),
		flights: map[int]*flight{}, done: make([]outcome, n), left: n, since: time.Now(), accepted: time.Now(), heard: time.Now(), average: shortPiece}, nil
}

// run does all pieces, or says why not.
func (k *call) run() error {
	c := k.cluster
	if err := c.begin(k); err != nil {
		return err
	}
	defer k.dropRest()
	defer c.end(k)
	defer k.work.Wait()
	ctx, cancel := context.WithCancel(k.ctx)
	defer cancel()
	k.within = ctx
	if err := k.prepare(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	k.reconnects, k.heard = c.nc.Stats().Reconnects, time.Now()
	err := k.look()
	for err == nil && k.left > 0 {
		if err = k.fill(); err != nil {
			break
		}
		select {
		case <-k.ctx.Done():
			err = context.Cause(k.ctx)
		case <-tick.C:
			err = k.tick(ctx)
		case <-k.signal:
			k.mu.Lock()
			events := k.events
			k.events = nil
			k.mu.Unlock()
			for i, e := range events {
				if err = k.handle(ctx, e); err != nil {
					k.stored = append(k.stored, events[i+1:]...) // for dropRest
					break
				}
			}
		}
	}
	if err != nil || k.leftover {
		k.cancel()
	}
	return err
}

// prepare makes the consumer, with the patience of the call.
func (k *call) prepare(ctx context.Context) error {
	for {
		err := k.reach(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(k.ctx)
		case scarce(err) && time.Since(k.since) <= k.patience:
		case is(err, ErrPermission, ErrQuota, driver.ErrUnsupported, driver.ErrInvalidArgument) || k.cluster.nc.IsClosed():
			return err
		case time.Since(k.since) > k.patience && !k.cluster.nc.IsConnected():
			return noConnection()
		case time.Since(k.since) > k.patience:
			return k.cluster.mute(k.patience, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// reach makes the consumer, once.
func (k *call) reach(ctx context.Context) error {
	c := k.cluster
	if !c.nc.IsConnected() {
		return noConnection()
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err := c.makeConsumer(ctx, k.token)
	if streamLost(err) {
		err = c.makeAgain(ctx, k.token)
	}
	return err
}

func noConnection() error {
	return driver.Errorf(ErrDisconnected, "there is no connection to a server of NATS")
}

// look looks at the hosts and the connection.
func (k *call) look() error {
	now := time.Now()
	c := k.cluster
	if c.nc.IsClosed() {
		return driver.Errorf(ErrDisconnected, "the connection is closed")
	}
	if !c.nc.IsConnected() {
		if now.Sub(k.since) > k.patience {
			return noConnection()
		}
		return nil
	}
	if k.unheard != nil && now.Sub(k.heard) > k.patience {
		return c.mute(k.patience, k.unheard)
	}
	k.hosts = c.serving(k.wire(k.function))
	slots := 0
	for _, h := range k.hosts {
		slots += h.Slots
	}
	k.slots = slots
	if slots > 0 {
		k.since = now
		return nil
	}
	if now.Sub(k.since) <= k.patience {
		return nil
	}
	if silent := now.Sub(k.heard); k.unheard == nil && silent > max(k.patience, 2*k.quiet()) { // the connection is dead, and nobody has noticed yet
		k.unheard = driver.Errorf(ErrDisconnected, "neither a host nor a stream was heard of for %v", silent.Round(time.Millisecond))
	}
	if k.unheard != nil {
		return c.mute(k.patience, k.unheard)
	}
	if !k.streamsAnswer() { // they are being asked: are the hosts gone, or is it the connection?
		return nil
	}
	return k.noWorker()
}

// waitingForHosts is how many pieces are in the queue at least. Where there is no host an autoscaler sees them, and starts one.
const waitingForHosts = 4

// noWorker says what there is in place of a host for the function.
func (k *call) noWorker() error {
	others := "no host was heard of"
	for i, h := range k.cluster.serving("") {
		if i == 8 {
			others += ", and others"
			break
		}
		if i == 0 {
			others = "there are: "
		} else {
			others += ", "
		}
		others += fmt.Sprintf("%.80q serves %.400q with %d slots", h.Name, h.Functions, h.Slots)
		for _, d := range h.Devices {
			if d.Err != "" {
				others += fmt.Sprintf(" (device %d: %.200q)", d.Ordinal, d.Err)
				break
			}
		}
	}
	if refused := permissionError(k.cluster.nc); refused != nil && len(k.cluster.serving("")) == 0 {
		return driver.Errorf(ErrPermission, "no host could be heard: %w", refused)
	}
	return driver.Errorf(ErrNoWorker, "no host serves %q for %v (WithPatience); %s", k.wire(k.function), k.patience, others)
}

// maxTries is how many results and notes of a piece are kept.
const maxTries = 64

const maxFlightBytes = 256 << 20

// window is how many pieces are under way. It may grow with each result.
func (k *call) window() int {
	if k.average < shortPiece && k.slots > 0 { // hosts fetch ahead
		return 8*k.slots + min(k.slots, 64)
	}
	return max(2*k.slots, waitingForHosts)
}

// fill sends pieces until the window is full.
func (k *call) fill() error {
	for k.next < k.n && len(k.flights) < k.window() && k.bytes < maxFlightBytes && k.storing < maxStores && k.cluster.nc.IsConnected() {
		var p Piece
		err := contain.Do(func() (err error) {
			p, err = k.make(k.next)
			return err
		})
		if err != nil {
			return k.failure(k.next, fmt.Errorf("making piece %d: %w", k.next, err))
		}
		if len(p.Data) > maxData {
			return k.failure(k.next, driver.Errorf(driver.ErrInvalidArgument, "a piece of %d bytes: want at most %d, or a Ref", len(p.Data), maxData))
		}
		if p.Result < 0 || p.Result > maxRef {
			return k.failure(k.next, driver.Errorf(driver.ErrInvalidArgument, "a piece with a result of %d bytes: want 0 to %d", p.Result, maxRef))
		}
		f := &flight{number: k.next, checked: -1, data: p.Data, size: len(p.Data) + int(p.Result), head: pieceHead{Deadline: k.deadline, Refs: p.Refs, Result: p.Result, Trace: k.parent}}
		k.next++
		k.flights[f.number] = f
		k.bytes += f.size
		if err := k.send(f); err != nil {
			return k.failure(f.of(), err)
		}
	}
	return nil
}

// send hands a piece out: to the queue, or to one host. Large data are stored first.
func (k *call) send(f *flight) error {
	c := k.cluster
	if f.storing || k.store(f) {
		return nil
	}
	if f.checked >= 0 && f.host == "" { // never the queue: the host that is verified would get it
		if f.host = k.other(f.avoid); f.host == "" {
			return k.await(f)
		}
	}
	f.alone = time.Time{}
	f.due = time.Now().Add(k.deadline + 2*ackWait)
	f.resend = false
	subject := c.names.subject("work", k.token, pieceID(k.id, f.number))
	if f.host != "" {
		f.head.Function, f.head.Piece = k.function, pieceID(k.id, f.number)
		if f.askedOf != f.host {
			f.asked, f.askedOf = time.Now(), f.host
		}
		subject = c.names.subject("host", f.host)
	} else {
		f.head.Function, f.head.Piece = "", ""
	}
	data := f.data
	if f.head.Large != nil {
		data = nil
	}
	m, err := message(subject, f.head, 0, data)
	if err != nil {
		return err
	}
	f.sent, f.looks = time.Now(), 0
	k.lookLater(f)
	if f.host == "" {
		_, number := splitLast(k.id)
		m.Reply = c.inbox + pieceID(number, f.number)
		if f.first.IsZero() {
			f.first = f.sent
		}
		f.silent = max(f.silent, 1) // the first delivery, of which no host tells that it begins
	}
	if err := c.nc.PublishMsg(m); err != nil {
		f.sent = time.Time{}
		if errors.Is(err, nats.ErrMaxPayload) {
			return driver.Errorf(ErrQuota, "the server takes at most %d bytes in a message: %w", c.nc.MaxPayload(), err)
		}
		k.soon(f, false)
	}
	return nil
}

// await lets a verification wait for another host.
func (k *call) await(f *flight) error {
	if f.alone.IsZero() {
		f.alone = time.Now()
	}
	if time.Since(f.alone) >= k.patience && k.streamsAnswer() {
		return k.failure(f.checked, errors.Join(append(f.tries, k.noOther())...))
	}
	k.soon(f, true)
	return nil
}

// soon looks for a piece, or sends it again, a little later.
func (k *call) soon(f *flight, send bool) {
	limit := 5 * time.Second
	if send { // a host had no room
		limit = time.Second
	}
	f.again = min(max(2*f.again, 50*time.Millisecond), limit)
	f.due, f.resend = time.Now().Add(f.again), send
}

// quiet is how long nothing may be heard, of a stream or of a piece, before the call asks.
func (k *call) quiet() time.Duration {
	return min(max(k.patience/4, healthEvery/4), healthEvery*5/2)
}

// streamsAnswer tells whether a stream was heard of so lately that the call need not ask. Only then the connection is not what is dead.
func (k *call) streamsAnswer() bool { return time.Since(k.heard) <= k.quiet() }

// lookLater sets when to look for the result of a piece: a little later each time, and not while it may well run, as far as the last
// pieces tell.
func (k *call) lookLater(f *flight) {
	f.look = time.Now().Add(max(k.quiet()<<min(f.looks, 2), 4*min(k.average, k.deadline)))
	f.looks++
}

// lookSoon looks for all results, after a time in which they may have been lost.
func (k *call) lookSoon() {
	for _, f := range k.flights {
		if f.looks > 0 {
			f.look, f.looks = time.Now().Add(healthEvery/4), 0
		}
	}
}

// maxLooks is how many results are looked for at the same time, of pieces that may run still.
const maxLooks = 256

// tick does what time brings.
func (k *call) tick(ctx context.Context) error {
	c, now := k.cluster, time.Now()
	if r := c.nc.Stats().Reconnects; r != k.reconnects { // messages may be lost, and hosts connect again as well
		k.reconnects, k.since, k.trustAfter, k.lost = r, now, now.Add(goneAfter), true
		for _, f := range k.flights {
			f.due = now
		}
	}
	if err := k.look(); err != nil || !c.nc.IsConnected() {
		return err
	}
	if !k.streamsAnswer() && !k.asking {
		k.asking = true
		k.work.Go(func() {
			err := c.askStreams(ctx, k.token)
			k.post(event{kind: askedEvent, err: err, at: time.Now()})
		})
	}
	absent := map[int]sought{}
	for _, f := range k.flights {
		switch {
		case f.held != nil || f.storing:
		case f.host != "" && now.After(k.trustAfter) && !c.knows(f.host):
			if err := k.failed(f, hostOf(f.host), driver.NoDevice, driver.Errorf(ErrHostLost, "it is gone")); err != nil {
				return err
			}
		case !f.sent.IsZero() && now.Sub(f.sent) > answerWithin && f.host != "":
			f.sent = time.Time{}
			if f.again > 0 { // for the second time
				if err := k.failed(f, hostOf(f.host), driver.NoDevice, driver.Errorf(ErrHostLost, "it did not say within %v that it has the piece", answerWithin)); err != nil {
					return err
				}
				continue
			}
			if id := k.other(append(f.avoid, hostOf(f.host))); id != "" {
				f.host = id
			}
			k.soon(f, true)
		case !f.sent.IsZero() && now.Sub(f.sent) > answerWithin: // a refusal by rights has no answer
			if err := k.published(f, nats.ErrTimeout); err != nil {
				return err
			}
		case now.After(f.due) && f.resend:
			if err := k.send(f); err != nil {
				return k.failure(f.of(), err)
			}
		case now.After(f.due):
			absent[f.number] = sought{over: true, large: f.head.Large != nil && f.checked < 0}
		case now.After(f.look) && !k.recovering && len(absent) < maxLooks:
			absent[f.number] = sought{queued: f.host == "" && f.sent.IsZero(), large: f.head.Large != nil && f.checked < 0}
			k.lookLater(f)
		}
	}
	if len(absent) > 0 && !k.recovering {
		k.recovering = true
		lost := k.lost
		k.lost = false
		k.work.Go(func() { k.recover(ctx, absent, lost) })
	}
	return nil
}

// sought is a piece whose result is looked for.
type sought struct {
	over   bool // it should be done
	queued bool // the queue has it, or a result is there, or both were lost
	large  bool // its data are in the object store
}

// recover looks in the streams for the results of pieces, and for the pieces.
func (k *call) recover(ctx context.Context, pieces map[int]sought, lost bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := k.cluster
	done := event{kind: recoveredEvent}
	defer func() {
		done.at = time.Now()
		k.post(done)
	}()
	if lost {
		if done.err = c.makeAgain(ctx, k.token); done.err != nil {
			return
		}
	}
	results, err := stream(ctx, c.js, c.names.resultStream())
	work, failed := stream(ctx, c.js, c.names.workStream())
	if err = errors.Join(err, failed); err != nil {
		done.err = classify(c.nc, "looking for results", err)
		return
	}
	for n, piece := range pieces {
		all, good, err := k.find(ctx, results, n)
		if err == nil && all == 0 && !piece.over && piece.queued {
			piece.over, err = k.gone(ctx, work, n)
			if err == nil && piece.over { // a host acknowledges a piece when its result is there
				all, good, err = k.find(ctx, results, n)
				piece.over = all == 0
			}
		}
		if err != nil {
			done.err = classify(c.nc, "looking for results", err)
			return
		}
		switch {
		case good || !piece.over:
		case piece.large && !c.dataKept(ctx, pieceID(k.id, n)):
			k.post(event{kind: lostEvent, number: n})
		default:
			k.post(event{kind: absentEvent, number: n})
		}
	}
}

// find posts the results of a piece that the stream has. good tells that one is no failure.
func (k *call) find(ctx context.Context, results jetstream.Stream, n int) (all int, good bool, err error) {
	for from := uint64(1); all < maxTries; all++ { // a host that lies can publish more
		m, err := getMsg(ctx, results, from, k.cluster.names.subject("result", k.token, "*", pieceID(k.id, n), "*"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return all, good, err
		}
		from = m.Sequence + 1
		if function, _, h, data, err := k.cluster.readResult("result", &nats.Msg{Subject: m.Subject, Data: m.Data}); err == nil {
			k.post(event{kind: resultEvent, token: function, number: n, head: h, data: data})
			good = good || h.Error == nil
		}
	}
	return all, good, nil
}

// gone tells whether the queue does not have a piece any more.
func (k *call) gone(ctx context.Context, work jetstream.Stream, n int) (bool, error) {
	_, err := getMsg(ctx, work, 1, k.cluster.names.subject("work", k.token, pieceID(k.id, n)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return true, nil
	}
	return false, err
}

// foundWithin is how long the server may take to find one result: what it was asked while it saw no other server has no answer.
const foundWithin = 2 * time.Second

func stream(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, foundWithin)
	defer cancel()
	return js.Stream(ctx, name)
}

func getMsg(ctx context.Context, s jetstream.Stream, from uint64, subject string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, foundWithin)
	defer cancel()
	return s.GetMsg(ctx, from, jetstream.WithGetMsgSubject(subject))
}

// handle handles an event.
func (k *call) handle(ctx context.Context, e event) error {
	f := k.flights[e.number]
	switch e.kind {
	case closeEvent:
		return errClosed()
	case hostsEvent:
		return k.look()
	case askedEvent:
		before := k.unheard
		k.asking, k.unheard = false, e.err
		switch {
		case streamLost(e.err):
			k.lost = true
			for _, f := range k.flights {
				if f.host == "" {
					f.due = time.Now()
				}
			}
		case e.err == nil && !k.unanswered:
			if k.heard = e.at; before != nil { // results may have been lost in the meantime
				k.lookSoon()
			}
		case e.err == nil:
			k.unheard = driver.Errorf(ErrDisconnected, "a piece was published, and no stream has said that it has it")
		}
		return nil
	case recoveredEvent:
		k.recovering = false
		if e.err == nil && !k.unanswered {
			k.heard = e.at
		}
		if e.err != nil {
			k.lookSoon()
		}
		wait := scarce(e.err) && time.Since(k.accepted) <= k.patience
		if is(e.err, ErrPermission, ErrQuota) && !wait {
			return e.err
		}
		k.lost = k.lost || streamLost(e.err) || wait
		return nil
	}
	switch {
	case e.kind == storedEvent:
		return k.isStored(f, e)
	case e.kind == gotEvent:
		return k.got(ctx, f, e)
	case f == nil: // it is done
		k.cluster.dropLater(e.head.Large)
		return nil
	}
	switch e.kind {
	case resultEvent:
		if e.token != k.token || !f.mayAnswer(e.head) {
			return nil
		}
		return k.answered(ctx, f, e)
	case begunEvent:
		if e.token != k.token || f.host != "" && hostOf(f.host) != e.head.Host {
			return nil
		}
		switch given := e.head.Error != nil; {
		case !given && f.host != "": // it has what was sent to it, which is not delivered again
			if !f.sent.IsZero() {
				f.sent, f.again, f.due = time.Time{}, 0, time.Now().Add(k.deadline+2*ackWait)
			}
			return nil
		case given && f.host != "": // a host that was chosen has no room
			f.sent = time.Time{}
			f.host = k.other(f.avoid)
			k.soon(f, true)
			return nil
		case given:
			f.silent = max(f.silent-1, 0)
			return nil
		case f.silent >= maxDeliveries:
			return k.failed(f, e.head.Host, driver.NoDevice,
				driver.Errorf(ErrPoison, "%d hosts began the piece, and none has answered", f.silent))
		}
		f.silent++
		f.tries = append(f.tries[max(0, len(f.tries)-maxTries):], &TryError{Device: driver.NoDevice, Err: driver.Errorf(ErrHostLost, "it took the piece and did not answer")})
		f.due = time.Now().Add(k.deadline + 2*ackWait)
	case publishedEvent:
		return k.published(f, e.err)
	case lostEvent:
		f.head.Large = nil
		if err := k.send(f); err != nil {
			return k.failure(f.of(), err)
		}
	case absentEvent:
		if ran := time.Since(f.asked); f.host != "" && f.again == 0 && ran > k.deadline {
			return k.failed(f, hostOf(f.host), driver.NoDevice, driver.Errorf(ErrHostLost, "no answer within %v", ran.Round(time.Millisecond)))
		}
		if err := k.send(f); err != nil {
			return k.failure(f.of(), err)
		}
	}
	return nil
}

// published takes what the server says about a piece for the queue, or its silence.
func (k *call) published(f *flight, refused error) error {
	f.sent = time.Time{}
	if k.unanswered = errors.Is(refused, nats.ErrTimeout) || streamLost(refused); !k.unanswered {
		k.heard, k.unheard = time.Now(), nil
	}
	if refused == nil {
		return nil
	}
	switch err := classify(k.cluster.nc, "publishing a piece", refused); {
	case alreadyThere(refused):
		// Hosts that have room would take it from the queue. One that does not answer has it.
		if id, room := k.roomiest(f.avoid); room > 0 && time.Since(f.first) > k.deadline+2*ackWait {
			f.host, k.leftover = id, true
			return k.send(f)
		}
		k.soon(f, false)
	case is(err, ErrPermission, driver.ErrUnsupported):
		return err
	case is(err, ErrQuota) && time.Since(k.accepted) > k.patience:
		return err
	default: // a full stream has room again when pieces are done, also of other callers
		k.lost = k.lost || streamLost(refused)
		k.soon(f, false)
	}
	return nil
}

// mayAnswer tells whether a host may answer for a piece: a verification is of the host that was asked, and so is a failure where one was.
func (f *flight) mayAnswer(h resultHead) bool {
	if f.host == "" {
		return f.checked < 0
	}
	return h.Host == hostOf(f.host) || f.checked < 0 && h.Error == nil
}

// answered takes what a host has published.
func (k *call) answered(ctx context.Context, f *flight, e event) error {
	h := e.head
	if f.held != nil {
		return nil
	}
	if h.Error != nil {
		if h.Try != f.head.Try || f.storing {
			return nil // it is known
		}
		err := isolate.DecodeError(h.Error, h.Device)
		if is(err, dataLost) && k.storeAgain(f) {
			return nil
		}
		return k.failed(f, h.Host, h.Device, err)
	}
	if h.Large != nil {
		k.stored = append(k.stored, e)
		k.get(ctx)
		return nil
	}
	if f.checked >= 0 {
		return k.compare(f, e)
	}
	if k.verify > 0 && rand.Float64() < k.verify {
		f.held, f.heldHead = e.data, h
		if f.held == nil {
			f.held = []byte{}
		}
		return k.check(f)
	}
	return k.accept(f, h, e.data)
}

// check sends a piece that verifies another one, to another host.
func (k *call) check(of *flight) error {
	f := &flight{number: k.n + k.checks, checked: of.number, data: of.data, size: int(of.head.Result), head: of.head, heldHead: of.heldHead, avoid: []string{of.heldHead.Host}}
	k.checks++
	k.bytes += f.size
	k.flights[f.number] = f
	f.host = k.other(f.avoid)
	return k.send(f)
}

// compare compares the result of a piece with another host's.
func (k *call) compare(f *flight, e event) error {
	of := k.flights[f.checked]
	delete(k.flights, f.number)
	k.bytes -= f.size
	if of == nil || of.held == nil || of.heldHead.Host != f.heldHead.Host { // the piece is done, or was done once more by another host
		return nil
	}
	if !bytes.Equal(of.held, e.data) {
		return k.failure(of.number, driver.Errorf(ErrMismatch, "piece %d has one result of host %s and another one of host %s", of.number, of.heldHead.Host, e.head.Host))
	}
	held := of.held
	of.held = nil
	return k.accept(of, of.heldHead, held)
}

// accept gives a result to the caller, once.
func (k *call) accept(f *flight, h resultHead, data []byte) error {
	err := contain.Do(func() error { return k.take(f.number, data) })
	if err != nil {
		return k.failed(f, h.Host, h.Device, fmt.Errorf("the result was refused: %w", err))
	}
	k.average += (h.Ran - k.average) / 8
	o := &k.done[f.number]
	*o = outcome{done: true, host: h.Host, device: int32(h.Device), tries: int32(f.failed), where: h.Where, reason: h.Reason, ran: h.Ran}
	if f.failed > 0 {
		o.last = f.tries[len(f.tries)-1]
	}
	k.forget(f)
	k.accepted = time.Now()
	k.heard, k.unheard, k.unanswered = k.accepted, nil, false
	k.left--
	if k.progress != nil {
		k.progress(k.n-k.left, k.n)
	}
	return nil
}

func (k *call) forget(f *flight) {
	delete(k.flights, f.number)
	k.bytes -= f.size
	k.drop(f.number, f.head.Large != nil && f.checked < 0)
}

// failed takes note of a try that failed, and tries elsewhere.
func (k *call) failed(f *flight, host string, device int, err error) error {
	f.tries = append(f.tries, &TryError{Host: host, Device: device, Err: err})
	f.failed++
	f.head.Try++
	if !slices.Contains(f.avoid, host) {
		f.avoid = append(f.avoid, host)
	}
	if is(err, ErrPoison) || f.failed > k.retries {
		return k.failure(f.of(), errors.Join(f.tries...))
	}
	f.again, f.held, f.askedOf = 0, nil, ""
	f.host = k.other(f.avoid)
	if err := k.send(f); err != nil {
		return k.failure(f.of(), err)
	}
	return nil
}

func (k *call) noOther() error {
	return driver.Errorf(ErrNoWorker, "WithVerify needs another host that serves %q, and there was none for %v (WithPatience)", k.wire(k.function), k.patience)
}

// other is the ID of the host with the most room whose name is not among some, or "".
func (k *call) other(avoid []string) string {
	id, _ := k.roomiest(avoid)
	return id
}

// roomiest is other with how many more pieces the host can run.
func (k *call) roomiest(avoid []string) (id string, room int) {
	flights := map[string]int{}
	for _, f := range k.flights {
		flights[f.host]++
	}
	for _, h := range k.hosts {
		r := h.Slots - h.Busy - h.Waiting - flights[h.ID]
		if h.Slots > 0 && !slices.Contains(avoid, h.Name) && (id == "" || r > room) {
			id, room = h.ID, r
		}
	}
	return id, room
}

// failure is the error that ends a call because of a piece.
func (k *call) failure(number int, err error) error {
	if of, ok := errors.AsType[*pieceError](err); ok {
		return of
	}
	e := &pieceError{number: number, device: driver.NoDevice, err: err}
	last := err
	if all, ok := err.(interface{ Unwrap() []error }); ok { // the tries, the last one at the end
		last = all.Unwrap()[len(all.Unwrap())-1]
	}
	if try, ok := last.(*TryError); ok {
		e.host, e.device = try.Host, try.Device
	} else if f := k.flights[number]; f != nil && f.held != nil {
		e.host, e.device = f.heldHead.Host, f.heldHead.Device
	}
	return e
}

// of is the number of the piece that a flight is of, or that it verifies.
func (f *flight) of() int {
	if f.checked >= 0 {
		return f.checked
	}
	return f.number
}

type pieceError struct {
	number int
	host   string // that tried it last, and
	device int    // its device
	here   bool   // in place of a host, the fallback
	err    error
}

func (e *pieceError) Error() string { return e.err.Error() }
func (e *pieceError) Unwrap() error { return e.err }

// cancel tells the hosts that the call has ended, and empties the queue of it.
func (k *call) cancel() {
	c := k.cluster
	if !c.nc.IsConnected() {
		return
	}
	_ = c.nc.Publish(c.names.cancel(), []byte(k.id))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s, err := c.js.Stream(ctx, c.names.workStream()); err == nil {
		_ = s.Purge(ctx, jetstream.WithPurgeSubject(c.names.subject("work", k.token, k.id, ">")))
	}
	for _, f := range k.flights {
		k.drop(f.number, f.head.Large != nil && f.checked < 0 || f.storing)
	}
}

// report is the report of the pieces, and the error of those that are not done.
func (k *call) report(wall time.Duration, err error) (pool.Report, error) {
	r := pool.Report{Wall: wall, Device: driver.NoDevice}
	devices := map[string]int{}
	at := -1 // the piece that failed
	failed, ofPiece := errors.AsType[*pieceError](err)
	if ofPiece {
		at = failed.number
	}
	for i := range k.done {
		o := &k.done[i]
		t := pool.TileReport{Tile: pool.Tile{Lo: i, Hi: i + 1}, Host: o.host, Device: int(o.device), Compute: o.ran, Done: o.done, Retries: int(o.tries), Cause: o.last}
		if !o.done {
			t.Device = driver.NoDevice
			switch {
			case i == at:
				t.Host, t.Device, t.Cause = failed.host, failed.device, failed.err
				if f := k.flights[i]; f != nil {
					t.Retries = max(f.failed-1, 0)
				}
			case ofPiece:
				t.Cause = pool.ErrStopped
			default:
				t.Cause = err
			}
		} else if r.Where == "" || o.where == pool.OnGPU {
			r.Where, r.Reason = o.where, o.reason
		}
		who := t.Host + strconv.Itoa(t.Device)
		if _, ok := devices[who]; !ok {
			devices[who] = len(devices)
		}
		t.Index = devices[who]
		if !o.done && t.Host == "" && !(i == at && failed.here) {
			t.Index = -1
		}
		if n := len(r.Tiles); n > 0 && i != at && i-1 != at {
			if last := &r.Tiles[n-1]; last.Index == t.Index && last.Done == t.Done && last.Retries+t.Retries == 0 { // one report stands for both
				last.Hi, last.Compute = t.Hi, last.Compute+t.Compute
				continue
			}
		}
		r.Tiles = append(r.Tiles, t)
	}
	if err == nil {
		return r, nil
	}
	e := &pool.Error{}
	for _, t := range r.Tiles {
		if !t.Done {
			e.Tiles = append(e.Tiles, t)
		}
	}
	return r, e
}
