package gate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/purecuda/purecuda/internal/seeds"
)

func yield() { goruntime.Gosched() }

// TestModel has one goroutine use a gate, and compares every answer with that of a model which has
// nothing to do with atomics.
func TestModel(t *testing.T) {
	seeds.Run(t, 2000, func(seed uint64) *model { return &model{chance: rand.New(rand.NewPCG(seed, 1))} })
}

// model is what a gate has to be like.
type model struct {
	chance              *rand.Rand
	gate                Gate
	inside, suspensions int
	closed              bool
	trace               []string
}

func (m *model) Describe() string { return fmt.Sprintf("%+v after %v", &m.gate, m.trace) }

func (m *model) Run() error {
	for range 100 {
		name, got, want := m.step()
		m.trace = append(m.trace, name)
		if got != want {
			return fmt.Errorf("%s returned %v, and the model %v", name, got, want)
		}
		if n := m.gate.Inside(); n != int64(m.inside) {
			return fmt.Errorf("%d calls are inside, and %d in the model", n, m.inside)
		}
		if m.gate.Closed() != m.closed || m.gate.Suspended() != (m.suspensions > 0) {
			return fmt.Errorf("closed is %v and suspended %v, and the model %+v", m.gate.Closed(), m.gate.Suspended(), m)
		}
	}
	return nil
}

// step makes a call that cannot wait: done is closed.
func (m *model) step() (name string, got, want bool) {
	open := m.suspensions == 0 && !m.closed
	enters := func(name string, got, want bool) (string, bool, bool) {
		if got {
			m.inside++
		}
		return name, got, want
	}
	switch m.chance.IntN(9) {
	case 0, 1:
		return enters("Enter", m.gate.Enter(), open)
	case 2:
		return enters("EnterAlone", m.gate.EnterAlone(), open && m.inside == 0)
	case 3:
		m.inside++
		return "EnterAnyway", m.gate.EnterAnyway(), open
	case 4:
		stay := m.chance.IntN(3)
		want = m.inside <= stay
		if want {
			m.suspensions++
		}
		return fmt.Sprintf("Suspend(%d)", stay), m.gate.Suspend(int64(stay), closedChannel()), want
	case 5:
		if m.suspensions > 0 {
			m.suspensions--
			m.gate.Resume()
		}
		return "Resume", true, true
	case 6:
		if m.chance.IntN(10) > 0 {
			return "nothing", true, true
		}
		want, m.closed = !m.closed, true
		return "Close", m.gate.Close(closedChannel()), want
	case 7:
		m.gate.AwaitOpen(closedChannel())
		return "AwaitOpen", true, true
	default:
		if m.inside > 0 {
			m.inside--
			m.gate.Leave()
		}
		return "Leave", true, true
	}
}

// TestCampaign has goroutines use a gate in every way, and looks whether a call is inside when none
// may be. What a gate guards is a variable that is no atomic, so that the race detector looks too.
func TestCampaign(t *testing.T) {
	seeds.Run(t, seeds.Count(200, 2000, 2000), func(seed uint64) *world { return &world{seed: seed, lost: make(chan struct{})} })
}

type world struct {
	seed uint64
	gate Gate
	lost chan struct{} // closed at some time, or at the end

	guarded int        // read by calls inside, written by who has kept them out
	writing sync.Mutex // several may have kept them out
	turn    sync.Mutex // of those who suspend the gate from the inside
	present atomic.Int64
	alone   atomic.Int64
	closed  atomic.Bool // nobody is inside any more
	firsts  atomic.Int64

	mu     sync.Mutex
	failed error
}

func (w *world) Describe() string {
	return fmt.Sprintf("%d calls are inside, the state is %#x", w.present.Load(), w.gate.state.Load())
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = errors.Join(w.failed, fmt.Errorf(format, args...))
}

func (w *world) Run() error {
	chance := rand.New(rand.NewPCG(w.seed, 2))
	var all sync.WaitGroup
	later := func(yields int, f func()) {
		all.Go(func() {
			for range yields {
				yield()
			}
			f()
		})
	}
	for i := range 2 + chance.IntN(5) {
		later(0, func() { w.use(rand.New(rand.NewPCG(w.seed, uint64(i)+3))) })
	}
	if chance.IntN(2) == 0 {
		later(chance.IntN(200), func() { w.close(nil) })
	}
	loses := chance.IntN(3) == 0
	if loses {
		later(chance.IntN(200), func() { close(w.lost) })
	}
	all.Wait()
	w.close(nil)
	if !loses {
		close(w.lost)
	}
	if n := w.gate.state.Load(); n != closed {
		w.fail("the state is %#x at the end", n)
	}
	if n := w.firsts.Load(); n != 1 {
		w.fail("%d callers were the first to close", n)
	}
	return w.failed
}

func (w *world) isLost() bool {
	select {
	case <-w.lost:
		return true
	default:
		return false
	}
}

func (w *world) use(chance *rand.Rand) {
	for range 50 {
		var lost <-chan struct{}
		if chance.IntN(2) == 0 {
			lost = w.lost
		}
		switch chance.IntN(8) {
		case 0:
			w.suspend(chance, 0, lost)
		case 1:
			w.suspendInside(chance, lost)
		case 2:
			if chance.IntN(20) == 0 {
				w.close(lost)
			}
		case 3:
			w.gate.AwaitOpen(lost)
		case 4:
			if w.gate.EnterAlone() {
				if n := w.alone.Add(1); n != 1 {
					w.fail("%d calls are alone", n)
				}
				w.inside(chance)
				w.alone.Add(-1)
				w.gate.Leave()
			}
		default:
			if w.gate.Enter() {
				w.inside(chance)
				w.gate.Leave()
			}
		}
	}
}

// inside is a call that the gate has let in.
func (w *world) inside(chance *rand.Rand) {
	w.present.Add(1)
	defer w.present.Add(-1)
	for range chance.IntN(4) {
		_ = w.guarded
		if w.closed.Load() {
			w.fail("a call is inside a gate that has closed")
		}
		yield()
	}
}

// suspend keeps calls out for a while, but those that stay.
func (w *world) suspend(chance *rand.Rand, stay int64, lost <-chan struct{}) {
	if !w.gate.Suspend(stay, lost) {
		if lost == nil || !w.isLost() {
			w.fail("Suspend has ended, and nothing is lost")
		}
		return
	}
	for range 1 + chance.IntN(3) {
		w.write(stay)
		yield()
	}
	w.gate.Resume()
}

// suspendInside is suspend for a call that is inside. Two of them would wait for each other, which is
// what turn is for.
func (w *world) suspendInside(chance *rand.Rand, lost <-chan struct{}) {
	w.turn.Lock()
	defer w.turn.Unlock()
	if !w.gate.Enter() {
		return
	}
	w.present.Add(1)
	w.suspend(chance, 1, lost)
	w.present.Add(-1)
	w.gate.Leave()
}

// write changes what the gate guards. The caller has kept all calls out, but those that stay.
func (w *world) write(stay int64) {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.guarded++
	if n := w.present.Load(); n != stay {
		w.fail("%d calls are inside, and %d may be", n, stay)
	}
}

func (w *world) close(lost <-chan struct{}) {
	if w.gate.Close(lost) {
		w.firsts.Add(1)
	}
	if lost == nil {
		w.closed.Store(true)
		w.write(0)
	}
}
