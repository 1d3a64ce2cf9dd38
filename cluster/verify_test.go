package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/pool/isolate"
)

// liar serves square/v1 and gives wrong results.
func liar(t *testing.T, nc *nats.Conn, name string) {
	t.Helper()
	serveFunctions(t, nc, openPool(t, 0), name, []string{"square/v1"},
		cluster.WithCPU("square/v1", func(context.Context, *isolate.Request) ([]byte, error) { return number(12345), nil }))
}

// TestVerifyNeverBySameHost has no honest host left: it drains while it is busy. The liar must not confirm itself.
func TestVerifyNeverBySameHost(t *testing.T) {
	for name, test := range map[string]struct {
		another bool // an honest host comes while the call waits
		want    error
	}{"alone": {false, cluster.ErrNoWorker}, "another comes": {true, cluster.ErrMismatch}} {
		t.Run(name, func(t *testing.T) {
			s := start(t, embedded.Config{})
			liar(t, connect(t, s), "liar")
			stop := serve(t, connect(t, s), openPool(t, 1), "honest", cluster.WithSlots(1), cluster.WithDrain(time.Millisecond))
			c := open(t, connect(t, s), cluster.WithPatience(patience))
			require.Eventually(t, func() bool { return len(c.Hosts()) == 2 }, patience, 10*time.Millisecond)
			busy, end := context.WithCancel(within(t))
			var all sync.WaitGroup
			defer all.Wait()
			defer end()
			before := running.Load()
			for range 4 {
				all.Go(func() { _, _, _ = cluster.Do(busy, c, "wait/v1", cluster.Piece{}) }) // they end with the test
			}
			require.Eventually(t, func() bool { return running.Load() > before }, patience, time.Millisecond)
			waits := time.Second
			if test.another {
				waits = patience
			}
			all.Go(func() {
				time.Sleep(200 * time.Millisecond)
				stop()
				if test.another {
					serveFunctions(t, connect(t, s), openPool(t, 1), "other", []string{"square/v1"})
				}
			})
			_, _, err := cluster.Map(within(t), c, "square/v1", [][]byte{number(1), number(2), number(3), number(4), number(5), number(6)},
				cluster.WithVerify(1), cluster.WithPatience(waits))
			assert.ErrorIs(t, err, test.want)
		})
	}
}

// TestForgedResults has somebody with the least rights of one host. The server lets it publish, as that host, what it likes.
func TestForgedResults(t *testing.T) {
	functions := []string{"slow/v1"}
	rights := map[string]cluster.Permissions{}
	asUser := map[string]nats.Option{}
	var users strings.Builder
	for _, name := range []string{"one", "two", "stolen"} {
		p, err := cluster.HostPermissions("purecuda", name, "_INBOX_"+name, functions...)
		require.NoError(t, err)
		rights[name] = p
	}
	p, err := cluster.CallerPermissions("purecuda", "_INBOX_caller")
	require.NoError(t, err)
	rights["caller"] = p
	for name, p := range rights {
		public, as := key(t)
		asUser[name] = as
		fmt.Fprintf(&users, "{ nkey: %s, permissions: %s }\n", public, p)
	}
	s, trust := guardedBy(t, users.String())
	dial := func(name string) *nats.Conn {
		nc, err := nats.Connect(s.URL(), asUser[name], nats.Secure(trust), nats.CustomInboxPrefix("_INBOX_"+name), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		return nc
	}
	serveFunctions(t, dial("one"), openPool(t, 1), "one", functions)
	serveFunctions(t, dial("two"), openPool(t, 1), "two", functions)
	c := open(t, dial("caller"), cluster.WithPatience(patience))
	require.Eventually(t, func() bool { return len(c.Hosts()) == 2 }, patience, 10*time.Millisecond)

	thief := dial("stolen")
	// It takes a piece from the queue, and so knows the caller. The pieces of a call have numbers.
	asked := make(chan *nats.Msg, 100)
	sub, err := thief.ChanSubscribe(thief.NewInbox(), asked)
	require.NoError(t, err)
	pull := func() {
		assert.NoError(t, thief.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.purecuda_v1_work.slow=v1", sub.Subject, []byte(`{"batch":1,"expires":30000000000}`)))
	}
	forge := func(call string) {
		for n := range 400 { // verifications have the numbers after the pieces
			for _, host := range []string{"stolen", "one", "two"} {
				head := fmt.Sprintf(`0 {"d":-1}%s`, "\n")
				piece := fmt.Sprintf("%s.%d", call, n)
				_ = thief.Publish("purecuda.v1.result.slow=v1."+host+"."+piece+".ok", append([]byte(head), number(666)...))
				_ = thief.Publish("purecuda.v1.begin.slow=v1."+host+"."+piece, []byte(head))
			}
		}
		for _, host := range []string{"stolen", "one", "two"} {
			text, err := json.Marshal(cluster.Host{ID: host + ".forged", Name: host, Functions: functions, Slots: 1 << 30})
			assert.NoError(t, err)
			_ = thief.Publish("purecuda.v1.health."+host+".forged", text)
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case m := <-asked:
				if tokens := strings.Split(m.Subject, "."); len(tokens) == 7 {
					forge(tokens[4] + "." + tokens[5])
				}
				pull()
			case <-stop:
				return
			}
		}
	}()
	for range 5 {
		pull()
		result := map[int]uint64{}
		_, err := cluster.Scatter(within(t), c, "slow/v1", 100, func(i int) (cluster.Piece, error) {
			return cluster.Piece{Data: number(uint64(i))}, nil
		}, func(i int, r []byte) error {
			result[i] = uint64(r[0]) | uint64(r[1])<<8
			return nil
		}, cluster.WithVerify(1), cluster.WithRetry(3), cluster.WithPieceDeadline(3*time.Second))
		for i, x := range result {
			assert.Equal(t, uint64(i*i), x, "piece %d", i)
		}
		if err != nil { // the thief can make a call fail, and not make it wrong
			assert.True(t, errors.Is(err, cluster.ErrMismatch) || errors.Is(err, cluster.ErrHostLost) || errors.Is(err, cluster.ErrPoison), "%v", err)
			t.Log(strings.SplitN(err.Error(), "\n", 2)[0])
		}
	}
	close(stop)
	<-stopped
}
