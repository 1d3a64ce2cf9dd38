package cluster_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

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
}

func newProxy(t testing.TB, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{to: to, listen: l, conns: map[net.Conn]bool{}}
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
