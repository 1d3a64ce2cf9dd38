package cluster_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
)

// TestLostResults has a caller that hears no result, as when servers lose sight of each other while a result is on its way. It finds
// them in the stream long before the deadline of the pieces, and nothing is done again but what the stream has lost as well.
func TestLostResults(t *testing.T) {
	for name, purge := range map[string]bool{"kept": false, "lost by the stream": true} {
		t.Run(name, func(t *testing.T) {
			c := onHosts(t, 1)
			require.NoError(t, cluster.Deafen(c))
			before := counted.Load()
			var purged sync.WaitGroup
			if purge {
				purged.Go(func() {
					js, err := jetstream.New(cluster.Connection(c))
					assert.NoError(t, err)
					s, err := js.Stream(within(t), "purecuda_v1_result")
					if assert.NoError(t, err) {
						assert.Eventually(t, func() bool {
							i, err := s.Info(within(t))
							return err == nil && i.State.Msgs >= 5
						}, patience, time.Millisecond)
						assert.NoError(t, s.Purge(within(t)))
					}
				})
			}
			squares(t, c, "count/v1", 30, cluster.WithPieceDeadline(time.Hour), cluster.WithPatience(4*time.Second))
			purged.Wait()
			if n := counted.Load() - before; purge {
				assert.Greater(t, n, int64(30))
			} else {
				assert.EqualValues(t, 30, n)
			}
		})
	}
}

// TestLostVerification has a host that seems to have the most room, and hears nothing of what is sent to it. Another one verifies, long
// before the deadline of the pieces.
func TestLostVerification(t *testing.T) {
	s := start(t, embedded.Config{})
	for _, name := range []string{"one", "two"} {
		serve(t, connect(t, s), openPool(t, 1), name)
	}
	nc := connect(t, s)
	text, err := json.Marshal(cluster.Host{Functions: []string{"square/v1"}, Slots: 1000})
	require.NoError(t, err)
	var tell sync.WaitGroup
	defer tell.Wait()
	ended := make(chan struct{})
	defer close(ended)
	tell.Go(func() {
		for {
			assert.NoError(t, nc.Publish("purecuda.v1.health.deaf.x", text))
			select {
			case <-ended:
				return
			case <-time.After(time.Second):
			}
		}
	})
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	require.Eventually(t, func() bool { return len(c.Hosts()) == 3 }, patience, 10*time.Millisecond)
	squares(t, c, "square/v1", 10, cluster.WithVerify(1), cluster.WithPieceDeadline(time.Hour))
}
