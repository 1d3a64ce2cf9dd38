package isolate

import "time"

// SetGonePatience changes how long a killed process may take to end, and returns what changes it back.
func SetGonePatience(d time.Duration) (back func()) {
	before := gonePatience
	gonePatience = d
	return func() { gonePatience = before }
}

// EndsAfter starts a child that gets no requests any more for the reason, and returns why it has ended.
func EndsAfter(g *Group, reason error) error {
	p, err := g.fork(g.slots[0])
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.doom(reason)
	p.mu.Unlock()
	<-p.gone
	return p.cause
}
