package cluster

import (
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/purecuda/purecuda/pool/isolate"
)

// WithMemoryStorage is the default of storage.
func WithMemoryStorage() Option {
	return option("WithMemoryStorage", func(c *config) { c.storage = jetstream.MemoryStorage }, atOpen)
}

// WithAckWait sets when the server gives the piece of a silent host to another one.
func WithAckWait(d time.Duration) Option {
	return option("WithAckWait", func(c *config) { c.ackWait = d }, atOpen)
}

// Connection is that of a cluster.
func Connection(c *Cluster) *nats.Conn { return c.nc }

// Buffers are those of a group that a host keeps.
type Buffers struct{ c *children }

func NewBuffers(g *isolate.Group, max int64) Buffers { return Buffers{&children{group: g, max: max}} }

func (b Buffers) Take(bytes ...int64) (back func(), err error) {
	_, back, err = b.c.memory(bytes)
	return back, err
}
func (b Buffers) Idle(now time.Time)        { b.c.idle(now) }
func (b Buffers) Bytes() (kept, used int64) { return b.c.kept, b.c.used }
func (b Buffers) Count() int                { return len(b.c.free) }
func (b Buffers) Close()                    { b.c.close() }

// Deafen lets a cluster hear no results: it has what it finds in the stream.
func Deafen(c *Cluster) error {
	var all []error
	for _, s := range c.subs {
		if strings.HasPrefix(s.Subject, c.names.subject("result", "")) {
			all = append(all, s.Unsubscribe())
		}
	}
	return errors.Join(all...)
}
