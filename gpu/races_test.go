package gpu_test

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
)

// planted are kernels with a race, and kernels that are like them and have none.
var planted = map[string]struct {
	race   bool
	shape  gpu.Shape
	kernel func(t *gpu.Thread, data []int32)
}{
	"two threads write one element": {true, one(32), func(t *gpu.Thread, data []int32) { data[t.ThreadX()/2+16*t.BlockX()] = 1 }},
	"each its own element":          {false, one(32), func(t *gpu.Thread, data []int32) { data[t.GlobalX()] = 1 }},
	"a neighbour without a barrier": {true, one(64), func(t *gpu.Thread, data []int32) {
		s := gpu.Shared[[64]int32](t)
		s[t.ThreadX()] = 1
		data[t.GlobalX()] = s[(t.ThreadX()+1)%64]
	}},
	"a neighbour after a barrier": {false, one(64), func(t *gpu.Thread, data []int32) {
		s := gpu.Shared[[64]int32](t)
		s[t.ThreadX()] = 1
		t.Barrier()
		data[t.GlobalX()] = s[(t.ThreadX()+1)%64]
	}},
	"the second barrier of a loop is missing": {true, one(64), func(t *gpu.Thread, data []int32) {
		s := gpu.Shared[[64]int32](t)
		for i := range int32(3) {
			s[t.ThreadX()] = i
			t.Barrier()
			data[t.GlobalX()] += s[(t.ThreadX()+33)%64]
		}
	}},
	"both barriers of a loop": {false, one(64), func(t *gpu.Thread, data []int32) {
		s := gpu.Shared[[64]int32](t)
		for i := range int32(3) {
			s[t.ThreadX()] = i
			t.Barrier()
			data[t.GlobalX()] += s[(t.ThreadX()+33)%64]
			t.Barrier()
		}
	}},
	"a warp function orders one warp only": {true, one(64), func(t *gpu.Thread, data []int32) {
		s := gpu.Shared[[64]int32](t)
		s[t.ThreadX()] = 1
		gpu.WarpBarrier(t)
		data[t.GlobalX()] = s[(t.ThreadX()+32)%64]
	}},
	"a fragment of what another warp writes": {true, one(64), func(t *gpu.Thread, data []int32) {
		s := gpu.Shared[[64]gpu.Uint4](t)
		s[t.ThreadX()].X = 1
		data[t.GlobalX()] = int32(gpu.LoadMatrixA[int8](t, &s[t.ThreadX()^32]).At(0))
	}},
	"a fragment after a barrier": {false, one(64), func(t *gpu.Thread, data []int32) {
		s := gpu.Shared[[64]gpu.Uint4](t)
		s[t.ThreadX()].X = 1
		t.Barrier()
		data[t.GlobalX()] = int32(gpu.LoadMatrixA[int8](t, &s[t.ThreadX()^32]).At(0))
	}},
	"a copy of another thread after a wait alone": {true, one(32), func(t *gpu.Thread, data []int32) {
		s, from := gpu.Shared[[32]gpu.Uint4](t), gpu.Uint4{X: 1}
		gpu.CopyAsync(t, &s[t.Lane()], &from)
		gpu.CopyCommit(t)
		gpu.CopyWait(t, 0)
		data[t.GlobalX()] = int32(s[t.Lane()^1].X)
	}},
	"a copy of another thread after a barrier": {false, one(32), func(t *gpu.Thread, data []int32) {
		s, from := gpu.Shared[[32]gpu.Uint4](t), gpu.Uint4{X: 1}
		gpu.CopyAsync(t, &s[t.Lane()], &from)
		gpu.CopyCommit(t)
		gpu.CopyWait(t, 0)
		gpu.WarpBarrier(t)
		data[t.GlobalX()] = int32(s[t.Lane()^1].X)
	}},
	"lanes of a warp do not run in step": {true, one(32), func(t *gpu.Thread, data []int32) {
		s := gpu.Shared[[32]int32](t)
		s[t.Lane()] = 1
		data[t.GlobalX()] = s[t.Lane()^1]
	}},
	"a warp function orders its warp": {false, one(64), func(t *gpu.Thread, data []int32) {
		s := gpu.Shared[[64]int32](t)
		s[t.ThreadX()] = 1
		gpu.WarpBarrier(t)
		data[t.GlobalX()] = s[t.ThreadX()^1]
	}},
	"a barrier orders no other block": {true, one(32), func(t *gpu.Thread, data []int32) {
		if t.BlockX() == 0 {
			data[t.ThreadX()] = 1
		}
		t.Barrier()
		if t.BlockX() == 1 {
			data[32+t.ThreadX()] = data[t.ThreadX()]
		}
	}},
	"the first and the last block": {true, gpu.Shape{Grid: gpu.Dim3{X: 16}, Block: gpu.Dim3{X: 256}}, func(t *gpu.Thread, data []int32) {
		if t.BlockX()%15 == 0 {
			data[t.ThreadX()]++
		}
	}},
	"atomics":            {false, one(64), func(t *gpu.Thread, data []int32) { gpu.AtomicAdd(&data[0], 1) }},
	"one plain addition": {true, one(64), func(t *gpu.Thread, data []int32) { data[0]++ }},

	"all blocks write the same elements": {true, one(32), func(t *gpu.Thread, data []int32) { data[t.ThreadX()] = int32(t.BlockX()) }},
	"a stencil in place": {true, one(64), func(t *gpu.Thread, data []int32) {
		if i := t.GlobalX(); i > 0 {
			data[i] = data[i-1] + data[i+1]
		}
	}},
	"a sum of halves without barriers between": {true, one(64), func(t *gpu.Thread, data []int32) {
		s := gpu.Shared[[64]int32](t)
		s[t.ThreadX()] = 1
		t.Barrier()
		for d := 32; d > 0; d /= 2 {
			if t.ThreadX() < d {
				s[t.ThreadX()] += s[t.ThreadX()+d]
			}
		}
		t.Barrier()
		data[t.GlobalX()] = s[0]
	}},
	"a sum of halves": {false, one(64), func(t *gpu.Thread, data []int32) {
		s := gpu.Shared[[64]int32](t)
		s[t.ThreadX()] = 1
		t.Barrier()
		for d := 32; d > 0; d /= 2 {
			if t.ThreadX() < d {
				s[t.ThreadX()] += s[t.ThreadX()+d]
			}
			t.Barrier()
		}
		data[t.GlobalX()] = s[0]
	}},
	"the barrier comes too early": {true, one(64), func(t *gpu.Thread, data []int32) {
		s := gpu.Shared[[64]int32](t)
		t.Barrier()
		s[t.ThreadX()] = 1
		data[t.GlobalX()] = s[63-t.ThreadX()]
	}},
	"a plain count of values": {true, one(64), func(t *gpu.Thread, data []int32) {
		s := gpu.Shared[[8]int32](t)
		if t.ThreadX() < 8 {
			s[t.ThreadX()] = 0
		}
		t.Barrier()
		s[t.ThreadX()%8]++
		t.Barrier()
		data[t.GlobalX()] = s[t.ThreadX()%8]
	}},
	"ranges that overlap by one": {true, one(32), func(t *gpu.Thread, data []int32) {
		for i := range 3 {
			data[2*t.GlobalX()+i] = 1
		}
	}},
	"a value for all without a barrier": {true, one(32), func(t *gpu.Thread, data []int32) {
		s := gpu.Shared[int32](t)
		if t.ThreadX() == 0 {
			*s = 7
		}
		data[t.GlobalX()] = *s
	}},
	"a plain read beside atomics": {true, one(32), func(t *gpu.Thread, data []int32) {
		gpu.AtomicAdd(&data[0], 1)
		if t.GlobalX() == 5 {
			data[1] = data[0]
		}
	}},
	"two views of dynamic memory": {true, gpu.Shape{Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: 32}, SharedBytes: 256}, func(t *gpu.Thread, data []int32) {
		words, pairs := gpu.DynamicShared[int32](t), gpu.DynamicShared[int64](t)
		words[t.ThreadX()] = 1
		pairs[t.ThreadX()] = 2
	}},
	"a transpose in place": {true, gpu.Shape{Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: 8, Y: 8}}, func(t *gpu.Thread, data []int32) {
		x, y := t.ThreadX(), t.ThreadY()
		data[8*y+x], data[8*x+y] = data[8*x+y], data[8*y+x]
	}},
	"a step that is too small": {true, one(32), func(t *gpu.Thread, data []int32) {
		for i := t.GlobalX(); i < 128; i += t.BlockDimX() {
			data[i]++
		}
	}},
	// Atomics are relaxed on a GPU and order nothing; those of Go order, and the detector takes their word.
	"a flag orders no data": {true, one(32), func(t *gpu.Thread, data []int32) {
		switch t.GlobalX() {
		case 0:
			data[1] = 42
			gpu.AtomicExchange(&data[0], 1)
		case 40:
			for gpu.AtomicAdd(&data[0], 0) == 0 {
				runtime.Gosched()
			}
			data[2] = data[1]
		}
	}},
}

// missed are the races that the detector does not find, and why.
var missed = map[string]string{
	"a flag orders no data": "Go's atomics order what a GPU's do not",
}

func runPlanted(t *testing.T, name string) {
	k := planted[name]
	data := make([]int32, 1024)
	require.NoError(t, gpu.Run(k.shape, func(t *gpu.Thread) { k.kernel(t, data) }))
}

// again runs TestRaces of this binary with one kernel.
func again(t *testing.T, name string) (string, error) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRaces$")
	cmd.Env = append(os.Environ(), "PURECUDA_TEST_RACE="+name)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
