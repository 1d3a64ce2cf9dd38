package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/driver"
)

// TestHostileReferences are references that name what is no data: no slot waits for them, and no process ends.
func TestHostileReferences(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "data"), make([]byte, 100), 0o600))
	require.NoError(t, syscall.Mkfifo(filepath.Join(folder, "fifo"), 0o600))
	var requests atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		switch r.URL.Path {
		case "/data/loop":
			http.Redirect(w, r, "/data/loop", http.StatusFound)
		case "/data/other-range":
			w.Header().Set("Content-Range", "bytes 0-99/1000")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(make([]byte, 100))
		case "/data/no-range":
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(make([]byte, 100))
		}
	}))
	defer web.Close()
	s := start(t, embedded.Config{})
	serve(t, connect(t, s), openPool(t, 1), "host", cluster.WithRoot("set", folder), cluster.WithURL(web.URL+"/data/"), cluster.WithSlots(1))
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	object, err := c.Put(within(t), "object", make([]byte, 100))
	require.NoError(t, err)
	for name, test := range map[string]struct {
		ref  cluster.Ref
		want error
		text string
	}{
		"FIFO":             {cluster.Ref{URI: "file:set/fifo", Length: 10}, cluster.ErrPermission, "no regular file"},
		"far in a file":    {cluster.Ref{URI: "file:set/data", Offset: 1 << 46, Length: 10}, nil, "EOF"},
		"far in an object": {cluster.Ref{URI: object.URI, Offset: 1 << 46, Length: 10}, cluster.ErrMismatch, "has 100 bytes"},
		"far in a page":    {cluster.Ref{URI: web.URL + "/data/whole", Offset: 1 << 46, Length: 10}, nil, "EOF"},
		"for ever around":  {cluster.Ref{URI: web.URL + "/data/loop", Length: 10}, cluster.ErrPermission, "redirections"},
		"another range":    {cluster.Ref{URI: web.URL + "/data/other-range", Offset: 10, Length: 10}, cluster.ErrMismatch, "bytes 0-99"},
		"no range":         {cluster.Ref{URI: web.URL + "/data/no-range", Offset: 10, Length: 10}, cluster.ErrMismatch, "range"},
	} {
		t.Run(name, func(t *testing.T) {
			requests.Store(0)
			_, _, err := cluster.Do(within(t), c, "sum/v1", cluster.Piece{Refs: []cluster.Ref{test.ref}}, cluster.WithRetry(0), cluster.WithPieceDeadline(20*time.Second))
			require.ErrorContains(t, err, test.text)
			assert.NotErrorIs(t, err, context.DeadlineExceeded)
			if test.want != nil {
				assert.ErrorIs(t, err, test.want)
			}
			assert.Less(t, requests.Load(), int64(20))
		})
	}
	squares(t, c, "square/v1", 5)
}

