package cluster_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/driver"
)

// TestMemory has more slots than memory for their references. Pieces wait for room, and one that never fits fails.
func TestMemory(t *testing.T) {
	folder := t.TempDir()
	data := bytes.Repeat([]byte{1}, 5<<20)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "data"), data, 0o600))
	s := start(t, embedded.Config{})
	serve(t, connect(t, s), openPool(t, 1), "host", cluster.WithSlots(8), cluster.WithRoot("set", folder), cluster.WithMemory(4<<20))
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	inUse.most.Store(0)
	ref := func(n int64) cluster.Piece {
		return cluster.Piece{Refs: []cluster.Ref{{URI: "file:set/data", Length: n}}}
	}
	_, err := cluster.Scatter(within(t), c, "hold/v1", 40, func(i int) (cluster.Piece, error) { return ref(int64(1+i%2) << 20), nil }, func(i int, result []byte) error {
		assert.EqualValues(t, (1+i%2)<<20, binary.LittleEndian.Uint64(result))
		return nil
	}, cluster.WithRetry(0))
	require.NoError(t, err)
	assert.LessOrEqual(t, inUse.most.Load(), int64(3<<20))
	assert.Greater(t, inUse.most.Load(), int64(1<<20), "no two at the same time")
	_, _, err = cluster.Do(within(t), c, "hold/v1", ref(4<<20), cluster.WithRetry(0))
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "WithMemory")
}

// TestMemoryOfMessages has messages with more bytes than a host may have at the same time. It gives them back, which is no try.
func TestMemoryOfMessages(t *testing.T) {
	s := start(t, embedded.Config{})
	serve(t, connect(t, s), openPool(t, 1), "host", cluster.WithSlots(8), cluster.WithMemory(4<<20))
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	echoes(t, c, 30, func(int) int { return 400 << 10 }, cluster.WithRetry(0))
}

// TestKeptBuffers has pieces of many sizes, and then none. What is kept for the next ones follows what was in use.
func TestKeptBuffers(t *testing.T) {
	const limit = 64 << 20
	b := cluster.NewBuffers(group(t, 1), limit)
	defer b.Close()
	for i := range 200 { // one at a time, 60 KiB to 12 MiB
		size := int64(60 << 10 * (1 + i))
		back, err := b.Take(size)
		require.NoError(t, err)
		back()
		kept, used := b.Bytes()
		assert.Zero(t, used)
		assert.LessOrEqual(t, kept, size)
	}
	var all []func()
	for range 4 {
		back, err := b.Take(10 << 20)
		require.NoError(t, err)
		all = append(all, back)
	}
	kept, used := b.Bytes()
	assert.EqualValues(t, 40<<20, used)
	assert.LessOrEqual(t, kept+used, int64(limit))
	for _, back := range slices.Backward(all) {
		back()
	}
	kept, _ = b.Bytes()
	assert.EqualValues(t, 40<<20, kept, "the next pieces get them")
	back, err := b.Take(10<<20, 10<<20)
	require.NoError(t, err)
	kept, used = b.Bytes()
	assert.EqualValues(t, 20<<20, kept)
	assert.EqualValues(t, 20<<20, used)
	b.Idle(time.Now().Add(time.Hour))
	kept, used = b.Bytes()
	assert.Zero(t, kept)
	assert.EqualValues(t, 20<<20, used)
	back()
	for range 100 { // descriptors have a limit as well
		var bytes [100]int64
		for i := range bytes {
			bytes[i] = 1
		}
		back, err := b.Take(bytes[:]...)
		require.NoError(t, err)
		back()
	}
	assert.LessOrEqual(t, b.Count(), 64)
}
