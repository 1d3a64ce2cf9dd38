package gpu_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
)

// TestChain hands a number from block to block: each waits for the one before it.
func TestChain(t *testing.T) {
	const blocks = 300
	data, flags, counter := make([]uint64, blocks), make([]uint32, blocks), make([]uint32, 1)
	require.NoError(t, gpu.Run(gpu.Shape1D(blocks*64, 64), func(th *gpu.Thread) {
		tile := gpu.Shared[uint32](th)
		if th.ThreadX() == 0 {
			*tile = gpu.AtomicAdd(&counter[0], 1)
		}
		th.Barrier()
		i := *tile
		if th.ThreadX() != 63 {
			return
		}
		data[i] = uint64(i)
		if i > 0 {
			for gpu.AtomicLoad(&flags[i-1], gpu.Acquire, gpu.DeviceScope) == 0 {
				th.Nanosleep(100)
			}
			data[i] += data[i-1]
		}
		gpu.AtomicStore(&flags[i], 1, gpu.Release, gpu.DeviceScope)
	}))
	assert.EqualValues(t, blocks*(blocks-1)/2, data[blocks-1])
}

// TestWaitsForLaterThread has threads that wait for one that begins after them, in their warp and in another.
func TestWaitsForLaterThread(t *testing.T) {
	seen := make([]uint32, 96)
	require.NoError(t, gpu.Run(gpu.Shape1D(96, 96), func(th *gpu.Thread) {
		flag := gpu.Shared[uint32](th)
		if th.ThreadX() == 0 {
			gpu.AtomicStore(flag, 0, gpu.Relaxed, gpu.BlockScope)
		}
		th.Barrier()
		if th.ThreadX() == 95 {
			gpu.AtomicStore(flag, 7, gpu.Release, gpu.BlockScope)
		}
		for gpu.AtomicLoad(flag, gpu.Acquire, gpu.BlockScope) == 0 {
			th.Nanosleep(20)
		}
		gpu.WarpBarrier(th)
		seen[th.ThreadX()] = gpu.AtomicLoad(flag, gpu.Relaxed, gpu.BlockScope)
	}))
	for i, v := range seen {
		require.EqualValues(t, 7, v, "thread %d", i)
	}
}

// TestEndsWhereAnotherFails has a block that waits for one that has failed.
func TestEndsWhereAnotherFails(t *testing.T) {
	flag := make([]uint32, 1)
	err := gpu.Run(gpu.Shape1D(2, 1), func(th *gpu.Thread) {
		if th.BlockX() == 0 {
			panic("dead")
		}
		for gpu.AtomicLoad(&flag[0], gpu.Relaxed, gpu.DeviceScope) == 0 {
			th.Nanosleep(20)
		}
	})
	assert.ErrorContains(t, err, "dead")
}

// TestGridBarrier has more blocks than cores, which all wait for each other, with words that several launches use.
func TestGridBarrier(t *testing.T) {
	const blocks, threads = 24, 8
	word := make([]uint32, 1)
	for _, grid := range []gpu.Dim3{{X: blocks}, {X: 4, Y: 3, Z: 2}, {X: 1}} {
		sum, seen := make([]int64, 4), make([]int64, 4*blocks*threads)
		n := int64(grid.X * max(1, grid.Y) * max(1, grid.Z) * threads)
		require.NoError(t, gpu.Run(gpu.Shape{Grid: grid, Block: gpu.Dim3{X: threads}}, func(th *gpu.Thread) {
			me := ((th.BlockZ()*th.GridDimY()+th.BlockY())*th.GridDimX()+th.BlockX())*threads + th.ThreadX()
			for round := range sum {
				gpu.AtomicAdd(&sum[round], 1)
				gpu.GridBarrier(th, &word[0])
				seen[4*me+round] = gpu.AtomicLoad(&sum[round], gpu.Relaxed, gpu.DeviceScope)
			}
		}))
		for i, v := range seen[:4*n] {
			require.Equal(t, n, v, "%v: %d", grid, i)
		}
		assert.Zero(t, word[0]&(1<<31-1))
	}
}

func TestOrders(t *testing.T) {
	f, pair := make([]float32, 2), make([]gpu.Uint64x2, 2)
	var x int64
	require.NoError(t, gpu.Run(gpu.Shape1D(1, 1), func(*gpu.Thread) {
		gpu.AtomicStore(&f[0], 1.5, gpu.Relaxed, gpu.SystemScope)
		f[1] = gpu.AtomicLoad(&f[0], gpu.Relaxed, gpu.BlockScope)
		gpu.AtomicStorePair(&pair[0], gpu.Uint64x2{X: 1, Y: 2}, gpu.DeviceScope)
		gpu.Fence(gpu.SeqCst, gpu.DeviceScope)
		gpu.StoreStreaming(&pair[1], gpu.AtomicLoadPair(&pair[0], gpu.DeviceScope))
		x = int64(gpu.LoadStreaming(&pair[1]).Y)
	}))
	assert.Equal(t, []float32{1.5, 1.5}, f)
	assert.EqualValues(t, 2, x)
	for want, wrong := range map[string]func(){
		"gpu.AtomicLoad: it has no order 2":       func() { gpu.AtomicLoad(&x, gpu.Release, gpu.DeviceScope) },
		"gpu.AtomicStore: it has no order 1":      func() { gpu.AtomicStore(&x, 1, gpu.Acquire, gpu.DeviceScope) },
		"gpu.Fence: it has no order 0":            func() { gpu.Fence(gpu.Relaxed, gpu.DeviceScope) },
		"gpu.AtomicLoadPair: there is no scope 9": func() { gpu.AtomicLoadPair(&pair[0], 9) },
	} {
		assert.ErrorContains(t, gpu.Run(gpu.Shape1D(1, 1), func(*gpu.Thread) { wrong() }), want)
	}
}
