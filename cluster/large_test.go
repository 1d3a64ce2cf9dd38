package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/driver"
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

// objects are the names of what lies in the object store.
func objects(t *testing.T, nc *nats.Conn) (names []string) {
	t.Helper()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	store, err := js.ObjectStore(within(t), "purecuda_v1_data")
	require.NoError(t, err)
	all, err := store.List(within(t))
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil
	}
	require.NoError(t, err)
	for _, o := range all {
		names = append(names, o.Name)
	}
	return names
}

// ramps checks n results of ramp/v1, which are larger than what a function returns.
func ramps(t *testing.T, c *cluster.Cluster, n, size int, options ...cluster.Option) {
	t.Helper()
	got := make([]int, n)
	_, err := cluster.Scatter(within(t), c, "ramp/v1", n, func(i int) (cluster.Piece, error) {
		return cluster.Piece{Data: number(uint64(i)), Result: int64(size + i)}, nil
	}, func(i int, result []byte) error {
		got[i]++
		if !bytes.Equal(result, ramp(i, size+i)) {
			return fmt.Errorf("piece %d has another result of %d bytes", i, len(result))
		}
		return nil
	}, options...)
	require.NoError(t, err)
	for i, times := range got {
		require.Equal(t, 1, times, "piece %d", i)
	}
}

// TestLargeResults has results of more than 16 MiB, from children and from a pool, with and without verification. Nothing stays on the
// server or in the memory of the host.
func TestLargeResults(t *testing.T) {
	for _, on := range []string{"children", "pool", "verified"} {
		t.Run(on, func(t *testing.T) {
			s := start(t, embedded.Config{})
			nc := connect(t, s)
			memory := cluster.WithMemory(64 << 20) // 48 MiB: two at the same time
			options := []cluster.Option{cluster.WithRetry(0)}
			if on != "pool" {
				serve(t, connect(t, s), group(t, 1), "children", memory)
			}
			if on != "children" {
				serve(t, connect(t, s), openPool(t, 1), "pool", memory)
			}
			if on == "verified" {
				options = append(options, cluster.WithVerify(1))
			}
			c := open(t, nc, cluster.WithPatience(patience))
			ramps(t, c, 6, 17<<20, options...)
			require.Eventually(t, func() bool { return len(objects(t, nc)) == 0 }, patience, 10*time.Millisecond)
			for _, bad := range []struct {
				piece cluster.Piece
				says  string
			}{
				{cluster.Piece{Data: number(1), Result: 49 << 20}, "WithMemory"},
				{cluster.Piece{Data: number(1), Result: 1<<30 + 1}, "want 0 to"},
				{cluster.Piece{Data: number(1), Result: -1}, "want 0 to"},
				{cluster.Piece{Data: number(1), Result: 1 << 30, Refs: []cluster.Ref{{URI: "file:set/data", Length: 1}}}, "references with 1"},
			} {
				_, _, err := cluster.Do(within(t), c, "ramp/v1", bad.piece, options...)
				assert.ErrorIs(t, err, driver.ErrInvalidArgument)
				assert.ErrorContains(t, err, bad.says)
			}
			_, _, err := cluster.Do(within(t), c, "echo/v1", cluster.Piece{Data: number(1), Result: 1}, options...)
			assert.ErrorContains(t, err, "beside the buffer")
		})
	}
}

// TestKillServerWithLargeResults kills the only server, which has the results in memory or on disk.
func TestKillServerWithLargeResults(t *testing.T) {
	for name, storage := range map[string]cluster.Option{"memory": cluster.WithMemoryStorage(), "file": cluster.WithFileStorage()} {
		t.Run(name, func(t *testing.T) {
			all, urls := servers(t, 1)
			workers(t, urls, 2)
			c := caller(t, urls, 2, storage)
			kill, killed := once(func() {
				all[0].kill()
				time.Sleep(200 * time.Millisecond)
				all[0].start()
			})
			ramps(t, c, 12, 17<<20, at(t, 3, kill), cluster.WithRetry(0))
			killed()
		})
	}
}

// TestEndWithLargeResults ends calls whose results are on their way. Nothing of them stays on the server.
func TestEndWithLargeResults(t *testing.T) {
	s := start(t, embedded.Config{})
	nc := connect(t, s)
	serve(t, connect(t, s), openPool(t, 1), "host", cluster.WithSlots(4))
	c := open(t, nc, cluster.WithPatience(patience))
	for i := range 8 {
		ctx, cancel := context.WithCancel(within(t))
		if i%2 == 0 {
			time.AfterFunc(time.Duration(i)*20*time.Millisecond, cancel)
		}
		_, err := cluster.Scatter(ctx, c, "ramp/v1", 8, func(i int) (cluster.Piece, error) {
			return cluster.Piece{Data: number(uint64(i)), Result: 2 << 20}, nil
		}, func(int, []byte) error { return errors.New("enough") }, cluster.WithRetry(0))
		assert.Error(t, err)
		cancel()
	}
	require.Eventually(t, func() bool {
		n, err := c.Queue(within(t))
		return err == nil && n == 0 && c.Hosts()[0].Busy == 0 && len(objects(t, nc)) == 0
	}, patience, 50*time.Millisecond)
}
