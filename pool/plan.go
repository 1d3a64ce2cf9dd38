package pool

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// plan says who does which items of a call. Each member, a device or a core, has a range
// of its own and takes pieces from its beginning. One that has nothing left takes pieces
// from the end of the range of the member that is furthest behind. A piece is handed out
// once, and again only after it has failed: so on success every item was done once.
//
// Members come and go: they enter, take and settle pieces until there are none, and
// leave. The plan wakes those that have left when there is work for them again.
type plan struct {
	least     int                  // items that are worth a piece
	chunk     int                  // items of a piece at most, or 0
	itemBytes int                  // of an item, or 0
	retries   int                  // of a piece
	ordinal   func(device int) int // nil for the CPU
	wake      func(member int)     // makes a member enter; called with mu held
	hopeless  func() bool          // tells that no other member can do better
	cancel    context.CancelCauseFunc
	ended     chan struct{} // closed when all members have left for good

	mu      sync.Mutex
	parent  context.Context // the caller's
	members []member
	again   []piece // failed, for others
	tiles   []TileReport
	inside  int // members that have entered
	waking  int // members that were woken and have not entered yet
	failed  bool
	stop    error // why no more pieces are handed out
	over    bool  // ended is closed
}

// member is one that takes part in a call.
type member struct {
	device int // as the reports name it
	weight float64
	lo, hi int // what is left of its range
	fixed  int // items of a piece of this range, or 0 if it depends
	floor  int // items of a piece of this range at least, as far as speeds do not matter
	state  state
	begun  bool // has taken a piece; before, nobody takes from its range
	out    bool // has failed
	last   int  // index of its last tile in tiles plus 1

	items int // done
	busy  time.Duration
}

type state uint8

const (
	away state = iota
	called
	inside
)

// piece is a range that is done at once.
type piece struct {
	lo, hi  int
	retries int
	// Of the last failure:
	device int
	cause  error
}

// A piece is an eighth of what is left of a range, the first one a 16th, because it is not
// known yet how fast its member is. None is less than a 64th of the range.
const (
	pieces      = 8
	firstPieces = 16
	leastPieces = 64
)

// run hands out the ranges, wakes their members, and waits for the end of the call, which
// that of the caller's context brings on. It is called once.
func (p *plan) run(parent context.Context, tiles []Tile) {
	p.begin(parent, tiles)
	select {
	case <-p.ended:
	case <-parent.Done():
		p.end(context.Cause(parent))
		<-p.ended
	}
}

func (p *plan) begin(parent context.Context, tiles []Tile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.settleEnd()
	p.parent = parent
	p.look()
	for _, t := range tiles {
		m := &p.members[t.Device]
		m.lo, m.hi = t.Lo, t.Hi
		switch {
		case p.chunk > 0:
			m.fixed = p.chunk
		case len(tiles) == 1:
			m.fixed = t.Len() // nobody is there to help
		default:
			m.floor = max(p.least, t.Len()/leastPieces, 1)
		}
		if p.stop == nil {
			p.call(t.Device)
		}
	}
}

// look stops handing out pieces if the caller's context has ended. Members may notice
// before run does.
func (p *plan) look() {
	if p.parent.Err() != nil {
		p.halt(context.Cause(p.parent))
	}
}

// call wakes a member that is away.
func (p *plan) call(i int) {
	if m := &p.members[i]; m.state == away && !m.out {
		m.state = called
		p.waking++
		p.wake(i)
	}
}

// enter lets a member in that was woken. It is false if that is no longer needed.
func (p *plan) enter(i int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &p.members[i]
	if m.state != called {
		return false
	}
	m.state = inside
	p.waking--
	p.inside++
	return true
}

// leave lets a member out that has found no more pieces.
func (p *plan) leave(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members[i].state = away
	p.inside--
	p.settleEnd()
}

// take gives a member its next piece, of no more items than limit. It is false when there
// is none.
func (p *plan) take(i, limit int) (piece, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &p.members[i]
	if p.look(); p.stop != nil || m.out {
		return piece{}, false
	}
	if p.chunk > 0 {
		limit = min(limit, p.chunk)
	}
	if last := len(p.again) - 1; last >= 0 {
		k := p.again[last]
		if k.hi-k.lo <= limit {
			p.again = p.again[:last]
		} else {
			k.hi = k.lo + limit
			p.again[last].lo = k.hi
		}
		return k, true
	}
	if m.lo < m.hi {
		k := piece{lo: m.lo, hi: m.lo + p.size(m, m, limit)}
		m.lo = k.hi
		if !m.begun {
			m.begun = true
			p.callHelpers()
		}
		return k, true
	}
	if behind := p.furthestBehind(); behind != nil {
		k := piece{lo: behind.hi - p.size(behind, m, limit), hi: behind.hi}
		behind.hi = k.lo
		return k, true
	}
	return piece{}, false
}

// size is how many items m takes of a range: an eighth of what is left of it, but no more
// than half of what m would do until the end if all go on as fast as they were. So a slow
// member does not keep the others waiting with its last piece.
func (p *plan) size(of, m *member, limit int) int {
	left := of.hi - of.lo
	if of.fixed > 0 {
		return min(left, limit, of.fixed)
	}
	size, floor := (left-1)/firstPieces+1, of.floor
	if rate := m.rate(); rate > 0 {
		all, fastest, total := 0.0, 0.0, 0
		for i := range p.members {
			o := &p.members[i]
			all += o.rate()
			fastest = max(fastest, o.rate())
			total += o.hi - o.lo
		}
		size = min((left-1)/pieces+1, int(rate/all*float64(total)/2))
		floor = max(int(rate/fastest*float64(floor)), p.least)
	}
	size = max(size, floor, 1)
	if left-size < p.least {
		size = left // the rest would not be worth a piece
	}
	return min(size, left, limit)
}

