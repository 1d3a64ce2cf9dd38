package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// puller asks the server for pieces of a function, as many as there is room for. It makes the requests itself, because it needs no
// right but to make them, and knows how many are open.
type puller struct {
	host     *host
	function string
	token    string
	subject  string             // of the requests
	sub      *nats.Subscription // of the answers, or nil
	open     int                // pieces that were asked for
	heard    time.Time          // of the server
	asked    time.Time
	refused  bool // until check: there is no consumer yet, or the server moves it
	connects uint64
}

const (
	pullExpires = 30 * time.Second
	pullBeat    = time.Second
	// shortPiece is how long a piece takes at most for others to be fetched while all slots are busy.
	shortPiece = 20 * time.Millisecond
)

func newPuller(h *host, function string) *puller {
	token, _ := functionToken(h.wire(function)) // Serve has checked it
	return &puller{host: h, function: function, token: token,
		subject: "$JS.API.CONSUMER.MSG.NEXT." + h.names.workStream() + "." + token, connects: h.nc.Stats().Reconnects}
}

// space is how many pieces this host may have, and how many more. h.mu is held.
func (h *host) space() (room, free int) {
	if room = h.self.Slots; h.average < shortPiece {
		room *= 2
	}
	return room, room - h.self.Busy - len(h.queue)
}

// pull asks for what there is room for. The host's lock is held.
func (p *puller) pull() {
	h := p.host
	room, free := h.space()
	want := free - p.open
	if want <= 0 || want < room/4 && p.open > 0 || p.refused || !h.runs(p.function) || !h.nc.IsConnected() {
		return
	}
	if p.sub == nil {
		sub, err := h.nc.Subscribe(h.nc.NewInbox(), p.receive)
		if err != nil {
			return // the connection is closed
		}
		p.sub = sub
		_ = sub.SetPendingLimits(-1, -1) // it is open, and what it gets was asked for
	}
	request := fmt.Sprintf(`{"batch":%d,"expires":%d,"idle_heartbeat":%d}`, want, pullExpires, pullBeat)
	if h.nc.PublishRequest(p.subject, p.sub.Subject, []byte(request)) == nil {
		p.open += want
		p.asked = time.Now()
	}
}

// stop takes requests back: the server drops those whose answers nobody hears. What is on its way arrives. The host's lock is held.
func (p *puller) stop() {
	if p.sub != nil {
		_ = p.sub.Drain() // an error says that the connection is closed
		p.sub, p.open = nil, 0
	}
}

// check forgets requests that the server does not know any more, and refusals. The host's lock is held.
func (p *puller) check() {
	p.refused = false
	now := time.Now()
	last := p.heard
	if p.asked.After(last) {
		last = p.asked
	}
	reconnects := p.host.nc.Stats().Reconnects
	if reconnects != p.connects || p.open > 0 && now.Sub(last) > 3*pullBeat {
		p.open, p.connects = 0, reconnects
	}
}

// receive takes a piece, or what the server says about a request.
func (p *puller) receive(m *nats.Msg) {
	h := p.host
	status := m.Header.Get("Status")
	if status == "" {
		w := &held{function: p.function, token: p.token, reply: m.Reply, got: time.Now(), tries: 1}
		if meta, err := m.Metadata(); err == nil {
			w.tries = meta.NumDelivered
		}
		if !strings.HasPrefix(w.reply, "$JS.ACK.") {
			return // it is not of the server
		}
		w.piece = strings.TrimPrefix(m.Subject, h.names.subject("work", p.token, ""))
		h.mu.Lock()
		p.open = max(p.open-1, 0)
		p.heard = w.got
		h.mu.Unlock()
		var err error
		if w.head, _, w.data, err = h.heads.read(m); err != nil || w.head.check(w.piece) != nil {
			h.ack(w) // it is of nobody who waits
			return
		}
		h.add(w)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p.heard = time.Now()
	switch status {
	case "100": // a heartbeat
	case "408": // a request has expired
		pending, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		if err != nil {
			pending = p.open
		}
		p.open = max(p.open-pending, 0)
		h.dispatch()
	default:
		p.open, p.refused = 0, true
	}
}
