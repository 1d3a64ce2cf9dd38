package gpu_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/internal/race"
)

// TestRunBlocks runs a kernel in the form that gpuc writes: two loops, with the barrier between them.
func TestRunBlocks(t *testing.T) {
	kernel := func(t *gpu.Thread, out []int) {
		s := gpu.Shared[[64]int](t)
		s[t.Rank()] = t.GlobalX()
		t.Barrier()
		out[t.GlobalX()] = s[63-t.Rank()] + t.BlockX()
	}
	loops := func(b *gpu.Block, out []int) {
		t := b.Thread()
		s := gpu.Shared[[64]int](t)
		if s[0] != -1 {
			panic("no junk")
		}
		for b.X = range 64 {
			s[b.X] = b.Thread().GlobalX()
		}
		for b.X = range 64 {
			out[b.Thread().GlobalX()] = s[63-b.Thread().Rank()] + t.BlockX()
		}
	}
	shape, want, got := gpu.Shape1D(64*9, 64), make([]int, 64*9), make([]int, 64*9)
	require.NoError(t, gpu.Run(shape, func(t *gpu.Thread) { kernel(t, want) }))
	require.NoError(t, gpu.RunBlocks(shape, func(t *gpu.Thread) { kernel(t, got) }, func(b *gpu.Block) { loops(b, got) }))
	assert.Equal(t, want, got)
}

func TestRunBlocksErrors(t *testing.T) {
	if race.Enabled {
		t.Skip("a build with -race runs the kernel itself")
	}
	five := make([]int, 5)
	kernel := func(*gpu.Thread) {}
	for want, block := range map[string]func(b *gpu.Block){
		`loops_test.go:\d+: runtime error: index out of range \[7\] with length 5 in block \(1,0,0\), thread \(7,0,0\)$`: func(b *gpu.Block) {
			for b.X = range 8 {
				if b.X == 7 && b.Thread().BlockX() == 1 {
					five[b.X] = 1
				}
			}
		},
		`loops_test.go:\d+: panic: no in block \([01],0,0\)$`: func(b *gpu.Block) {
			b.X = -1
			panic("no")
		},
		`loops_test.go:\d+: the kernel waits where it did not when gpuc ran last: run go generate in block`: func(b *gpu.Block) { b.Thread().Barrier() },
		`the kernel called runtime.Goexit`: func(*gpu.Block) { runtime.Goexit() },
	} {
		err := gpu.RunBlocks(one(8), kernel, block)
		require.Error(t, err)
		assert.Regexp(t, want, err.Error())
	}
	assert.ErrorContains(t, gpu.RunBlocks(gpu.Shape{}, kernel, func(*gpu.Block) {}), "gpu: the block (0,1,1) is outside")
}
