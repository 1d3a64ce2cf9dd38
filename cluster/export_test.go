package cluster

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// WithMemoryStorage is the default of storage.
func WithMemoryStorage() Option { return func(c *config) { c.storage = jetstream.MemoryStorage } }

// WithAckWait sets when the server gives the piece of a silent host to another one.
func WithAckWait(d time.Duration) Option { return func(c *config) { c.ackWait = d } }
