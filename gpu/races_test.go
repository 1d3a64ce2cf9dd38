package gpu_test

import (
	"os"
	"os/exec"
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