// TestHostileMessages has somebody with all rights publish what no host and no caller of this package would.
func TestHostileMessages(t *testing.T) {
	s := start(t, embedded.Config{})
	nc := connect(t, s)
	stop := serve(t, connect(t, s), openPool(t, 1), "host", cluster.WithDrain(time.Second))
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	require.Eventually(t, func() bool { return len(c.Hosts()) == 1 }, patience, 10*time.Millisecond)
	squares(t, c, "square/v1", 5) // the consumer is there
	id := c.Hosts()[0].ID
	head := func(head map[string]any) []byte {
		text, err := json.Marshal(head)
		require.NoError(t, err)
		return append(append([]byte("0 "), text...), '\n')
	}
	pieces := [][]byte{nil, []byte("\n"), []byte("0 {}\n"), []byte("0 null\n"), []byte("-1 {\"d\":1}\nx"), []byte("0 {\"d\":1e99}\n"),
		head(map[string]any{"d": -1, "f": "square/v1", "p": "a.1.1"}),
		head(map[string]any{"d": int64(1<<63 - 1), "f": "square/v1", "p": "a.1.2"}),
		head(map[string]any{"d": time.Minute, "f": "square/v1"}), // without a subject for its answer
		head(map[string]any{"d": time.Minute, "f": "square/v1", "p": "> *.. "}),
		head(map[string]any{"d": time.Minute, "f": "square/v1", "p": "a.1.3"}), // without data
		head(map[string]any{"d": time.Minute, "f": "../v1", "p": "a.1.4"}),
		head(map[string]any{"d": time.Minute, "f": "sum/v1", "p": "a.1.5", "r": []cluster.Ref{{URI: "object:x", Offset: 1 << 46, Length: 1}}}),
		head(map[string]any{"d": time.Minute, "f": "sum/v1", "p": "a.1.6", "r": make([]cluster.Ref, 2000)}),
		head(map[string]any{"d": time.Minute, "f": "echo/v1", "p": "a.1.7", "l": cluster.Ref{URI: "object:x", Offset: 1 << 46, Length: 1 << 20}}),
		head(map[string]any{"d": time.Minute, "f": "echo/v1", "p": "a.1.8", "l": cluster.Ref{URI: "file:x", Length: -1}}),
		head(map[string]any{"d": time.Minute, "f": "nil-error/v1", "p": "a.1.9"}),
	}
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	for i, data := range pieces {
		require.NoError(t, nc.Publish("purecuda.v1.host."+id, data))
		for _, function := range []string{"square=v1", "sum=v1", "echo=v1"} {
			_, err := js.Publish(within(t), fmt.Sprintf("purecuda.v1.work.%s.a.1.%d", function, i), data)
			require.NoError(t, err)
			_, err = js.Publish(within(t), fmt.Sprintf("purecuda.v1.work.%s.x%d", function, i), data) // nobody can be told
			require.NoError(t, err)
		}
	}
	for i := range 100 {
		require.NoError(t, nc.Publish("purecuda.v1.cancel", fmt.Append(nil, "x.", i)))
	}
	require.NoError(t, nc.Publish("purecuda.v1.cancel", nil))
	require.NoError(t, nc.Publish("purecuda.v1.cancel", make([]byte, 1<<19)))
	for _, name := range []string{"health.host.x", "health.host", "health.host.x.y", "health. .x"} {
		for _, text := range []string{"", "null", "[]", `{"Slots":-1}`, `{"Slots":9223372036854775807}`, `{"Slots":1e300}`, `{"Functions":["square/v1"],"Slots":65536,"Busy":65536}`} {
			_ = nc.Publish("purecuda."+name, []byte(text)) // some are no subjects
		}
	}
	squares(t, c, "square/v1", 20)
	var all atomic.Int64
	report, err := cluster.Scatter(within(t), c, "slow/v1", 50, func(i int) (cluster.Piece, error) {
		for _, sub := range []string{"result.slow=v1.liar.%s.%d.%d.0", "result.slow=v1.liar.%s.%d.%d.ok", "begin.slow=v1.liar.%s.%d.%d", "result.%s.%d.%d"} {
			for _, data := range []string{"", "0 {}\n", "-9 {\"d\":0}\n", "0 {\"d\":99999999999}\n", "0 {\"e\":{}}\n", "0 {\"e\":[1,2]}\n", "0 {\"d\":-7}\nabc",
				`0 {"l":{"u":"object:x","n":1073741824,"o":70368744177664}}` + "\n", `0 {"l":{"u":"file:/dev/zero","n":-1}}` + "\n"} {
				_ = nc.Publish(fmt.Sprintf("purecuda."+sub, "nobody", i, i), []byte(data)) // some are no subjects
			}
		}
		return cluster.Piece{Data: number(uint64(i))}, nil
	}, func(int, []byte) error { all.Add(1); return nil })
	require.NoError(t, err)
	assert.EqualValues(t, 50, all.Load())
	assert.Equal(t, 50, report.Tiles[len(report.Tiles)-1].Hi)
	stop() // which ends, though nobody takes the answers
	_, err = cluster.Open(within(t), nc, cluster.WithPatience(-1))
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
}

