package cluster_test

import (
	"context"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
)

func TestKillWorker(t *testing.T) {
	_, urls := servers(t, 1)
	all := workers(t, urls, 2)
	c := caller(t, urls, 2)
	kill, killed := once(all[0].kill)
	squares(t, c, "slow/v1", 200, at(t, 20, kill))
	killed()
	require.Eventually(t, func() bool { return len(c.Hosts()) == 1 }, patience, 50*time.Millisecond)
}

func TestKillChild(t *testing.T) {
	_, urls := servers(t, 1)
	workers(t, urls, 2)
	c := caller(t, urls, 2)
	out, _, err := cluster.Do(within(t), c, "pid/v1", cluster.Piece{})
	require.NoError(t, err)
	pid, err := strconv.Atoi(string(out))
	require.NoError(t, err)
	child, err := os.FindProcess(pid)
	require.NoError(t, err)
	kill, killed := once(func() { assert.NoError(t, child.Kill()) })
	squares(t, c, "slow/v1", 200, at(t, 20, kill))
	killed()
}

func TestKillOnlyServer(t *testing.T) {
	for name, options := range map[string][]cluster.Option{"file": {cluster.WithFileStorage()}, "memory": {cluster.WithMemoryStorage()}} {
		t.Run(name, func(t *testing.T) {
			all, urls := servers(t, 1)
			workers(t, urls, 2)
			c := caller(t, urls, 2, options...)
			kill, killed := once(func() {
				all[0].kill()
				time.Sleep(200 * time.Millisecond)
				all[0].start()
			})
			squares(t, c, "slow/v1", 200, at(t, 20, kill))
			killed()
		})
	}
}

func TestKillOneOfThreeServers(t *testing.T) {
	all, urls := servers(t, 3)
	workers(t, urls, 2)
	c := caller(t, urls, 2, cluster.WithReplicas(3))
	kill, killed := once(all[0].kill)
	squares(t, c, "slow/v1", 200, at(t, 20, kill))
	killed()
}

// TestPoison has a piece that kills every worker that takes it. Another one is started each time.
func TestPoison(t *testing.T) {
	_, urls := servers(t, 1)
	w := launch(t, asWorker, workerConfig{URL: urls, Name: "worker", Devices: 1, Pool: true})
	c := caller(t, urls, 1, cluster.WithAckWait(200*time.Millisecond))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			cmd, ended := w.cmd, make(chan struct{})
			go func() {
				defer close(ended)
				_ = cmd.Wait() // it is killed
			}()
			select {
			case <-ended:
				w.start()
			case <-stop:
				_ = cmd.Process.Kill() // it may have ended
				<-ended
				w.dead = true
				return
			}
		}
	}()
	results := 0
	report, err := cluster.Scatter(within(t), c, "kill/v1", 100, func(i int) (cluster.Piece, error) {
		x := uint64(2 * i)
		if i == 99 {
			x++ // the last one: those before it are done
		}
		return cluster.Piece{Data: number(x)}, nil
	}, func(int, []byte) error { results++; return nil })
	close(stop)
	<-stopped
	assert.ErrorIs(t, err, cluster.ErrPoison)
	assert.ErrorContains(t, err, "it took the piece and did not answer")
	assert.ErrorContains(t, err, "items [99, 100)")
	assert.Equal(t, 99, results)
	assert.Equal(t, 100, report.Tiles[len(report.Tiles)-1].Hi)
}

// TestDeliveredAgain has a server that hears nothing of a piece in time, and delivers it again to the host that runs it. The function
// runs once, and the piece is no poison.
func TestDeliveredAgain(t *testing.T) {
	s := start(t, embedded.Config{})
	serve(t, connect(t, s), openPool(t, 1), "host", cluster.WithSlots(8))
	c := open(t, connect(t, s), cluster.WithPatience(patience), cluster.WithAckWait(50*time.Millisecond))
	before, most := running.Load(), int64(0)
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				most = max(most, running.Load()-before)
			}
		}
	})
	_, _, err := cluster.Do(within(t), c, "wait/v1", cluster.Piece{}, cluster.WithPieceDeadline(2*time.Second), cluster.WithRetry(0))
	close(stop)
	watch.Wait()
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.NotErrorIs(t, err, cluster.ErrPoison)
	assert.Equal(t, int64(1), most)
	require.Eventually(t, func() bool { // nothing of it is left
		n, err := c.Queue(within(t))
		return err == nil && n == 0 && c.Hosts()[0].Busy == 0
	}, patience, 50*time.Millisecond)
}
