package gpu_test

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/internal/race"
)

func TestIndices(t *testing.T) {
	shape := gpu.Shape{Grid: gpu.Dim3{X: 3, Y: 2, Z: 2}, Block: gpu.Dim3{X: 5, Y: 4, Z: 3}}
	const width, height, depth = 15, 8, 6
	seen := make([]int32, width*height*depth)
	ranks := make([]int32, 60)
	require.NoError(t, gpu.Run(shape, func(th *gpu.Thread) {
		x, y, z := th.GlobalX(), th.GlobalY(), th.GlobalZ()
		if x != th.BlockX()*th.BlockDimX()+th.ThreadX() || y != th.BlockY()*4+th.ThreadY() || z != th.BlockZ()*3+th.ThreadZ() {
			panic("the global index is not made of block and thread")
		}
		if th.GlobalDimX() != width || th.GlobalDimY() != height || th.GlobalDimZ() != depth || th.GridDimX() != 3 {
			panic("the size of the grid")
		}
		if th.Rank() != (th.ThreadZ()*4+th.ThreadY())*5+th.ThreadX() || th.Lane() != th.Rank()%32 || th.Warp() != th.Rank()/32 {
			panic("the rank")
		}
		gpu.AtomicAdd(&seen[(z*height+y)*width+x], 1)
		gpu.AtomicAdd(&ranks[th.Rank()], 1)
	}))
	for i, n := range seen {
		require.EqualValues(t, 1, n, "thread %d", i)
	}
	for i, n := range ranks {
		require.EqualValues(t, 12, n, "rank %d", i)
	}
}

// blockSum has barriers in a loop, and a shared variable.
func blockSum(t *gpu.Thread, in []int64, out []int64) {
	part := gpu.Shared[[256]int64](t)
	r := t.ThreadX()
	part[r] = in[t.GlobalX()]
	t.Barrier()
	for d := t.BlockDimX() / 2; d > 0; d /= 2 {
		if r < d {
			part[r] += part[r+d]
		}
		t.Barrier()
	}
	if r == 0 {
		out[t.BlockX()] = part[0]
	}
}

func TestBarriers(t *testing.T) {
	const blocks, threads = 37, 128
	in, out := make([]int64, blocks*threads), make([]int64, blocks)
	for i := range in {
		in[i] = int64(i * i)
	}
	require.NoError(t, gpu.Run(gpu.Shape1D(len(in), threads), func(th *gpu.Thread) { blockSum(th, in, out) }))
	for b, got := range out {
		want := int64(0)
		for _, v := range in[b*threads : (b+1)*threads] {
			want += v
		}
		require.Equal(t, want, got, "block %d", b)
	}
}

func TestEmptyGrid(t *testing.T) {
	require.NoError(t, gpu.Run(gpu.Shape1D(0, 32), func(*gpu.Thread) { panic("a thread of an empty grid") }))
}

// TestOnlySomeWait lets the threads of some blocks wait, and those of others not.
func TestOnlySomeWait(t *testing.T) {
	var after atomic.Int32
	require.NoError(t, gpu.Run(gpu.Shape1D(64*20, 64), func(th *gpu.Thread) {
		if th.BlockX()%3 == 0 {
			th.Barrier()
		}
		after.Add(1)
	}))
	assert.EqualValues(t, 64*20, after.Load())
}

func TestSharedMemoryBeginsWithJunk(t *testing.T) {
	type cell struct {
		n  int32
		f  float64
		ok [3]uint8
	}
	for _, blocks := range []int{1, 50} {
		require.NoError(t, gpu.Run(gpu.Shape{Grid: gpu.Dim3{X: blocks}, Block: gpu.Dim3{X: 32}, SharedBytes: 100}, func(th *gpu.Thread) {
			c, flags, words := gpu.Shared[[32]cell](th), gpu.Shared[[32]bool](th), gpu.DynamicShared[uint32](th)
			mine := &c[th.Lane()]
			if mine.n != -1 || mine.f == mine.f || mine.ok[2] != 255 || !flags[th.Lane()] {
				panic("zeroed")
			}
			if len(words) != 25 || th.Lane() < 25 && words[th.Lane()] != ^uint32(0) {
				panic("zeroed dynamic memory")
			}
			th.Barrier()
			*mine, flags[th.Lane()] = cell{}, false
			if th.Lane() < 25 {
				words[th.Lane()] = 0
			}
		}))
	}
}

