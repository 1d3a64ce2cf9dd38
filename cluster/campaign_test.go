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

// campaignVariable names what is killed: worker, child, server, memory, one or two of three servers, or all.
const campaignVariable = "PURECUDA_CLUSTER_CAMPAIGN"

var kinds = []string{"worker", "child", "server", "memory", "one", "two"}

// TestCampaign kills something at a random moment, and has all results right.
//
//	PURECUDA_CLUSTER_CAMPAIGN=worker PURECUDA_SEEDS=200 go test -run TestCampaign -timeout 0 .
func TestCampaign(t *testing.T) {
	which := os.Getenv(campaignVariable)
	if which == "" {
		t.Skipf("it takes seconds a seed: set %s to one of %q or to all", campaignVariable, kinds)
	}
	seeds.Each(t, 6, func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		kind := which
		if which == "all" {
			kind = kinds[seed%uint64(len(kinds))]
		}
		n, options := 1, []cluster.Option{}
		switch kind {
		case "one", "two":
			n, options = 3, append(options, cluster.WithReplicas(3))
		case "memory":
			options = append(options, cluster.WithMemoryStorage())
		}
		all, urls := servers(t, n)
		hosts := workers(t, urls, 2)
		c := caller(t, urls, 2, options...)
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
		}[kind]
		require.NotNil(t, strike, "%s=%s", campaignVariable, which)
		f, wait := once(strike)
		n = 100 + random.IntN(200)
		squares(t, c, "slow/v1", n, at(t, 1+random.IntN(n-1), f), cluster.WithRetry(5))
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
