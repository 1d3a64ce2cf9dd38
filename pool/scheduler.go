package pool

import (
	"context"
	"errors"
	"math"
	"math/bits"
	"sync"
	"time"
)

// scheduler divides the items of a call among its participants: the devices, or the goroutines of
// the CPU. Each participant has a range and takes pieces from its beginning. A participant without
// items steals pieces from the end of the range with the most estimated time left. A piece is
// handed out once, and again only after it has failed. So on success every item was done once.
//
// All numbers of items here are numbers of grains: a grain is what pieces are not cut into. Functions and
// reports get items.
//
// A participant enters, takes and records pieces until there are none, and leaves. The scheduler
// wakes idle participants when there is work for them again.
type scheduler struct {
	n, grain  int // items of the caller, and of a grain
	minPiece  int // items that are worth a piece
	chunk     int // items of a piece at most, or 0
	itemBytes int // of an item, or 0
	retries   int // of a piece
	crew      crew
	cancel    context.CancelCauseFunc
	ended     chan struct{} // closed when no participant is active or will be

	mu           sync.Mutex
	parent       context.Context // the caller's
	participants []participant
	failedPieces []piece       // for other participants
	unusable     map[int]error // the participants that cannot work at all
	tiles        []TileReport
	active       int // participants that have entered
	woken        int // participants that were started and have not entered yet
	failed       bool
	stop         error // why no more pieces are handed out
	done         bool  // ended is closed
}

// crew are the devices or the cores that participate.
type crew interface {
	// startParticipant starts its goroutine. mu of the scheduler is held.
	startParticipant(index int)
	// ordinal is the ordinal of a participant's device, or driver.NoDevice.
	ordinal(device int) int
	// lost reports that CUDA is lost, so that a retry is useless.
	lost() bool
}

// participant is a device or a goroutine of the CPU that takes part in a call.
type participant struct {
	device   int // as the reports name it
	weight   float64
	lo, hi   int // what is left of its range
	fixed    int // items of each piece of this range, or 0 for a size that depends on speeds
	minPiece int // least items of a piece of this range, for the fastest participant
	state    state
	started  bool // has taken a piece; before, no other participant steals from its range
	failed   bool // gets no more pieces
	lastTile int  // index of its last tile in tiles plus 1

	items int // done
	busy  time.Duration
}

type state uint8

const (
	idle state = iota
	woken
	active
)

// piece is a range that is done at once.
type piece struct {
	lo, hi  int
	retries int
	// Of the last failure:
	device int
	cause  error
}

// A piece is an eighth of the items left in a range. The first piece is a 16th, because the speed of
// the participant is not known yet. No piece is less than a 64th of the range.
const (
	pieceFraction      = 8
	firstPieceFraction = 16
	minPieceFraction   = 64
)

// cut sets the items of the call, and returns how many grains they are.
func (s *scheduler) cut(n, chunk, grain, itemBytes int) int {
	s.n, s.grain, s.itemBytes = n, max(grain, 1), itemBytes
	if chunk > 0 {
		s.chunk = max(chunk/s.grain, 1)
	}
	return s.units(n)
}

// units returns how many grains hold so many items.
func (s *scheduler) units(items int) int {
	if items == 0 {
		return 0
	}
	return (items-1)/s.grain + 1
}

// tile returns the items of a piece.
func (s *scheduler) tile(device int, k piece) Tile {
	t := Tile{Index: device, Lo: k.lo * s.grain, Hi: s.n}
	if k.hi <= s.n/s.grain {
		t.Hi = k.hi * s.grain
	}
	return t
}

// divide gives the participants their ranges, in proportion to weights.
func (s *scheduler) divide(weights []float64, units int) {
	lengths := make([]int, len(weights))
	share(lengths, weights, units)
	at := 0
	for i, length := range lengths {
		m := &s.participants[i]
		m.lo, m.hi = at, at+length
		at = m.hi
		switch {
		case s.chunk > 0:
			m.fixed = s.chunk
		case length == units:
			m.fixed = length // no other participant could steal
		default:
			m.minPiece = max(s.minPiece, length/minPieceFraction, 1)
		}
	}
}

// run wakes the participants that have a range, and waits for the end of the call. The end of the caller's context ends the call. run
// is called once.
func (s *scheduler) run(parent context.Context) {
	s.begin(parent)
	select {
	case <-s.ended:
	case <-parent.Done():
		s.end(context.Cause(parent))
		<-s.ended
	}
}

func (s *scheduler) begin(parent context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.finish()
	s.parent = parent
	s.checkContext()
	for i := range s.participants {
		if m := &s.participants[i]; m.lo < m.hi && s.stop == nil {
			s.wake(i)
		}
	}
}