// rate is how many items a second the member has done, or 0 if that is not known.
func (m *member) rate() float64 {
	if m.busy <= 0 {
		return 0
	}
	return float64(m.items) / m.busy.Seconds()
}

// furthestBehind is the member that would need longest for its range, if all are as fast
// as their weights say, or nil if nobody has anything to give away.
func (p *plan) furthestBehind() *member {
	var most *member
	var longest float64
	for i := range p.members {
		m := &p.members[i]
		if m.lo == m.hi || !m.begun && !m.out {
			continue
		}
		if needs := float64(m.hi-m.lo) / m.weight; most == nil || needs > longest {
			most, longest = m, needs
		}
	}
	return most
}

// callHelpers wakes the members that have finished their own range.
func (p *plan) callHelpers() {
	if p.furthestBehind() == nil {
		return
	}
	for i := range p.members {
		if p.members[i].begun {
			p.call(i)
		}
	}
}

// settle notes how a piece went.
func (p *plan) settle(i int, k piece, spent spent, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &p.members[i]
	if err != nil {
		p.settleFailure(i, k, spent, err)
		return
	}
	t := p.newTile(m.device, k.lo, k.hi)
	t.Upload, t.Compute, t.Download = spent[Upload], spent[Compute], spent[Download]
	t.Done, t.Retries, t.Cause = true, k.retries, k.cause
	m.items += k.hi - k.lo
	m.busy += t.Time()
	if m.last > 0 && p.tiles[m.last-1].join(t) {
		return
	}
	p.tiles = append(p.tiles, t)
	m.last = len(p.tiles)
}

// settleFailure gives the piece to another member, or ends the call.
func (p *plan) settleFailure(i int, k piece, spent spent, err error) {
	m := &p.members[i]
	m.out = true
	if p.stop == nil && k.retries < p.retries && p.survivors() && !p.hopeless() {
		p.again = append(p.again, piece{k.lo, k.hi, k.retries + 1, m.device, err})
		for j := range p.members {
			p.call(j)
		}
		return
	}
	t := p.newTile(m.device, k.lo, k.hi)
	t.Upload, t.Compute, t.Download = spent[Upload], spent[Compute], spent[Download]
	t.Retries, t.Cause = k.retries, err
	p.tiles = append(p.tiles, t)
	p.failed = true
	p.halt(ErrStopped)
}

// refuse notes that a member cannot work at all.
func (p *plan) refuse(i int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &p.members[i]
	k := piece{lo: m.lo, hi: m.hi}
	m.lo = m.hi
	if k.lo == k.hi {
		m.out = true // it was called for what others have left
		for j := range p.again {
			p.again[j].cause = errors.Join(p.again[j].cause, err)
		}
		return
	}
	p.settleFailure(i, k, spent{}, err)
}

// newMember makes a member. Weights that [Partition] counts as zero are one here: either
// all are, or the member has no range.
func newMember(device int, weight float64) member {
	if !(weight > 0) || math.IsInf(weight, 1) {
		weight = 1
	}
	return member{device: device, weight: weight}
}

func (p *plan) survivors() bool {
	for i := range p.members {
		if !p.members[i].out {
			return true
		}
	}
	return false
}

// end stops handing out pieces.
func (p *plan) end(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.halt(cause)
		p.settleEnd()
	}
}

func (p *plan) halt(cause error) {
	if p.stop == nil {
		p.stop = cause
		p.cancel(cause)
	}
}

// settleEnd ends the call when nobody works any more and there is nothing left to do, or
// nobody left to do it.
func (p *plan) settleEnd() {
	if p.over || p.inside > 0 || p.waking > 0 && p.stop == nil && p.left() {
		return
	}
	p.over = true
	for i := range p.members {
		if m := &p.members[i]; m.state == called {
			m.state = away // whoever comes late is sent away
		}
	}
	p.waking = 0
	close(p.ended)
}

// left tells whether there are items that nobody works on.
func (p *plan) left() bool {
	for i := range p.members {
		if m := &p.members[i]; m.lo < m.hi {
			return true
		}
	}
	return len(p.again) > 0
}

// result is the outcome after the end.
func (p *plan) result() ([]TileReport, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.failed && !p.left() {
		return inOrder(p.tiles), nil
	}
	cause := p.stop
	if cause == nil {
		cause = ErrStopped
	}
	for i := range p.members {
		if m := &p.members[i]; m.lo < m.hi {
			p.again = append(p.again, piece{lo: m.lo, hi: m.hi, device: m.device, cause: cause})
		}
	}
	for _, k := range p.again {
		t := p.newTile(k.device, k.lo, k.hi)
		t.Retries, t.Cause = max(k.retries-1, 0), k.cause // the last retry did not come about
		p.tiles = append(p.tiles, t)
	}
	all := inOrder(p.tiles)
	failure := new(Error)
	for _, t := range all {
		if !t.Done {
			failure.Tiles = append(failure.Tiles, t)
		}
	}
	return all, failure
}