// TestSharedMemoryOfTheNextBlock gives each block variables of its own, whatever the blocks before it had.
func TestSharedMemoryOfTheNextBlock(t *testing.T) {
	kernel := func(th *gpu.Thread) {
		if th.BlockX()%3 == 0 {
			if a, b := gpu.Shared[uint64](th), gpu.Shared[bool](th); *a != ^uint64(0) || !*b {
				panic("zeroed")
			} else {
				*a, *b = 0, false
			}
			return
		}
		if a := gpu.Shared[[2]int32](th); *a != [2]int32{-1, -1} {
			panic("zeroed")
		} else {
			*a = [2]int32{}
		}
	}
	shape := gpu.Shape{Grid: gpu.Dim3{X: 60}, Block: gpu.Dim3{X: 1}}
	require.NoError(t, gpu.Run(shape, kernel))
	require.NoError(t, gpu.RunBlocks(shape, kernel, func(b *gpu.Block) { kernel(b.Thread()) }))
}

func one(block int) gpu.Shape { return gpu.Shape{Grid: gpu.Dim3{X: 2}, Block: gpu.Dim3{X: block}} }

func TestErrors(t *testing.T) {
	five := make([]int, 5)
	cause := errors.New("my own")
	for name, c := range map[string]struct {
		shape  gpu.Shape
		kernel func(t *gpu.Thread)
		want   string
	}{
		"index":         {one(8), func(t *gpu.Thread) { _ = five[t.ThreadX()+0] }, `run_test.go:\d+: runtime error: index out of range \[\d\] with length 5 in block \([01],0,0\), thread \(\d,0,0\)`},
		"division":      {one(1), func(t *gpu.Thread) { five[0] = 1 / (t.BlockDimX() - 1) }, `run_test.go:\d+: runtime error: integer divide by zero`},
		"panic":         {one(1), func(t *gpu.Thread) { panic("no") }, `run_test.go:\d+: panic: no in block`},
		"panic error":   {one(1), func(t *gpu.Thread) { panic(cause) }, `run_test.go:\d+: my own`},
		"after barrier": {one(40), func(t *gpu.Thread) { t.Barrier(); panic("late") }, `run_test.go:\d+: panic: late`},
		"some return":   {one(100), func(t *gpu.Thread) { divergent(t) }, `run_test.go:\d+: 90 threads of the block wait at a barrier that 10 have returned without reaching`},
		"lanes differ":  {one(32), func(t *gpu.Thread) { mixed(t) }, `run_test.go:\d+: 20 lanes of a warp wait at a warp function, and 12 elsewhere`},
		"two functions": {one(32), func(t *gpu.Thread) { twoFunctions(t) }, `run_test.go:\d+: gpu.(Any|Ballot): lane \d+ is here while lane \d+ is at gpu.(Ballot|Any)`},
		"no such lane":  {one(16), func(t *gpu.Thread) { gpu.ShuffleDown(t, 1, 8) }, `run_test.go:\d+: gpu.ShuffleDown: lane \d+ asks for the value of lane \d+, which the block does not have`},
		"lane returned": {one(32), func(t *gpu.Thread) { early(t) }, `run_test.go:\d+: gpu.ShuffleXor: lane \d+ asks for the value of lane \d+, which has returned`},
		"group waits":   {one(32), func(t *gpu.Thread) { halfGroup(t) }, `run_test.go:\d+: 4 lanes of a warp wait for others of their group, and none of those is there`},
		"group, warp":   {one(32), func(t *gpu.Thread) { groupAndWarp(t) }, `run_test.go:\d+: 31 lanes of a warp wait at a warp function, and 1 elsewhere`},
		"two of groups": {one(32), func(t *gpu.Thread) { twoOfGroups(t) }, `run_test.go:\d+: gpu.Group.(Barrier|Ballot): lane \d+ is here while lane \d+ of its group is at gpu.Group.(Ballot|Barrier)`},
		"group, left":   {one(32), func(t *gpu.Thread) { leftGroup(t) }, `run_test.go:\d+: gpu.GroupShuffle: lane \d+ asks for the value of lane \d+, which has returned, or is not in the group`},
		"tile of 3":     {one(32), func(t *gpu.Thread) { gpu.Tile(t, 3) }, `run_test.go:\d+: gpu.Tile: a tile has 1, 2, 4, 8, 16 or 32 lanes, not 3`},
		"pointers":      {one(1), func(t *gpu.Thread) { gpu.Shared[*int](t) }, `run_test.go:\d+: gpu: shared memory cannot hold \*int`},
		"Goexit":        {one(1), func(t *gpu.Thread) { runtime.Goexit() }, `the kernel called runtime.Goexit`},
		"nil kernel":    {one(1), nil, `gpu: the kernel is nil`},
		"no shape":      {gpu.Shape{}, func(t *gpu.Thread) {}, `gpu: the block \(0,1,1\) is outside`},
		"no such grid":  {gpu.Shape{Grid: gpu.Dim3{X: 1, Y: 1 << 20}, Block: gpu.Dim3{X: 1}}, func(t *gpu.Thread) {}, `gpu: the grid \(1,1048576,1\) is outside`},
		"negative":      {gpu.Shape{Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: -1}}, func(t *gpu.Thread) {}, `gpu: the block \(-1,1,1\) is outside`},
		"large":         {gpu.Shape{Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: 64, Y: 64}}, func(t *gpu.Thread) {}, `the block \(64,64,1\) has 4096 threads; a device takes at most 1024`},
		"bytes":         {gpu.Shape{Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: 1}, SharedBytes: -1}, func(t *gpu.Thread) {}, `-1 bytes of dynamic shared memory`},
		"linear":        {gpu.Shape1D(5, 0), func(t *gpu.Thread) {}, `is outside`},
	} {
		t.Run(name, func(t *testing.T) {
			err := gpu.Run(c.shape, c.kernel)
			require.Error(t, err)
			assert.Regexp(t, c.want, err.Error())
			var e *gpu.Error
			if errors.As(err, &e) && name == "panic error" {
				assert.ErrorIs(t, err, cause)
			}
		})
	}
}