// checkContext stops the call if the caller's context has ended. Participants may notice that before
// run does.
func (s *scheduler) checkContext() {
	if s.parent.Err() != nil {
		s.halt(context.Cause(s.parent))
	}
}

// wake starts an idle participant.
func (s *scheduler) wake(i int) {
	if m := &s.participants[i]; m.state == idle && !m.failed {
		m.state = woken
		s.woken++
		s.crew.startParticipant(i)
	}
}

// enter makes a woken participant active. It is false if the participant is no longer needed.
func (s *scheduler) enter(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.participants[i]
	if m.state != woken {
		return false
	}
	m.state = active
	s.woken--
	s.active++
	return true
}

// leave makes a participant idle that has found no more pieces. It is woken again if there came some since it looked: whoever brought them
// woke the idle ones alone.
func (s *scheduler) leave(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.participants[i].state = idle
	s.active--
	s.checkContext()
	if s.stop == nil && (len(s.failedPieces) > 0 || s.mostTimeLeft() != nil) {
		s.wake(i)
	}
	s.finish()
}

// take returns the next piece of a participant, of at most limit items, or false if there is none.
func (s *scheduler) take(i, limit int) (piece, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.participants[i]
	if s.checkContext(); s.stop != nil || m.failed {
		return piece{}, false
	}
	if s.chunk > 0 {
		limit = min(limit, s.chunk)
	}
	if last := len(s.failedPieces) - 1; last >= 0 {
		k := s.failedPieces[last]
		if k.hi-k.lo <= limit {
			s.failedPieces = s.failedPieces[:last]
		} else {
			k.hi = k.lo + limit
			s.failedPieces[last].lo = k.hi
		}
		return k, true
	}
	if m.lo < m.hi {
		k := piece{lo: m.lo, hi: m.lo + s.size(m, m, limit)}
		m.lo = k.hi
		if !m.started {
			m.started = true
			s.wakeIdle()
		}
		return k, true
	}
	if victim := s.mostTimeLeft(); victim != nil {
		k := piece{lo: victim.hi - s.size(victim, m, limit), hi: victim.hi}
		victim.hi = k.lo
		return k, true
	}
	return piece{}, false
}

// size returns how many items m takes of a range: an eighth of the items left in it. It is at most
// half of what m would do until the end at the present speeds. So the last piece of a slow
// participant does not delay the call. It is at least 100 microseconds of work, because calling the function costs some as well.
func (s *scheduler) size(of, m *participant, limit int) int {
	left := of.hi - of.lo
	if of.fixed > 0 {
		return min(left, limit, of.fixed)
	}
	size, floor := (left-1)/firstPieceFraction+1, of.minPiece
	if rate := m.rate(); rate > 0 {
		all, fastest, total := 0.0, 0.0, 0
		for i := range s.participants {
			o := &s.participants[i]
			all += o.rate()
			fastest = max(fastest, o.rate())
			total += o.hi - o.lo
		}
		size = min((left-1)/pieceFraction+1, int(rate/all*float64(total)/2))
		floor = max(int(rate/fastest*float64(floor)), s.minPiece, int(rate*costOfAPart.Seconds()))
	}
	size = max(size, floor, 1)
	if left-size < s.minPiece {
		size = left // the rest would not be worth a piece
	}
	return min(size, left, limit)
}

// rate returns the items that m has done in a second, or 0 if that is not known.
func (m *participant) rate() float64 {
	if m.busy <= 0 {
		return 0
	}
	return float64(m.items) / m.busy.Seconds()
}

// mostTimeLeft returns the participant with the most estimated time left by its weight, or nil if
// there is no range to steal from.
func (s *scheduler) mostTimeLeft() *participant {
	var most *participant
	var longest float64
	for i := range s.participants {
		m := &s.participants[i]
		if m.lo == m.hi || !m.started && !m.failed {
			continue
		}
		if needs := float64(m.hi-m.lo) / m.weight; most == nil || needs > longest {
			most, longest = m, needs
		}
	}
	return most
}

// wakeIdle wakes the participants that have finished their own range.
func (s *scheduler) wakeIdle() {
	if s.mostTimeLeft() == nil {
		return
	}
	for i := range s.participants {
		if s.participants[i].started {
			s.wake(i)
		}
	}
}

