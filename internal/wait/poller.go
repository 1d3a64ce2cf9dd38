package wait

import (
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/locks"
)

// Poller wakes those who wait for the streams of all its devices. A process needs one. The zero
// value is ready, has no goroutine while nobody waits, and must not be copied.
type Poller struct {
	mu      locks.Mutex[locks.Waits]
	devices map[*Device]struct{} // open
	fresh   []*source            // somebody began to wait for them since the last look
	running bool

	watched []*source // of the goroutine
	due     []*Device // of the goroutine: with streams that the driver is to be asked about

	woken    atomic.Int64 // by questions about short work
	waiters  sync.Pool    // *waiter
	spinning atomic.Int32
	spinners atomic.Int32 // that there may be
	counts   counts
}

type counts struct{ waits, spun, parked, shared, asks atomic.Uint64 }

// Stats are figures of a Poller since it was made.
type Stats struct {
	Waits  uint64 // all waits, functions of AfterFunc included
	Spun   uint64 // that ended while they spun
	Parked uint64 // that parked
	Shared uint64 // tickets that needed no write of their own
	Asks   uint64 // calls of the driver about streams and events
}

// Stats returns the figures. It makes no call of the driver.
func (p *Poller) Stats() Stats {
	c := &p.counts
	return Stats{c.waits.Load(), c.spun.Load(), c.parked.Load(), c.shared.Load(), c.asks.Load()}
}

// Lose ends all waits on all devices with the first cause: a sticky error is one of the process.
// Later calls do nothing.
func (p *Poller) Lose(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for d := range p.devices {
		d.end(cause)
	}
}

// watch makes the goroutine look at a source until nobody waits for it.
func (p *Poller) watch(s *source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = append(p.fresh, s)
	if !p.running {
		p.running = true
		go p.run()
	}
}

const (
	// silence is how long a stream may show nothing before the driver is asked about it.
	silence = time.Millisecond
	// leastPause and mostPause bound the sleep of the poller between two looks.
	leastPause = 20 * time.Microsecond
	mostPause  = 250 * time.Microsecond
	// busyGap is the distance of completions below which the poller does not sleep.
	busyGap = 25 * time.Microsecond
)

// run looks at what is waited for until that is nothing.
func (p *Poller) run() {
	p.allowSpinners()
	var sleep sleeper
	defer sleep.close()
	gap := 2 * busyGap // from one completion to the next, an average
	last := clock()
	for {
		p.mu.Lock()
		p.watched = append(p.watched, p.fresh...)
		clear(p.fresh)
		p.fresh = p.fresh[:0]
		if len(p.watched) == 0 {
			p.running = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		now := clock()
		woken, next := p.look(now)
		woken += int(p.woken.Swap(0))
		quiet := now - last
		if woken > 0 {
			gap += (quiet/time.Duration(woken) - gap) / 8
			last = now
		}
		goruntime.Gosched() // those who were woken, and what the program does, come first
		if woken == 0 && (gap > busyGap || quiet > max(8*gap, busyGap)) {
			gap = max(gap, quiet/8)
			// A look takes time for each of the watched.
			sleep.pause(max(min(next-now, mostPause), leastPause, time.Duration(len(p.watched))*time.Microsecond))
		}
	}
}

// look wakes those whose work is done, and has the driver asked about what is silent. next is when
// to look again.
func (p *Poller) look(now time.Duration) (woken int, next time.Duration) {
	kept := p.watched[:0]
	next = now + silence
	for _, s := range p.watched {
		n, ask, waited := s.look(now)
		woken += n
		next = min(next, s.lookAt)
		if waited {
			kept = append(kept, s)
		}
		if ask {
			if len(s.dev.due) == 0 {
				p.due = append(p.due, s.dev)
			}
			s.dev.due = append(s.dev.due, s)
		}
	}
	clear(p.watched[len(kept):])
	p.watched = kept
	for _, d := range p.due {
		d.dispatch(now)
	}
	clear(p.due)
	p.due = p.due[:0]
	return woken, next
}

// allowSpinners lets a quarter of the processors spin.
func (p *Poller) allowSpinners() { p.spinners.Store(int32(max(1, goruntime.GOMAXPROCS(0)/4))) }

// besideFor is for how many waits a source counts as not alone after one of them spun beside others. At a given moment the others of a
// service often do something else.
const besideFor = 64

// spin tells whether one more may spin, for a source. Who may calls spun at the end.
func (p *Poller) spin(s *source) bool {
	spinning, most := p.spinning.Add(1), p.spinners.Load()
	if spinning > 1 && most > 1 {
		s.beside.Store(besideFor)
	}
	if spinning <= most {
		return true
	}
	p.spun()
	return false
}

func (p *Poller) spun() { p.spinning.Add(-1) }

// Open prepares the waits on the streams of a context, which is current on no thread or any. It
// asks what the device can do, and allocates nothing. The Binding must not change until Close.
func (p *Poller) Open(b *driver.Binding, config Config) (*Device, error) {
	d := &Device{poller: p, binding: b, config: config.complete(), streams: map[*Stream]struct{}{},
		closed: map[*Stream]struct{}{}, events: map[*Event]struct{}{}}
	if err := d.probe(); err != nil {
		return nil, err
	}
	p.allowSpinners()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.devices == nil {
		p.devices = map[*Device]struct{}{}
	}
	p.devices[d] = struct{}{}
	return d, nil
}

func (p *Poller) forget(d *Device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.devices, d)
}

// clock is a monotonic time.
func clock() time.Duration { return time.Since(began) }

var began = time.Now()
