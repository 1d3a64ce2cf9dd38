package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster/embedded"
)

// connected is a connection to a server of the test's own.
func connected(t *testing.T, options func(*server.Options)) *nats.Conn {
	s, err := embedded.Start(embedded.Config{Folder: t.TempDir(), Options: options})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	nc, err := s.Connect()
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// TestTooFewServersForAConsumer has servers that say for a time that too few of them are there, as they do after they lost sight of each
// other. The test answers in their place.
func TestTooFewServersForAConsumer(t *testing.T) {
	nc := connected(t, func(o *server.Options) { o.JetStream = false })
	answer := func(subject string, f func() string) {
		_, err := nc.Subscribe(subject, func(m *nats.Msg) { assert.NoError(t, m.Respond([]byte(f()))) })
		require.NoError(t, err)
	}
	refusals := 0
	answer("$JS.API.CONSUMER.INFO.>", func() string { return `{"error":{"code":404,"err_code":10014,"description":"consumer not found"}}` })
	answer("$JS.API.CONSUMER.CREATE.>", func() string {
		if refusals--; refusals >= 0 {
			return `{"error":{"code":503,"err_code":10023,"description":"insufficient resources"}}`
		}
		return `{"stream_name":"purecuda_v1_work","name":"f=v1","config":{"durable_name":"f=v1"}}`
	})
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	for _, one := range []struct {
		refusals int
		patience time.Duration
		kind     error
	}{{3, time.Minute, nil}, {1 << 30, 300 * time.Millisecond, ErrQuota}} {
		config, err := configured(atOpen, nil, []Option{WithPatience(one.patience)})
		require.NoError(t, err)
		c := &Cluster{nc: nc, js: js, names: defaultName, config: config, ready: map[string]bool{}}
		k, err := newCall(t.Context(), c, "f/v1", 1, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		refusals = one.refusals
		assert.ErrorIs(t, k.prepare(ctx), one.kind)
		assert.NoError(t, ctx.Err())
		cancel()
	}
}

// TestNobodyIsHeardOf has a call without hosts. That none serves the function is said only while the streams answer: where the connection
// is dead, the hosts are not heard of either.
func TestNobodyIsHeardOf(t *testing.T) {
	nc := connected(t, nil)
	for name, one := range map[string]struct {
		lost, silent time.Duration // since when there is no host, and since when the streams have said nothing
		kind         error
	}{
		"the streams answer":    {5 * time.Second, 100 * time.Millisecond, ErrNoWorker},
		"they are being asked":  {5 * time.Second, 3 * time.Second, nil},
		"they do not answer":    {9 * time.Second, 8 * time.Second, ErrDisconnected},
		"within the patience":   {3 * time.Second, 3 * time.Second, nil},
		"the hosts left before": {time.Minute, 3 * time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Open(t.Context(), nc, WithPatience(4*time.Second))
			require.NoError(t, err)
			defer func() { assert.NoError(t, c.Close()) }()
			k, err := newCall(t.Context(), c, "f/v1", 1, nil)
			require.NoError(t, err)
			k.since, k.heard = time.Now().Add(-one.lost), time.Now().Add(-one.silent)
			assert.ErrorIs(t, k.look(), one.kind)
			k.since, k.heard = time.Now(), time.Now().Add(-one.silent)
			f := &flight{checked: 0, alone: time.Now().Add(-one.lost)}
			if err := k.await(f); one.kind == ErrNoWorker {
				assert.ErrorIs(t, err, ErrNoWorker)
			} else {
				assert.NoError(t, err)
			}
		})
	}
}

// A call that could not send for seconds hears late that the streams have answered. That is no sign that the connection lives now.
func TestAnAnswerIsHeardLate(t *testing.T) {
	nc := connected(t, nil)
	c, err := Open(t.Context(), nc, WithPatience(4*time.Second))
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()
	for _, kind := range []eventKind{askedEvent, recoveredEvent} {
		k, err := newCall(t.Context(), c, "f/v1", 1, nil)
		require.NoError(t, err)
		ago := time.Now().Add(-9 * time.Second)
		k.since = ago
		require.NoError(t, k.handle(t.Context(), event{kind: kind, at: ago}))
		assert.ErrorIs(t, k.look(), ErrDisconnected)
	}
}
