package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/purecuda/purecuda/driver"
)

// Cluster is the hosts that serve functions, as a caller sees them. It is safe for concurrent use.
type Cluster struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	names  names
	config *config
	id     string // of this caller
	inbox  string // of what the server says about pieces

	numbers atomic.Uint64 // of calls
	taken   atomic.Int64  // results that lie in the stream still
	bytes   atomic.Int64  // of these
	purging atomic.Bool
	work    sync.WaitGroup // goroutines of the cluster

	mu     sync.Mutex
	hosts  map[string]*seenHost
	calls  map[string]*call // by CALLER.CALL
	ready  map[string]bool  // consumers that were made
	infos  map[string]*jetstream.StreamInfo
	closed bool
	drops  []*Ref // objects to be removed; the first one is being removed

	heads heads[resultHead]
	subs  []*nats.Subscription
}

// seenHost is a host and when it was heard of last.
type seenHost struct {
	Host
	seen time.Time
}

const (
	healthEvery = time.Second
	// goneAfter is when a host counts as gone.
	goneAfter = 5 * time.Second
	// ackWait is when the server gives the piece of a silent host to another one.
	ackWait = 3 * time.Second
	// keepResults is how long the server keeps what nobody takes: results, and pieces of a caller that was killed. A caller that lives
	// publishes its pieces again.
	keepResults = time.Hour
)

// ConnectOptions are the options of a connection for Open and Serve. It connects again for ever, and tells the user of the connection
// no errors: calls return them. A connection that is dead without a word is noticed within the default of [WithPatience]. A publication
// to a server that takes nothing waits for 5 s, which is a minute by default of the client. The caller's own options come after them:
//
//	nc, err := nats.Connect(nats.DefaultURL, append(cluster.ConnectOptions(), nats.UserCredentials("user.creds"))...)
func ConnectOptions() []nats.Option {
	return []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond), nats.PingInterval(3 * time.Second), nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(answerWithin), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
}

// Open returns the cluster behind a connection. It makes the streams where they are missing, which needs the right to. The
// connection stays the caller's, who makes it with [ConnectOptions].
func Open(ctx context.Context, nc *nats.Conn, options ...Option) (*Cluster, error) {
	config, err := configured(atOpen, nil, options)
	switch {
	case err != nil:
		return nil, err
	case ctx == nil || nc == nil:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "Open takes a context and a connection")
	}
	c := &Cluster{nc: nc, names: names(config.name), config: config, id: nuid.Next(),
		hosts: map[string]*seenHost{}, calls: map[string]*call{}, ready: map[string]bool{}, infos: map[string]*jetstream.StreamInfo{}}
	if c.js, err = jetstream.New(nc); err != nil {
		return nil, err
	}
	c.inbox = nc.NewInbox() + "."
	for subject, f := range map[string]nats.MsgHandler{
		c.names.subject("result", "*", "*", c.id, ">"): c.result,
		c.names.subject("begin", "*", "*", c.id, ">"):  c.begun,
		c.names.subject("health", "*", "*"):            c.health,
		c.inbox + ">":                                  c.published,
	} {
		sub, err := nc.Subscribe(subject, f)
		if err == nil {
			c.subs = append(c.subs, sub)
			err = sub.SetPendingLimits(-1, -1) // the window of a call bounds what can come
		}
		if err != nil {
			return nil, errors.Join(classify(nc, "subscribing to "+subject, err), c.Close())
		}
	}
	if err := c.makeStreams(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, classify(nc, "asking for hosts", nc.Publish(c.names.ask(), nil))
}

// answerWithin is how long the server may take to answer. A refusal shows only as silence.
const answerWithin = 5 * time.Second

