package cluster_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/pool/isolate"
)

// proxy is a network between a server and those who connect to it: it can be slow, and it can be cut.
type proxy struct {
	to     string
	listen net.Listener
	work   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	cut   bool          // new connections end at once
	held  chan struct{} // or nil: what is on its way waits until it is closed
	delay time.Duration // of each read
	// loses, or nil, tells which messages of NATS are lost, by the line that begins one. up is to the
	// server.
	loses func(up bool, line string) bool
}

// some copies what is of NATS, and loses some messages.
func (p *proxy) some(to io.Writer, from io.Reader, up bool) error {
	for in := bufio.NewReader(from); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		message := []byte(line)
		fields := strings.Fields(line)
		switch strings.ToUpper(fields[0]) {
		case "PUB", "HPUB", "MSG", "HMSG":
			n, err := strconv.Atoi(fields[len(fields)-1])
			if err != nil {
				return err
			}
			body := make([]byte, n+2)
			if _, err := io.ReadFull(in, body); err != nil {
				return err
			}
			if p.loses(up, line) {
				continue
			}
			message = append(message, body...)
		}
		if _, err := to.Write(message); err != nil {
			return err
		}
	}
}

func newProxy(t testing.TB, to string) *proxy { return newLosingProxy(t, to, nil) }

// newLosingProxy is for messages some of which are lost; nil loses none.
func newLosingProxy(t testing.TB, to string, loses func(up bool, line string) bool) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{to: to, listen: l, conns: map[net.Conn]bool{}, loses: loses}
	p.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.release()
		p.set(true, 0)
		p.work.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.listen.Addr().String() }

// set cuts or mends the network, and makes it slow.
func (p *proxy) set(cut bool, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.delay = cut, delay
	for c := range p.conns {
		if cut {
			_ = c.Close()
		}
	}
}

// hold keeps what is on its way, as a network does that drops packets, and release lets it go on.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

func (p *proxy) enter(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut {
		p.conns[c] = true
	}
	return !p.cut
}

