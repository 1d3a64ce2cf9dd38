package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
)

// backlog is what the scaler of KEDA reads from the server: pieces that wait, and pieces that run.
func backlog(t *testing.T, port int, stream, consumer string) (n int) {
	t.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/jsz?acc=$G&consumers=true&config=true", port))
	require.NoError(t, err)
	defer r.Body.Close()
	var all struct {
		Accounts []struct {
			Streams []struct {
				Name      string `json:"name"`
				Consumers []struct {
					Name    string `json:"name"`
					Pending int    `json:"num_pending"`
					Acks    int    `json:"num_ack_pending"`
				} `json:"consumer_detail"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	require.NoError(t, json.NewDecoder(r.Body).Decode(&all))
	for _, a := range all.Accounts {
		for _, s := range a.Streams {
			for _, c := range s.Consumers {
				if s.Name == stream && c.Name == consumer {
					n += c.Pending + c.Acks
				}
			}
		}
	}
	return n
}

// TestBacklogWithoutWorkers has a call begin before there is any worker. An autoscaler sees the pieces that wait, and starts one.
func TestBacklogWithoutWorkers(t *testing.T) {
	port := freePort(t)
	s := start(t, embedded.Config{Options: func(o *server.Options) { o.HTTPHost, o.HTTPPort = "127.0.0.1", port }})
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	var call sync.WaitGroup
	call.Go(func() { squares(t, c, "square/v1", 100) })
	require.Eventually(t, func() bool { return backlog(t, port, "purecuda_v1_work", "square=v1") > 0 }, patience, 10*time.Millisecond)
	serve(t, connect(t, s), openPool(t, 1), "started")
	call.Wait()
	require.Eventually(t, func() bool { return backlog(t, port, "purecuda_v1_work", "square=v1") == 0 }, patience, 10*time.Millisecond)

	short := open(t, connect(t, s), cluster.WithPatience(100*time.Millisecond))
	_, _, err := cluster.Do(within(t), short, "none/v1", cluster.Piece{})
	assert.ErrorIs(t, err, cluster.ErrNoWorker)
	assert.Zero(t, backlog(t, port, "purecuda_v1_work", "none=v1"), "what a call that failed has left")
}

// TestSameBuild has hosts and callers of this build that meet no others. What the server has of a build goes when nobody uses it.
func TestSameBuild(t *testing.T) {
	assert.Regexp(t, "^[0-9a-f]{16}$", cluster.Build())
	s := start(t, embedded.Config{})
	serve(t, connect(t, s), openPool(t, 1), "same", cluster.WithSameBuild())
	serve(t, connect(t, s), openPool(t, 1), "any")
	for _, one := range []struct {
		host    string
		options []cluster.Option
	}{{"same", []cluster.Option{cluster.WithSameBuild()}}, {"any", nil}} {
		c := open(t, connect(t, s), append(one.options, cluster.WithPatience(patience))...)
		for _, tile := range squares(t, c, "square/v1", 20).Tiles {
			assert.Equal(t, one.host, tile.Host)
		}
		for _, host := range c.Hosts() {
			assert.Equal(t, cluster.Build(), host.Build)
			assert.Equal(t, host.Name == "same", slices.Contains(host.Functions, "square/v1/"+cluster.Build()), host.Functions)
		}
		_, _, err := cluster.Do(within(t), c, "none/v1", cluster.Piece{}, cluster.WithPatience(100*time.Millisecond))
		assert.ErrorIs(t, err, cluster.ErrNoWorker)
	}
	js, err := jetstream.New(connect(t, s))
	require.NoError(t, err)
	var streams []string
	for name := range js.StreamNames(within(t)).Name() {
		streams = append(streams, name)
	}
	assert.ElementsMatch(t, []string{"purecuda_v1_result", "purecuda_v1_work"}, streams)
	for token, keep := range map[string]time.Duration{"square=v1": 0, "square=v1=" + cluster.Build(): 24 * time.Hour} {
		consumer, err := js.Consumer(within(t), "purecuda_v1_work", token)
		require.NoError(t, err)
		assert.Equal(t, keep, consumer.CachedInfo().Config.InactiveThreshold)
	}
}

// TestPiecesOfFunctions counts by function.
func TestPiecesOfFunctions(t *testing.T) {
	c := onHosts(t, 1)
	squares(t, c, "slow/v1", 10)
	_, _, err := cluster.Do(within(t), c, "fail/v1", cluster.Piece{}, cluster.WithRetry(1))
	require.Error(t, err)
	require.Eventually(t, func() bool {
		p := c.Hosts()[0].Pieces
		return p["slow/v1"].Done == 10 && p["slow/v1"].Failed == 0 && p["slow/v1"].Ran >= 200*time.Millisecond && p["fail/v1"].Failed == 2
	}, patience, 10*time.Millisecond)
}

// locked is a buffer for a logger.
type locked struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestLogger has a call fall back, which no error tells.
func TestLogger(t *testing.T) {
	var text locked
	logger := cluster.WithLogger(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})))
	s := start(t, embedded.Config{})
	c := open(t, connect(t, s), cluster.WithPatience(100*time.Millisecond), logger)
	_, _, err := cluster.Do(within(t), c, "fail/v1", cluster.Piece{}, cluster.WithFallback(func(context.Context, cluster.Piece) ([]byte, error) { return nil, nil }))
	require.NoError(t, err)
	assert.Contains(t, text.String(), "no host serves")
	serve(t, connect(t, s), openPool(t, 1), "host", logger)
	c = open(t, connect(t, s), cluster.WithPatience(patience), cluster.WithLogger(nil))
	_, _, err = cluster.Do(within(t), c, "fail/v1", cluster.Piece{}, cluster.WithRetry(0))
	require.Error(t, err)
	assert.Contains(t, text.String(), "slots=2")
	assert.Contains(t, text.String(), "not today")
}