// makeConsumer makes what hosts take the pieces of a function from.
func (c *Cluster) makeConsumer(ctx context.Context, token string) error {
	c.mu.Lock()
	ready := c.ready[token]
	c.mu.Unlock()
	if ready {
		return nil
	}
	_, err := c.js.Consumer(ctx, c.names.workStream(), token)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		config := jetstream.ConsumerConfig{
			Durable: token, FilterSubject: c.names.subject("work", token, ">"), AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.config.ackWait,
			MaxDeliver: -1, MaxWaiting: 1 << 14, MaxAckPending: 1 << 16, // above twice the slots of 1,000 hosts
		}
		if build := Build(); build != "" && strings.HasSuffix(token, "="+build) {
			config.InactiveThreshold = keepBuild
		}
		_, err = c.js.CreateOrUpdateConsumer(ctx, c.names.workStream(), config)
	}
	if err != nil {
		return classify(c.nc, "making the consumer "+token, err)
	}
	c.mu.Lock()
	c.ready[token] = true
	c.mu.Unlock()
	return nil
}

// makeAgain makes what a server has lost.
func (c *Cluster) makeAgain(ctx context.Context, token string) error {
	c.config.log.Warn("the streams or their consumer may be lost, and are made again", "consumer", token)
	c.mu.Lock()
	delete(c.ready, token)
	c.mu.Unlock()
	if err := c.makeStreams(ctx); err != nil {
		return err
	}
	return c.makeConsumer(ctx, token)
}

// Close ends the calls that run, and removes what they have left on the server. The connection stays open.
func (c *Cluster) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	for _, k := range c.calls {
		k.post(event{kind: closeEvent})
	}
	c.mu.Unlock()
	if !first {
		return nil
	}
	c.work.Wait()
	for _, s := range c.subs {
		_ = s.Unsubscribe() // an error says that the connection is closed
	}
	if c.taken.Load() > 0 && c.nc.IsConnected() {
		c.purge(false)
	}
	return nil
}

func errClosed() error { return driver.Errorf(driver.ErrClosed, "the cluster was closed before") }

// begin enters a call.
func (c *Cluster) begin(k *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed()
	}
	k.id = c.id + "." + strconv.FormatUint(c.numbers.Add(1), 10)
	c.calls[k.id] = k
	c.work.Add(1)
	return nil
}

func (c *Cluster) end(k *call) {
	c.mu.Lock()
	delete(c.calls, k.id)
	c.mu.Unlock()
	c.work.Done()
}

// post gives an event to the call of a piece, CALLER.CALL.PIECE.
func (c *Cluster) post(piece string, e event) (known bool) {
	id, number := splitLast(piece)
	n, err := strconv.Atoi(number)
	c.mu.Lock()
	defer c.mu.Unlock() // up to the end: what the call has when it leaves is all that it gets
	k := c.calls[id]
	if k != nil && err == nil {
		e.number = n
		k.post(e)
	}
	return k != nil
}

// result takes a result, as the host publishes it. The stream keeps it too, for when this message is lost.
func (c *Cluster) result(m *nats.Msg) {
	c.taken.Add(1)
	if function, piece, h, data, err := c.readResult("result", m); err == nil {
		if !c.post(piece, event{kind: resultEvent, token: function, head: h, data: data}) && h.Large != nil && strings.HasPrefix(piece, c.id+".") {
			c.dropLater(h.Large)
		}
	}
	bytes := c.bytes.Add(int64(m.Size()))
	if (c.taken.Load() >= purgeAfter || bytes > c.config.bytes()/4) && c.purging.CompareAndSwap(false, true) {
		c.mu.Lock()
		if !c.closed {
			c.work.Go(func() {
				c.purge(true)
				c.purging.Store(false)
			})
		}
		c.mu.Unlock()
	}
}

// begun takes the note of a host that a piece is delivered to again.
func (c *Cluster) begun(m *nats.Msg) {
	if function, piece, h, _, err := c.readResult("begin", m); err == nil {
		c.post(piece, event{kind: begunEvent, token: function, head: h})
	}
}

// published takes what the server says about a piece for the queue.
func (c *Cluster) published(m *nats.Msg) {
	c.post(c.id+"."+strings.TrimPrefix(m.Subject, c.inbox), event{kind: publishedEvent, err: refusal(m)})
}