// record records the outcome of a piece. A participant that is unfit can do none: another one does the piece, and that is no retry.
func (s *scheduler) record(i int, k piece, spent spent, err error, unfit bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.participants[i]
	if err != nil {
		if unfit {
			s.noteUnusable(i, err)
			k.retries--
		}
		s.recordFailure(i, k, spent, err)
		return
	}
	t := s.newTile(m.device, k, spent)
	t.Done = true
	m.items += k.hi - k.lo
	m.busy += t.Time()
	if m.lastTile > 0 && s.tiles[m.lastTile-1].join(t) {
		return
	}
	s.tiles = append(s.tiles, t)
	m.lastTile = len(s.tiles)
}

// recordFailure hands the piece to another participant, or ends the call.
func (s *scheduler) recordFailure(i int, k piece, spent spent, err error) {
	m := &s.participants[i]
	m.failed = true
	if s.stop == nil && k.retries < s.retries && s.anyUsable() && !s.crew.lost() {
		s.failedPieces = append(s.failedPieces, piece{k.lo, k.hi, k.retries + 1, m.device, err})
		for j := range s.participants {
			s.wake(j)
		}
		return
	}
	k.cause = err
	s.tiles = append(s.tiles, s.newTile(m.device, k, spent))
	s.failed = true
	s.halt(ErrStopped)
}

// recordUnusable records that a participant cannot work at all. That is no try.
func (s *scheduler) recordUnusable(i int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.participants[i]
	m.failed = true
	s.noteUnusable(i, err)
	switch k := (piece{lo: m.lo, hi: m.hi}); {
	case k.lo == k.hi: // it was woken for failed pieces of others
		for j := range s.failedPieces {
			s.failedPieces[j].cause = errors.Join(s.failedPieces[j].cause, err)
		}
	case s.stop == nil && s.anyUsable() && !s.crew.lost(): // the others take its range
		for j := range s.participants {
			s.wake(j)
		}
	default:
		m.lo = m.hi
		s.recordFailure(i, k, spent{}, err)
	}
}

func (s *scheduler) noteUnusable(i int, err error) {
	if s.unusable == nil {
		s.unusable = map[int]error{}
	}
	s.unusable[i] = err
}

func (s *scheduler) anyUsable() bool {
	for i := range s.participants {
		if !s.participants[i].failed {
			return true
		}
	}
	return false
}

// end stops handing out pieces.
func (s *scheduler) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.halt(cause)
		s.finish()
	}
}

func (s *scheduler) halt(cause error) {
	if s.stop == nil {
		s.stop = cause
		s.cancel(cause)
	}
}

// finish ends the call when no participant is active, and no items are left or no participant that
// could do them.
func (s *scheduler) finish() {
	if s.done || s.active > 0 || s.woken > 0 && s.stop == nil && s.unassigned() {
		return
	}
	s.done = true
	for i := range s.participants {
		if m := &s.participants[i]; m.state == woken {
			m.state = idle // enter returns false for it
		}
	}
	s.woken = 0
	close(s.ended)
}

// unassigned reports whether there are items that no participant works on.
func (s *scheduler) unassigned() bool {
	for i := range s.participants {
		if m := &s.participants[i]; m.lo < m.hi {
			return true
		}
	}
	return len(s.failedPieces) > 0
}

// result returns the outcome of a call that has ended.
func (s *scheduler) result() ([]TileReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.failed && !s.unassigned() {
		return inOrder(s.tiles), nil
	}
	cause := s.stop
	if cause == nil {
		cause = ErrStopped
	}
	for i := range s.participants {
		if m := &s.participants[i]; m.lo < m.hi {
			k := piece{lo: m.lo, hi: m.hi, device: m.device, cause: cause}
			if err := s.unusable[i]; err != nil {
				k.cause = err
			}
			s.failedPieces = append(s.failedPieces, k)
		}
	}
	for _, k := range s.failedPieces {
		k.retries = max(k.retries-1, 0) // the last retry did not begin
		s.tiles = append(s.tiles, s.newTile(k.device, k, spent{}))
	}
	all := inOrder(s.tiles)
	failure := new(Error)
	for _, t := range all {
		if !t.Done {
			failure.Tiles = append(failure.Tiles, t)
		}
	}
	return all, failure
}

// newTile returns the report of a piece.
func (s *scheduler) newTile(device int, k piece, spent spent) TileReport {
	t := TileReport{Tile: s.tile(device, k), Device: s.crew.ordinal(device), Retries: max(k.retries, 0), Cause: k.cause,
		Upload: spent[Upload], Compute: spent[Compute], Download: spent[Download]}
	high, bytes := bits.Mul64(uint64(t.Len()), uint64(s.itemBytes))
	if t.Bytes = bytes; high > 0 {
		t.Bytes = math.MaxUint64
	}
	return t
}