func (p *proxy) serve(c net.Conn) {
	defer c.Close()
	if !p.enter(c) {
		return
	}
	s, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer s.Close()
	if !p.enter(s) {
		return
	}
	var both sync.WaitGroup
	copyTo := func(to, from net.Conn) {
		defer to.Close()
		if p.loses != nil {
			_ = p.some(to, from, to == s) // the end of the connection
			return
		}
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			p.mu.Lock()
			delay, held := p.delay, p.held
			p.mu.Unlock()
			if held != nil {
				<-held
			}
			time.Sleep(delay)
			if n > 0 {
				if _, err := to.Write(buffer[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
	both.Go(func() { copyTo(s, c) })
	both.Go(func() { copyTo(c, s) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	delete(p.conns, s)
}

// TestNetwork cuts the network of a host and of the caller while they work, and makes it slow.
func TestNetwork(t *testing.T) {
	s := start(t, embedded.Config{Listen: "127.0.0.1:0", Token: token})
	to := s.URL()[len("nats://"):]
	ofHost, ofCaller := newProxy(t, to), newProxy(t, to)
	hostConn, err := dial(ofHost.url())
	require.NoError(t, err)
	t.Cleanup(hostConn.Close)
	serve(t, hostConn, openPool(t, 1), "behind-a-network")
	serve(t, connect(t, s), openPool(t, 1), "beside-the-server")
	c := caller(t, ofCaller.url(), 2)
	for name, disturb := range map[string]func(){
		"cut host":       func() { ofHost.set(true, 0); time.Sleep(time.Second); ofHost.set(false, 0) },
		"cut caller":     func() { ofCaller.set(true, 0); time.Sleep(time.Second); ofCaller.set(false, 0) },
		"cut both":       func() { ofHost.set(true, 0); ofCaller.set(true, 0); ofHost.set(false, 0); ofCaller.set(false, 0) },
		"slow host":      func() { ofHost.set(false, 20*time.Millisecond) },
		"slow caller":    func() { ofHost.set(false, 0); ofCaller.set(false, 20*time.Millisecond) },
		"fast once more": func() { ofHost.set(false, 0); ofCaller.set(false, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			f, wait := once(disturb)
			squares(t, c, "slow/v1", 100, at(t, 10, f))
			wait()
		})
	}
}

// TestDisconnected has no server any more.
func TestDisconnected(t *testing.T) {
	s := start(t, embedded.Config{Listen: "127.0.0.1:0", Token: token})
	p := newProxy(t, s.URL()[len("nats://"):])
	c := caller(t, p.url(), 0, cluster.WithPatience(200*time.Millisecond))
	p.set(true, 0)
	_, _, err := cluster.Do(within(t), c, "square/v1", cluster.Piece{Data: number(4)})
	assert.ErrorIs(t, err, cluster.ErrDisconnected)
	_, report, err := cluster.Do(within(t), c, "square/v1", cluster.Piece{Data: number(4)},
		cluster.WithFallback(func(_ context.Context, p cluster.Piece) ([]byte, error) {
			return square(nil, &isolate.Request{Data: p.Data})
		}))
	require.NoError(t, err)
	assert.Equal(t, cluster.Disconnected, report.Reason)

	nc := connect(t, s)
	ctx := within(t)
	served := make(chan error, 1)
	devices := openPool(t, 1)
	go func() { served <- cluster.Serve(ctx, nc, devices, nil) }()
	gone := open(t, nc, cluster.WithPatience(patience))
	require.Eventually(t, func() bool { return len(gone.Hosts()) == 1 }, patience, 10*time.Millisecond)
	nc.Close()
	assert.ErrorIs(t, <-served, cluster.ErrDisconnected)
	_, _, err = cluster.Do(within(t), gone, "square/v1", cluster.Piece{})
	assert.ErrorIs(t, err, cluster.ErrDisconnected)
}

// TestLostMessages loses some messages about large data, as servers do that lose sight of each other. Each is noticed after seconds, and not
// when the time for all data is over.
func TestLostMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for answers that do not come: a quarter of a minute")
	}
	const chunk, ask, find = " $O.purecuda_v1_data.C.", " $JS.API.CONSUMER.CREATE.OBJ_purecuda_v1_data", " $JS.API.STREAM.INFO.OBJ_purecuda_v1_data "
	for _, of := range []struct {
		who, what string
		times     int64
		ref       bool // the data are a reference
	}{{"caller", chunk, 3, false}, {"host", chunk, 3, false}, {"caller", ask, 2, false}, {"host", ask, 2, false}, {"host", ask, 2, true},
		{"caller", find, 2, false}, {"host", find, 2, false}, {"host", find, 2, true}} {
		t.Run(fmt.Sprint(of.who, of.what, of.ref), func(t *testing.T) {
			t.Parallel()
			s := start(t, embedded.Config{Listen: "127.0.0.1:0", Token: token})
			var lost atomic.Int64
			var last atomic.Value
			p := newLosingProxy(t, s.URL()[len("nats://"):], func(up bool, line string) bool { // one chunk of each try
				subject := strings.Fields(line)[1]
				if !up || !strings.Contains(line, of.what) || of.what == chunk && subject == last.Load() || lost.Load() == of.times {
					return false
				}
				last.Store(subject)
				lost.Add(1)
				return true
			})
			urls := map[string]string{"caller": s.URL(), "host": s.URL()}
			urls[of.who] = p.url()
			nc, err := dial(urls["host"])
			require.NoError(t, err)
			t.Cleanup(nc.Close)
			serve(t, nc, openPool(t, 1), "host")
			c := caller(t, urls["caller"], 1)
			ctx, cancel := context.WithTimeout(context.Background(), 35*time.Second) // three or two times 20 s are more
			defer cancel()
			data := make([]byte, 1<<20+1)
			data[77] = 7
			function, piece, want := "flip/v1", cluster.Piece{Data: data}, flip(data)
			if of.ref {
				ref, err := c.Put(ctx, "data", data)
				require.NoError(t, err)
				function, piece, want = "sum/v1", cluster.Piece{Refs: []cluster.Ref{ref}}, number(7)
			}
			out, _, err := cluster.Do(ctx, c, function, piece, cluster.WithRetry(0))
			require.NoError(t, err)
			assert.Equal(t, want, out)
			assert.Equal(t, of.times, lost.Load())
		})
	}
}

// TestLostRemoval has a server that hears some questions of a removal too late, each of its three. Nothing stays in the store.
func TestLostRemoval(t *testing.T) {
	for _, part := range []string{" $JS.API.DIRECT.GET.OBJ_purecuda_v1_data", " $O.purecuda_v1_data.M.", " $JS.API.STREAM.PURGE.OBJ_purecuda_v1_data "} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			s := start(t, embedded.Config{Listen: "127.0.0.1:0", Token: token})
			var loses atomic.Bool
			var lost atomic.Int64
			p := newLosingProxy(t, s.URL()[len("nats://"):], func(up bool, line string) bool {
				if !up || !loses.Load() || !strings.Contains(line, part) || lost.Load() == 2 {
					return false
				}
				lost.Add(1)
				return true
			})
			c := caller(t, p.url(), 0)
			ref, err := c.Put(within(t), "data", make([]byte, 1<<20))
			require.NoError(t, err)
			loses.Store(true)
			c.Drop(ref)
			require.Eventually(t, func() bool {
				state := streamInfo(t, s.URL(), "OBJ_purecuda_v1_data").State
				return state.Msgs == 1 && state.Bytes < 1<<10 // the note that it was removed
			}, 30*time.Second, 50*time.Millisecond)
			assert.EqualValues(t, 2, lost.Load())
		})
	}
}

// TestReconnected has a caller that loses its connection while a host verifies a piece. The host goes on with it, and is not said to have
// given no answer.
func TestReconnected(t *testing.T) {
	s := start(t, embedded.Config{Listen: "127.0.0.1:0", Token: token})
	p := newProxy(t, s.URL()[len("nats://"):])
	var calls atomic.Int64
	second, free := make(chan struct{}), make(chan struct{})
	function := cluster.WithCPU("square/v1", func(_ context.Context, r *isolate.Request) ([]byte, error) {
		if calls.Add(1) == 2 {
			close(second)
			<-free
		}
		return square(nil, r)
	})
	for _, name := range []string{"one", "two"} {
		serveFunctions(t, connect(t, s), openPool(t, 0), name, []string{"square/v1"}, function)
	}
	nc, err := dial(p.url())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	c := open(t, nc, cluster.WithPatience(patience))
	require.Eventually(t, func() bool { return len(c.Hosts()) == 2 }, patience, 10*time.Millisecond)
	var call sync.WaitGroup
	call.Go(func() {
		_, report, err := cluster.Do(within(t), c, "square/v1", cluster.Piece{Data: number(9)}, cluster.WithVerify(1))
		assert.NoError(t, err)
		assert.Equal(t, 1, report.Tries)
	})
	<-second
	p.set(true, 0)
	require.Eventually(t, func() bool { return !nc.IsConnected() }, patience, time.Millisecond)
	p.set(false, 0)
	require.Eventually(t, func() bool { return nc.Stats().Reconnects == 1 && nc.IsConnected() }, patience, time.Millisecond)
	time.Sleep(time.Second) // the caller looks for what it may have lost
	close(free)
	call.Wait()
	assert.EqualValues(t, 2, calls.Load())
}

// TestDeadConnection has a server that takes nothing any more, and says nothing. A publication does not wait for a minute.
func TestDeadConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits until a connection counts as dead: half a minute")
	}
	s := start(t, embedded.Config{Listen: "127.0.0.1:0", Token: token})
	p := newProxy(t, s.URL()[len("nats://"):])
	nc, err := nats.Connect(p.url(), append(cluster.ConnectOptions(), nats.Token(token))...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	c := open(t, nc, cluster.WithPatience(patience))
	serve(t, connect(t, s), openPool(t, 1), "host")
	require.Eventually(t, func() bool { return len(c.Hosts()) == 1 }, patience, 10*time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	data := make([]byte, 900<<10)
	_, err = cluster.Scatter(ctx, c, "sink/v1", 10000, func(int) (cluster.Piece, error) { return cluster.Piece{Data: data}, nil },
		func(int, []byte) error { return nil }, at(t, 20, p.hold), cluster.WithPatience(4*time.Second))
	assert.ErrorIs(t, err, cluster.ErrDisconnected)
	assert.NoError(t, ctx.Err())
	p.set(true, 0) // what the connection has written to it
	p.release()
	p.set(false, 0)
}