// purgeAfter is how many results may lie in the stream.
const purgeAfter = 4096

// purge removes the results that this caller has taken. One that the server has and that did not arrive is lost by that, and its
// piece is done again.
func (c *Cluster) purge(known bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c.taken.Store(0)
	c.bytes.Store(0)
	s, err := c.js.Stream(ctx, c.names.resultStream())
	if err != nil {
		return // the age of the messages ends them
	}
	options := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(c.names.subject("result", "*", "*", c.id, ">"))}
	if known { // what comes from now on stays
		options = append(options, jetstream.WithPurgeSequence(s.CachedInfo().State.LastSeq+1))
	}
	_ = s.Purge(ctx, options...)
}

// Host is what a host tells about itself.
type Host struct {
	ID   string // of this Serve, after the name
	Name string // of [WithHostName]
	// Functions are those that it can run now: without a device only those of [WithCPU]. With [WithSameBuild] "/" and the build follow a name.
	Functions []string
	// Slots is how many pieces it can run, Busy how many it runs, and Waiting how many it has fetched besides.
	Slots, Busy, Waiting int
	// Done and Failed are pieces, since the beginning, and Pieces the same by function.
	Done, Failed uint64
	Pieces       map[string]Pieces
	Build        string // see [Build]
	Devices      []Device
	// Draining is set once it takes no more pieces, and Gone when it ends.
	Draining, Gone bool
}

// Device is a device of a host.
type Device struct {
	Ordinal int
	Name    string
	// Err is why it serves nothing, or empty.
	Err string
}

// health takes what a host tells.
func (c *Cluster) health(m *nats.Msg) {
	h, err := c.names.readHealth(m)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.hosts[h.ID]
	if old == nil && !c.roomFor(h.Name) {
		return
	}
	if h.Gone {
		delete(c.hosts, h.ID)
	} else {
		c.hosts[h.ID] = &seenHost{h, time.Now()}
	}
	if h.Gone || old == nil || old.Slots != h.Slots || old.Draining != h.Draining || !slices.Equal(old.Functions, h.Functions) {
		for _, k := range c.calls {
			k.post(event{kind: hostsEvent})
		}
	}
}

// maxServes is how many calls of Serve of one name are known: a host that lies has no room for more.
const maxServes = 64

// roomFor tells whether another Serve of a host can be known. c.mu is held.
func (c *Cluster) roomFor(name string) bool {
	n := 0
	for _, h := range c.hosts {
		if h.Name == name {
			n++
		}
	}
	return n < maxServes
}

// Hosts are the hosts that were heard of in the last seconds, by name. It also asks for news, for a later call.
func (c *Cluster) Hosts() []Host {
	_ = c.nc.Publish(c.names.ask(), nil) // a lost connection shows in the hosts
	all := c.serving("")
	slices.SortFunc(all, func(a, b Host) int {
		return strings.Compare(fmt.Sprint(a.Name, " ", a.ID), fmt.Sprint(b.Name, " ", b.ID))
	})
	return all
}

// serving are the hosts that serve a function, or all.
func (c *Cluster) serving(function string) (all []Host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, h := range c.hosts {
		switch {
		case time.Since(h.seen) > goneAfter && c.nc.IsConnected():
			delete(c.hosts, id)
		case function == "" || slices.Contains(h.Functions, function) && !h.Draining:
			all = append(all, h.Host)
		}
	}
	return all
}

// knows tells whether a host was heard of in the last seconds.
func (c *Cluster) knows(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.hosts[id]
	return h != nil && time.Since(h.seen) <= goneAfter
}

// Queue is how many pieces wait or run, of all callers.
func (c *Cluster) Queue(ctx context.Context) (int, error) {
	s, err := c.js.Stream(ctx, c.names.workStream())
	if err != nil {
		return 0, classify(c.nc, "asking for the queue", err)
	}
	return int(s.CachedInfo().State.Msgs), nil
}
