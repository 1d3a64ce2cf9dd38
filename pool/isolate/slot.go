package isolate

import (
	"fmt"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// slot is the place of a child: a device. The group's lock guards it.
type slot struct {
	group   *Group
	device  runtime.Device
	state   State
	process *process // the last one that was Ready
	standby *process // opens the device, has opened it, or is gone
	deaths  []time.Time
	unready int   // children in a row that have died before they were Ready
	err     error // why the last child died
	timer   *time.Timer
	figures DeviceStats
}

// State of the child of a device.
type State string

const (
	// Idle: no request has needed a child yet.
	Idle State = "idle"
	// Starting: the process opens the device.
	Starting State = "starting"
	// Ready: it serves.
	Ready State = "ready"
	// Pausing: it has died, and another one is about to be started.
	Pausing State = "pausing"
	// LeftOut: its children have died too often, and another one will be tried later. Or the setup of its child says that the device can never
	// do the work ([driver.UnfitDevice]), and none will.
	LeftOut State = "left out"
	// Ended: the group is closed.
	Ended State = "ended"
)

// start begins the life of a child. The group's lock is held.
func (s *slot) start() {
	s.state = Starting
	s.group.lives.Add(1)
	go s.live()
}

// live is the life of one child.
func (s *slot) live() {
	g := s.group
	defer g.lives.Done()
	defer g.pool.Changed(s.device.Ordinal)
	p, err := g.spawn(s)
	g.mu.Lock()
	if err == nil {
		s.state, s.process, s.unready = Ready, p, 0
		s.figures.Starts++
		if g.ending {
			p.stopped = true
			go p.stop()
		}
		if g.config.standby && !g.ending && (s.standby == nil || s.standby.reason() != nil) {
			g.lives.Go(func() { g.standBy(s) })
		}
		g.mu.Unlock()
		g.pool.Changed(s.device.Ordinal)
		<-p.dying // the next one starts while the driver takes this one down
		g.mu.Lock()
		err = p.reason()
		g.lives.Go(func() { <-p.gone })
	}
	if p == nil {
		s.unready++
	}
	defer g.mu.Unlock()
	if g.ending {
		s.state = Ended
		if p != nil && !p.stopped {
			s.err = err
			s.figures.Deaths++
		}
		return
	}
	s.die(err)
}

// firstPause is how long the next start waits where two children in a row were never Ready; it doubles from then on. A child that requests
// have killed keeps nobody waiting: WithRestarts bounds those.
const firstPause = 100 * time.Millisecond

// die plans what comes after a death. The group's lock is held.
func (s *slot) die(err error) {
	now := time.Now()
	s.err = err
	s.figures.Deaths++
	for len(s.deaths) > 0 && now.Sub(s.deaths[0]) > s.group.config.within {
		s.deaths = s.deaths[1:]
	}
	s.deaths = append(s.deaths, now)
	if driver.UnfitDevice(err) { // the next one would do no better
		s.state = LeftOut
		return
	}
	s.state = Pausing
	var pause time.Duration
	switch {
	case len(s.deaths) > s.group.config.restarts:
		s.state, pause = LeftOut, s.group.config.within
	case s.unready > 1:
		pause = min(firstPause<<min(s.unready-2, 6), s.group.config.within)
	}
	if pause == 0 {
		s.start()
		return
	}
	s.timer = time.AfterFunc(pause, func() {
		s.group.mu.Lock()
		defer s.group.mu.Unlock()
		if !s.group.ending && (s.state == Pausing || s.state == LeftOut) {
			s.start()
		}
	})
}

// gaveUp is the error of a request for a device that is left out. The group's lock is held.
func (s *slot) gaveUp() error {
	if driver.UnfitDevice(s.err) {
		return fmt.Errorf("the child of device %d cannot do the work, and none is started again: %w", s.device.Ordinal, s.err)
	}
	return driver.Errorf(ErrGaveUp, "the children of device %d have died too often (WithRestarts): %w", s.device.Ordinal,
		driver.Errorf(ErrChildDied, "%w", s.err))
}