// TestHostileSitter has a worker that takes pieces, tells the server that it works, and never answers.
func TestHostileSitter(t *testing.T) {
	s := start(t, embedded.Config{})
	serve(t, connect(t, s), openPool(t, 1), "host")
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	squares(t, c, "slow/v1", 2)
	ctx, cancel := context.WithCancel(within(t))
	sat, ended := make(chan struct{}), make(chan struct{})
	js, err := jetstream.New(connect(t, s))
	require.NoError(t, err)
	consumer, err := js.Consumer(ctx, "purecuda_v1_work", "slow=v1")
	require.NoError(t, err)
	go func() {
		defer close(ended)
		var taken []jetstream.Msg
		for ctx.Err() == nil {
			if len(taken) < 10 {
				b, err := consumer.Fetch(3, jetstream.FetchMaxWait(500*time.Millisecond))
				if err != nil {
					continue
				}
				for m := range b.Messages() {
					if taken = append(taken, m); len(taken) == 1 {
						close(sat)
					}
				}
			}
			time.Sleep(100 * time.Millisecond)
			for _, m := range taken {
				_ = m.InProgress() // the test ends
			}
		}
	}()
	squares(t, c, "slow/v1", 300, cluster.WithPieceDeadline(time.Second))
	<-sat
	n, err := c.Queue(within(t))
	assert.NoError(t, err)
	assert.Zero(t, n, "the pieces that nobody needs any more are gone")
	cancel()
	<-ended
}

// TestServeEnds ends Serve while something does not: within its drain, and a little more.
func TestServeEnds(t *testing.T) {
	t.Run("server away", func(t *testing.T) {
		s := start(t, embedded.Config{Listen: "127.0.0.1:0", Token: token})
		p := newProxy(t, s.URL()[len("nats://"):])
		nc, err := dial(p.url())
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		ctx, cancel := context.WithCancel(within(t))
		ended := make(chan error, 1)
		devices := openPool(t, 1)
		go func() { ended <- cluster.Serve(ctx, nc, devices, nil, cluster.WithDrain(time.Second)) }()
		c := open(t, connect(t, s), cluster.WithPatience(patience))
		require.Eventually(t, func() bool { return len(c.Hosts()) == 1 }, patience, 10*time.Millisecond)
		call, end := context.WithCancel(within(t))
		called := make(chan struct{})
		go func() {
			defer close(called)
			_, _ = cluster.Scatter(call, c, "slow/v1", 1000, func(int) (cluster.Piece, error) { return cluster.Piece{Data: number(1)}, nil },
				func(int, []byte) error { p.set(true, 0); return nil }) // it is ended below
		}()
		require.Eventually(t, func() bool { return !nc.IsConnected() }, patience, time.Millisecond)
		time.Sleep(100 * time.Millisecond) // results that the server cannot get
		cancel()
		select {
		case err := <-ended:
			assert.NoError(t, err)
		case <-time.After(patience / 2):
			assert.Fail(t, "Serve hangs")
			p.set(false, 0)
			<-ended
		}
		end()
		<-called
	})
	t.Run("function", func(t *testing.T) {
		s := start(t, embedded.Config{})
		nc := connect(t, s)
		ctx, cancel := context.WithCancel(within(t))
		ended := make(chan error, 1)
		devices := openPool(t, 1)
		go func() { ended <- cluster.Serve(ctx, nc, devices, nil, cluster.WithDrain(time.Millisecond)) }()
		c := open(t, connect(t, s), cluster.WithPatience(patience))
		call, end := context.WithCancel(within(t))
		called := make(chan struct{})
		go func() {
			defer close(called)
			_, _, _ = cluster.Do(call, c, "stuck/v1", cluster.Piece{}) // it is ended below
		}()
		<-stuck
		cancel()
		select {
		case err := <-ended:
			assert.ErrorIs(t, err, driver.ErrTimeout)
			assert.ErrorContains(t, err, "stuck/v1")
		case <-time.After(patience / 2):
			assert.Fail(t, "Serve hangs")
		}
		end()
		<-called
		close(unstick)
	})
}

var stuck, unstick = make(chan struct{}, 1), make(chan struct{})
