package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// The test binary is a worker or a server where one of these variables says so. It ends when its standard input does, and so with
// the test.
const (
	asWorker        = "CLUSTER_TEST_AS_WORKER" // the configuration
	asServer        = "CLUSTER_TEST_AS_SERVER"
	devicesVariable = "PURECUDA_CLUSTER_TEST_DEVICES"
	token           = "a token"
)

type workerConfig struct {
	URL, Name string
	Devices   int
	Pool      bool // in place of children
	Memory    int64
	Lies      bool // about flip/v1, which is all that it serves, without a device
}

type serverConfig struct {
	Folder, Name string
	IP           string // in a network of its own
	Port, Route  int
	Routes       []string
}

// untilEnd returns a context that ends with the standard input.
func untilEnd() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}

func dial(url string) (*nats.Conn, error) {
	return nats.Connect(url, nats.Token(token), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(time.Millisecond, time.Millisecond),
		nats.RetryOnFailedConnect(true), nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2), nats.Timeout(10*time.Second))
}

func beWorker() int {
	var c workerConfig
	err := json.Unmarshal([]byte(os.Getenv(asWorker)), &c)
	if err == nil {
		err = c.run(untilEnd())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (c workerConfig) run(ctx context.Context) error {
	nc, err := dial(c.URL)
	if err != nil {
		return err
	}
	defer nc.Close()
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(drivertest.New(simulated(c.Devices))))
	if err != nil {
		return err
	}
	name := cluster.WithHostName(c.Name)
	fmt.Println("ready")
	if c.Lies {
		p, err := pool.Open(rt)
		if err != nil {
			return err
		}
		return cluster.Serve(ctx, nc, p, []string{"flip/v1"}, name, cluster.WithCPU("flip/v1", lie))
	}
	if c.Pool {
		p, err := pool.Open(rt)
		if err != nil {
			return err
		}
		return cluster.Serve(ctx, nc, p, nil, name)
	}
	g, err := isolate.Open(rt, isolate.WithRestarts(1000, time.Minute), isolate.WithEnvironment(devicesVariable+"="+strconv.Itoa(c.Devices)))
	if err != nil {
		return err
	}
	options := []cluster.Option{name}
	if c.Memory > 0 {
		options = append(options, cluster.WithMemory(c.Memory))
	}
	return cluster.Serve(ctx, nc, g, nil, options...)
}

func beServer() int {
	var c serverConfig
	err := json.Unmarshal([]byte(os.Getenv(asServer)), &c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	address := "127.0.0.1"
	if c.IP != "" {
		address = c.IP
		for own, end := false, time.Now().Add(patience); !own && time.Now().Before(end); time.Sleep(time.Millisecond) { // until its network is there
			all, _ := net.InterfaceAddrs() // what cannot be read is not there
			own = slices.ContainsFunc(all, func(a net.Addr) bool { return strings.HasPrefix(a.String(), c.IP+"/") })
		}
	}
	s, err := embedded.Start(embedded.Config{Folder: c.Folder, Listen: net.JoinHostPort(address, strconv.Itoa(c.Port)), Token: token, Options: func(o *server.Options) {
		o.ServerName = c.Name
		if len(c.Routes) == 0 {
			return
		}
		o.Cluster = server.ClusterOpts{Name: "test", Host: address, Port: c.Route}
		for _, route := range c.Routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: route})
		}
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	<-untilEnd().Done()
	_ = s.Close()
	return 0
}

// process is a worker or a server.
type process struct {
	t          testing.TB
	env        string
	attributes syscall.SysProcAttr
	started    func() // or nil
	cmd        *exec.Cmd
	stdin      io.Closer
	dead       bool
	// stalled says that the process is stopped.
	stalled bool
}

// launch starts this binary as something else, and waits until that is ready.
func launch(t testing.TB, variable string, config any, change ...func(p *process)) *process {
	t.Helper()
	text, err := json.Marshal(config)
	require.NoError(t, err)
	p := &process{t: t, env: variable + "=" + string(text)}
	for _, f := range change {
		f(p)
	}
	p.start()
	t.Cleanup(p.end)
	return p
}

func (p *process) start() {
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), p.env, "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &p.attributes
	stdin, err := p.cmd.StdinPipe()
	require.NoError(p.t, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, p.cmd.Start())
	p.stdin, p.dead = stdin, false
	if p.started != nil {
		p.started()
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(p.t, err)
	require.Equal(p.t, "ready", strings.TrimSpace(line))
}

// kill ends the process with kill -9.
func (p *process) kill() {
	assert.NoError(p.t, p.cmd.Process.Kill())
	_ = p.cmd.Wait() // it was killed
	p.dead = true
}

func (p *process) end() {
	if p.dead {
		return
	}
	if p.stalled {
		p.resume()
	}
	p.dead = true
	_ = p.stdin.Close()
	assert.NoError(p.t, p.cmd.Wait())
}

var ports sync.Map // that freePort has returned

// freePort returns a port for a server that may be killed and started again. It is none that the kernel gives to connections: a
// client that tries to reach the dead server could get its port, and connect to itself.
func freePort(t testing.TB) (port int) {
	require.Eventually(t, func() bool {
		port = 12000 + rand.IntN(20000)
		if _, given := ports.LoadOrStore(port, true); given {
			return false
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = l.Close() // it took nothing
		}
		return err == nil
	}, patience, time.Millisecond)
	return port
}

// servers starts n servers, which are one cluster of NATS if they are several, and returns their URLs. The first ones get the folders.
func servers(t testing.TB, n int, folders ...string) (all []*process, urls string) {
	t.Helper()
	var ports, routePorts []int
	var routes []string
	for range n {
		port := freePort(t)
		ports, routePorts, routes = append(ports, freePort(t)), append(routePorts, port), append(routes, fmt.Sprint("127.0.0.1:", port))
	}
	var list []string
	var configs []serverConfig
	for i := range n {
		c := serverConfig{Folder: t.TempDir(), Name: fmt.Sprint("server", i), Port: ports[i], Route: routePorts[i]}
		if n > 1 {
			c.Routes = routes
		}
		if i < len(folders) {
			c.Folder = folders[i]
		}
		configs = append(configs, c)
		list = append(list, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
	}
	for _, c := range configs {
		all = append(all, launch(t, asServer, c))
	}
	return all, strings.Join(list, ",")
}

// workers starts n workers with two simulated devices each, and the memory of WithMemory if that is given.
func workers(t testing.TB, urls string, n int, memory ...int64) (all []*process) {
	t.Helper()
	for i := range n {
		all = append(all, launch(t, asWorker, workerConfig{URL: urls, Name: fmt.Sprint("worker", i), Devices: 2, Memory: append(memory, 0)[0]}))
	}
	return all
}

// caller opens a cluster over a network, and waits for its hosts.
func caller(t testing.TB, urls string, hosts int, options ...cluster.Option) *cluster.Cluster {
	t.Helper()
	nc, err := dial(urls)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	var c *cluster.Cluster
	require.Eventually(t, func() bool { // three servers need a leader first
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		c, err = cluster.Open(ctx, nc, append([]cluster.Option{cluster.WithPatience(patience), cluster.WithFileStorage()}, options...)...)
		return err == nil
	}, patience, 10*time.Millisecond)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	require.Eventually(t, func() bool { return len(c.Hosts()) == hosts }, patience, 50*time.Millisecond)
	return c
}

// at calls f on a goroutine of its own when so many pieces are done, and tells the longest time between two.
func at(t testing.TB, when int, f func()) cluster.Option {
	last, longest := time.Now(), time.Duration(0)
	return cluster.WithProgress(func(done, n int) {
		longest = max(longest, time.Since(last))
		last = time.Now()
		switch done {
		case when:
			go f()
		case n:
			t.Logf("the longest gap was %v", longest.Round(time.Millisecond))
		}
	})
}

// once is f as a function that can be waited for.
func once(f func()) (run, wait func()) {
	done := make(chan struct{})
	return func() { defer close(done); f() }, func() { <-done }
}