func divergent(t *gpu.Thread) {
	if t.ThreadX() < 10 {
		return
	}
	t.Barrier()
}

func mixed(t *gpu.Thread) {
	if t.Lane() < 12 {
		t.Barrier()
	} else {
		gpu.WarpBarrier(t)
	}
}

func twoFunctions(t *gpu.Thread) {
	if t.Lane() < 12 {
		gpu.Any(t, true)
	} else {
		gpu.Ballot(t, true)
	}
}

func early(t *gpu.Thread) {
	if t.Lane() < 16 {
		gpu.ShuffleXor(t, 1, 16)
	}
}

// TestRaces starts this test again in a build with -race, with kernels that have a race, and without.
func TestRaces(t *testing.T) {
	if planted := os.Getenv("PURECUDA_TEST_RACE"); planted != "" {
		runPlanted(t, planted)
		return
	}
	if !race.Enabled {
		t.Skip("only a build with -race finds races")
	}
	var races, found int
	for name, k := range planted {
		t.Run(name, func(t *testing.T) {
			out, err := again(t, name)
			if !k.race {
				assert.NoError(t, err, out)
				return
			}
			races++
			if why := missed[name]; why != "" {
				t.Logf("not found: %s", why)
				assert.NoError(t, err, "it is found now")
				return
			}
			if assert.Error(t, err, "the race was not found") && assert.Contains(t, out, "DATA RACE") && assert.Contains(t, out, "races_test.go") {
				found++
			}
		})
	}
	t.Logf("%d of %d planted races found", found, races)
	assert.Equal(t, 22, races)
	assert.GreaterOrEqual(t, found, 18)
}

func halfGroup(t *gpu.Thread) {
	if t.Lane()>>2&1 == 0 {
		if g := gpu.Tile(t, 8); g.Lanes()&1 != 0 {
			g.Barrier()
		}
	}
	t.Barrier()
}

func groupAndWarp(t *gpu.Thread) {
	if t.Lane() == 9 {
		gpu.Tile(t, 8).Barrier()
	}
	gpu.WarpBarrier(t)
}

func twoOfGroups(t *gpu.Thread) {
	if g := gpu.Tile(t, 4); g.Rank() == 2 {
		g.Barrier()
	} else {
		g.Any(true)
	}
}

func leftGroup(t *gpu.Thread) {
	if t.Lane() == 9 {
		return
	}
	gpu.GroupShuffle(gpu.Tile(t, 8), 3, 1)
}

// TestGroups lets the lanes of a warp meet in tiles that go through their loops at different times, and pause.
func TestGroups(t *testing.T) {
	const n = 80
	var out [n]int
	var word uint32
	require.NoError(t, gpu.Run(gpu.Shape{Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: n}}, func(th *gpu.Thread) {
		g, sum := gpu.Tile(th, 8), 0
		s := gpu.Shared[[n]int](th)
		for i := range th.Rank()/8 + 1 {
			s[th.Rank()] = i + th.Rank()
			g.Barrier()
			sum += s[th.Rank()^1]
			g.Barrier()
		}
		for th.Rank()/8 != int(gpu.AtomicLoad(&word, gpu.Acquire, gpu.BlockScope)) { // one tile after the other
			th.Nanosleep(10)
		}
		if sum = gpu.GroupReduce(g, sum, func(a, b int) int { return a + b }); g.Rank() == 0 {
			gpu.AtomicAdd(&word, 1)
		}
		out[th.Rank()] = gpu.Shuffle(th, sum, th.Lane()^1)
		all := gpu.Active(th)
		if all.Size() < 1 || all.Lanes()>>th.Lane()&1 == 0 || gpu.GroupReduce(all, 1, func(a, b int) int { return a + b }) != all.Size() {
			out[th.Rank()] = -1
		}
	}))
	for i, v := range out {
		tile, want := i/8, 0
		for j := range 8 {
			for k := range tile + 1 {
				want += k + 8*tile + j
			}
		}
		assert.Equal(t, want, v, "thread %d", i)
	}
}
