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

// TestTooFewServersForAConsumer has servers that say for a time that too few of them are there, as they do after they lost sight of each
// other. The test answers in their place.
func TestTooFewServersForAConsumer(t *testing.T) {
	s, err := embedded.Start(embedded.Config{Folder: t.TempDir(), Options: func(o *server.Options) { o.JetStream = false }})
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	nc, err := s.Connect()
	require.NoError(t, err)
	defer nc.Close()
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
