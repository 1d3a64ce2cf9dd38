package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

// leader is the server that leads the work stream, and what the stream is.
func leader(t *testing.T, urls string, all []*process) (*process, *jetstream.StreamInfo) {
	t.Helper()
	info := streamInfo(t, urls, "purecuda_v1_work")
	var n int
	_, err := fmt.Sscanf(info.Cluster.Leader, "server%d", &n)
	require.NoError(t, err)
	return all[n], info
}

func streamInfo(t *testing.T, urls, name string) *jetstream.StreamInfo {
	t.Helper()
	nc, err := dial(urls)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	var s jetstream.Stream
	require.Eventually(t, func() bool {
		s, err = js.Stream(within(t), name)
		return err == nil && s.CachedInfo().Cluster != nil && s.CachedInfo().Cluster.Leader != ""
	}, patience, 50*time.Millisecond)
	return s.CachedInfo()
}

// TestLostLeader loses the server that leads the streams, which are on it alone: it is killed, or it stalls. The others still carry
// what hosts tell.
func TestLostLeader(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for the patience of calls: half a minute")
	}
	for name, lose := range map[string]func(p *process){
		"killed":  (*process).kill,
		"stalled": (*process).stall,
	} {
		t.Run(name, func(t *testing.T) {
			all, urls := servers(t, 3)
			workers(t, urls, 2)
			c := caller(t, urls, 2, cluster.WithReplicas(1))
			at20 := func(before func()) cluster.Option {
				return at(t, 20, before)
			}
			first, info := leader(t, urls, all)
			f, wait := once(func() { lose(first) })
			out := map[int]bool{}
			report, err := cluster.Scatter(within(t), c, "slow/v1", 400, func(i int) (cluster.Piece, error) {
				return cluster.Piece{Data: number(uint64(i))}, nil
			}, func(i int, _ []byte) error { out[i] = true; return nil }, at20(f), cluster.WithPatience(4*time.Second))
			wait()
			require.ErrorIs(t, err, cluster.ErrDisconnected)
			assert.ErrorContains(t, err, "purecuda_v1_work with 1 replicas, led by "+info.Cluster.Leader)
			assert.Less(t, len(out), 400)
			assert.Equal(t, 400, report.Tiles[len(report.Tiles)-1].Hi)
			report = squares(t, c, "slow/v1", 50, cluster.WithPatience(2*time.Second), cluster.WithFallback(func(_ context.Context, p cluster.Piece) ([]byte, error) {
				return square(nil, &isolate.Request{Data: p.Data})
			}))
			assert.Equal(t, pool.OnCPU, report.Where)
			assert.Equal(t, cluster.Disconnected, report.Reason)
			if first.stalled {
				first.resume()
			} else {
				first.start()
			}
			squares(t, c, "slow/v1", 100)
		})
	}
}

// TestStalledPieces are pieces that take longer than the patience: the streams answer, so that nothing is wrong.
func TestStalledPieces(t *testing.T) {
	c := onHosts(t, 1, cluster.WithSlots(1))
	ctx, cancel := context.WithTimeout(within(t), 3*time.Second)
	defer cancel()
	_, _, err := cluster.Do(ctx, c, "wait/v1", cluster.Piece{}, cluster.WithPatience(500*time.Millisecond))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.NotErrorIs(t, err, cluster.ErrDisconnected)
}

// TestReplicas are as many as servers up to three, and what exists is changed or an error.
func TestReplicas(t *testing.T) {
	_, urls := servers(t, 3)
	caller(t, urls, 0, cluster.WithReplicas(1))
	assert.Equal(t, 1, streamInfo(t, urls, "purecuda_v1_work").Config.Replicas)
	caller(t, urls, 0)
	assert.Equal(t, 3, streamInfo(t, urls, "purecuda_v1_work").Config.Replicas)
	assert.Equal(t, time.Hour, streamInfo(t, urls, "purecuda_v1_work").Config.MaxAge, "pieces of a caller that was killed, and of no host")
	assert.Equal(t, 3, streamInfo(t, urls, "purecuda_v1_result").Config.Replicas)
	caller(t, urls, 0, cluster.WithName("other"))
	assert.Equal(t, 3, streamInfo(t, urls, "other_v1_work").Config.Replicas)
	nc, err := dial(urls)
	require.NoError(t, err)
	defer nc.Close()
	_, err = cluster.Open(within(t), nc, cluster.WithReplicas(5))
	require.Error(t, err)
	assert.Contains(t, err.Error(), "from 3 replicas to 5")

	s := start(t, embedded.Config{})
	one := connect(t, s)
	open(t, one)
	_, err = cluster.Open(within(t), one, cluster.WithFileStorage())
	require.Error(t, err)
	assert.True(t, strings.Contains(err.Error(), "Memory") && strings.Contains(err.Error(), "File"), err)
	_, err = cluster.Open(within(t), one, cluster.WithReplicas(3))
	assert.ErrorContains(t, err, "from 1 replicas to 3")
	open(t, one, cluster.WithMaxBytes(1<<20))
	js, err := jetstream.New(one)
	require.NoError(t, err)
	work, err := js.Stream(within(t), "purecuda_v1_work")
	require.NoError(t, err)
	assert.EqualValues(t, 1<<20, work.CachedInfo().Config.MaxBytes)
}

func (p *process) stall() {
	assert.NoError(p.t, p.cmd.Process.Signal(syscall.SIGSTOP))
	p.stalled = true
}

func (p *process) resume() {
	p.stalled = false
	assert.NoError(p.t, p.cmd.Process.Signal(syscall.SIGCONT))
}
