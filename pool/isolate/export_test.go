package isolate

import (
	"net"
	"time"

	"github.com/purecuda/purecuda/driver"
)

// SetGonePatience changes how long a killed process may take to end, and returns what changes it back.
func SetGonePatience(d time.Duration) (back func()) {
	before := gonePatience
	gonePatience = d
	return func() { gonePatience = before }
}

// EndsAfter starts a child, gives it a reason to get no requests any more, and returns why it has ended. The reason comes before its end.
func EndsAfter(g *Group, reason error, unsent bool) error {
	p, err := g.fork(g.slots[0])
	if err != nil {
		return err
	}
	if unsent {
		reason = driver.Errorf(ErrChildDied, "%w: %w", errUnsent, reason)
	}
	p.mu.Lock()
	p.doom(reason)
	p.mu.Unlock()
	<-p.gone
	return p.cause
}

// Send sends a frame with so many bytes.
func Send(conn *net.UnixConn, bytes int) error {
	return (&link{conn: conn}).send(resultFrame, 1, make([]byte, bytes))
}
