//go:build linux

package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/pool/isolate"
)

// campaignVariable names what is killed: worker, child, server, memory, one or two of three servers. What else happens: a worker or a server
// stalls, a worker lies, three servers lose sight of each other, workers or servers are ended and started again, a disk, a stream, memory
// or descriptors are full. Or all.
const campaignVariable = "PURECUDA_CLUSTER_CAMPAIGN"

var kinds = []string{"worker", "child", "server", "memory", "one", "two", "stall", "lie", "partition", "restart", "fill"}

// TestCampaign kills something at a random moment, or does worse, and has all results right. A seed does pieces of 8 bytes and of up to 8 MiB.
//
//	PURECUDA_CLUSTER_CAMPAIGN=worker PURECUDA_SEEDS=200 go test -run TestCampaign -timeout 0 .
func TestCampaign(t *testing.T) {
	which := os.Getenv(campaignVariable)
	if which == "" {
		t.Skipf("it takes seconds a seed: set %s to one of %q or to all", campaignVariable, kinds)
	}
	if (which == "partition" || which == "all") && !alone(t) {
		return
	}
	seeds.Each(t, 6, func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		kind := which
		if which == "all" {
			kind = kinds[seed%uint64(len(kinds))]
		}
		n, options := 1, []cluster.Option{}
		switch kind {
		case "one", "two", "stall", "restart":
			n, options = 3, append(options, cluster.WithReplicas(3))
		case "memory":
			options = append(options, cluster.WithMemoryStorage())
		}
		var all []*process
		var urls string
		var parted *islands
		var full filling
		switch kind {
		case "partition":
			parted = apart(t)
			all, urls = parted.all, parted.urls
		case "fill":
			full = fillings(t, random)
			t.Log(full.name, "is full")
			all, urls = servers(t, 1, full.folder)
			options = append(options, full.options...)
		default:
			all, urls = servers(t, n)
		}
		hosts := workers(t, urls, 2, full.memory)
		c := caller(t, urls, 2, options...)
		if kind == "lie" {
			launch(t, asWorker, workerConfig{URL: urls, Name: "liar", Lies: true})
			require.Eventually(t, func() bool { return len(c.Hosts()) == 3 }, patience, 50*time.Millisecond)
			for range 5 {
				if err := flips(t, c, random, 10, cluster.WithVerify(1)); err != nil {
					assert.ErrorIs(t, err, cluster.ErrMismatch)
				}
			}
			return
		}
		again := func(pause time.Duration, p ...*process) {
			for _, one := range p {
				one.kill()
			}
			time.Sleep(pause)
			for _, one := range p {
				one.start()
			}
		}
		pause := time.Duration(random.IntN(1500)) * time.Millisecond
		strike := map[string]func(){
			"worker": func() { again(pause, hosts[random.IntN(2)]) },
			"child": func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				out, _, err := cluster.Do(ctx, c, "pid/v1", cluster.Piece{})
				assert.NoError(t, err)
				pid, err := strconv.Atoi(string(out))
				assert.NoError(t, err)
				child, err := os.FindProcess(pid)
				assert.NoError(t, err)
				_ = child.Kill() // it may be gone
			},
			"server": func() { again(pause, all[0]) },
			"memory": func() { again(pause, all[0]) },
			"one":    func() { again(pause, all[random.IntN(3)]) },
			"two":    func() { again(pause, all[:2]...) },
			"stall": func() {
				p := append(all, hosts...)[random.IntN(5)]
				p.stall()
				time.Sleep(4 * pause)
				p.resume()
			},
			"restart": func() {
				for _, p := range [][]*process{all, hosts}[random.IntN(2)] {
					p.end()
					time.Sleep(pause)
					p.start()
					time.Sleep(2 * time.Second) // as long as a server takes to see the others
				}
			},
			"fill": func() { full.strike(c, all[0], hosts, 2*pause) },
			"partition": func() { // one server is alone, or all are, and packets are refused or lost
				one, everybody, how := random.IntN(3), random.IntN(4) == 0, [...]string{"blackhole", "unreachable"}[random.IntN(2)]
				parted.cut(how, func(i int) bool { return everybody || i == one })
				defer parted.mend()
				time.Sleep(4 * pause)
			},
		}[kind]
		require.NotNil(t, strike, "%s=%s", campaignVariable, which)
		f, wait := once(strike)
		n = 100 + random.IntN(200)
		if seed%2 == 0 {
			squares(t, c, "slow/v1", n, at(t, 1+random.IntN(n-1), f), cluster.WithRetry(5))
		} else {
			n /= 4
			assert.NoError(t, flips(t, c, random, n, at(t, 1+random.IntN(n-1), f), cluster.WithRetry(5)))
		}
		wait()
	})
}

// TestManyHosts has 1,000 hosts at one queue.
func TestManyHosts(t *testing.T) {
	n := 20
	if os.Getenv(campaignVariable) != "" {
		n = 1000
	}
	s := start(t, embedded.Config{})
	p := openPool(t, 0)
	ctx, cancel := context.WithCancel(context.Background())
	var hosts sync.WaitGroup
	defer hosts.Wait()
	defer cancel()
	for i := range n {
		nc := connect(t, s)
		hosts.Go(func() {
			assert.NoError(t, cluster.Serve(ctx, nc, p, []string{"square/v1"}, cluster.WithHostName(fmt.Sprint("host", i)), cluster.WithCPU("square/v1",
				func(_ context.Context, r *isolate.Request) ([]byte, error) { return square(nil, r) })))
		})
	}
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	require.Eventually(t, func() bool { return len(c.Hosts()) == n }, patience, 100*time.Millisecond)
	began := time.Now()
	report := squares(t, c, "square/v1", 20*n)
	served := map[string]bool{}
	for _, tile := range report.Tiles {
		served[tile.Host] = true
	}
	t.Logf("%d of %d hosts had pieces; %.0f pieces/s", len(served), n, float64(20*n)/time.Since(began).Seconds())
	assert.Greater(t, len(served), n/2)
}
