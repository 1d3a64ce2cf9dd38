package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
)

// echoes sends random pieces of some sizes, and checks that each comes back once.
func echoes(t *testing.T, c *cluster.Cluster, n int, size func(i int) int, options ...cluster.Option) {
	t.Helper()
	data := make([]byte, 8<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(data)
	piece := func(i int) []byte { return data[i : i+size(i)] }
	got := make([]int, n)
	_, err := cluster.Scatter(within(t), c, "echo/v1", n, func(i int) (cluster.Piece, error) { return cluster.Piece{Data: piece(i)}, nil },
		func(i int, result []byte) error {
			got[i]++
			if !bytes.Equal(result, piece(i)) {
				return fmt.Errorf("piece %d came back as something else", i)
			}
			return nil
		}, options...)
	require.NoError(t, err)
	for i, times := range got {
		require.Equal(t, 1, times, "piece %d", i)
	}
}

// TestLargePieces has pieces of all sizes, on both sides of what a message takes.
func TestLargePieces(t *testing.T) {
	s := start(t, embedded.Config{})
	serve(t, connect(t, s), openPool(t, 1), "host")
	nc := connect(t, s)
	c := open(t, nc, cluster.WithPatience(patience))
	payload := int(nc.MaxPayload())
	sizes := []int{1, 64<<10 + 1, payload - 40<<10, payload - 33<<10, payload - 1, payload, payload + 1, 3 << 20}
	echoes(t, c, len(sizes), func(i int) int { return sizes[i] }, cluster.WithRetry(0))
}

// TestKillServerWithLargePieces kills the only server, which has all in memory, and with it the data of pieces and results. That is
// no try.
func TestKillServerWithLargePieces(t *testing.T) {
	for _, size := range []int{70 << 10, 2 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			all, urls := servers(t, 1)
			workers(t, urls, 2)
			c := caller(t, urls, 2, cluster.WithMemoryStorage())
			kill, killed := once(func() {
				all[0].kill()
				time.Sleep(200 * time.Millisecond)
				all[0].start()
			})
			echoes(t, c, 60, func(int) int { return size }, at(t, 5, kill), cluster.WithRetry(0))
			killed()
		})
	}
}

// TestLostData has the data of a piece vanish from the server while the piece waits for a slot. The caller has them still.
func TestLostData(t *testing.T) {
	s := start(t, embedded.Config{})
	nc := connect(t, s)
	serve(t, connect(t, s), openPool(t, 1), "host")
	c := open(t, nc, cluster.WithPatience(patience))
	before := running.Load()
	ctx, free := context.WithCancel(within(t))
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { _, _, _ = cluster.Do(ctx, c, "wait/v1", cluster.Piece{}) })
	}
	require.Eventually(t, func() bool { return running.Load() == before+2 }, patience, time.Millisecond)
	all.Go(func() { echoes(t, c, 1, func(int) int { return 2 << 20 }, cluster.WithRetry(0)) })
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // the piece is on its way
		n, err := c.Queue(within(t))
		return err == nil && n == 3
	}, patience, 10*time.Millisecond)
	require.NoError(t, js.DeleteObjectStore(within(t), "purecuda_v1_data"))
	free()
	all.Wait()
}
