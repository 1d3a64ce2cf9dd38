package looped

import (
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/gputest"
	"github.com/purecuda/purecuda/runtime"
)

func random[T int32 | int64 | uint32 | float32](n int) []T {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	x := make([]T, n)
	for i := range x {
		x[i] = T(r.IntN(1 << 20))
	}
	return x
}

// same runs a kernel thread by thread, and in loops, and compares.
func same[T any](t *testing.T, shape runtime.Shape, n int, make func(n int) []T, kernel func(t *gpu.Thread, x []T), loops func(shape runtime.Shape, x []T) error) {
	t.Helper()
	dim := func(d runtime.Dim3) gpu.Dim3 { return gpu.Dim3{X: int(d.X), Y: int(d.Y), Z: int(d.Z)} }
	want, got := make(n), make(n)
	require.NoError(t, gpu.Run(gpu.Shape{Grid: dim(shape.Grid), Block: dim(shape.Block), SharedBytes: int(shape.SharedBytes)}, func(th *gpu.Thread) { kernel(th, want) }))
	require.NoError(t, loops(shape, got))
	assert.Equal(t, want, got)
	assert.NotEqual(t, make(n), got, "the kernel did nothing")
}

func grid(x, y uint32, block ...uint32) runtime.Shape {
	block = append(block, 1, 1)
	return runtime.Shape{Grid: runtime.Dim3{X: x, Y: y}, Block: runtime.Dim3{X: block[0], Y: block[1], Z: block[2]}}
}

func TestLoopsAreTheKernel(t *testing.T) {
	t.Run("Saxpy", func(t *testing.T) {
		x := random[float32](999)
		for _, shape := range []runtime.Shape{grid(4, 1, 256), grid(3, 1, 32), grid(1, 1, 1), grid(100, 1, 32)} {
			same(t, shape, len(x), random[float32],
				func(th *gpu.Thread, y []float32) { Saxpy(th, 2, x, y) },
				func(shape runtime.Shape, y []float32) error { return SaxpyCPU(shape, 2, x, y) })
		}
	})
	t.Run("Everyday", func(t *testing.T) {
		in := random[int32](4 * 64)
		same(t, grid(1, 1, 64), 64, func(n int) []int32 { return make([]int32, n) },
			func(th *gpu.Thread, out []int32) { Everyday(th, slices.Clone(in), out) },
			func(shape runtime.Shape, out []int32) error { return EverydayCPU(shape, slices.Clone(in), out) })
	})
	t.Run("Sgemm", func(t *testing.T) {
		a, b := random[float32](64*64), random[float32](64*64+1)
		same(t, grid(4, 4, 16, 16), 64*64, random[float32],
			func(th *gpu.Thread, c []float32) { Sgemm(th, c, a, b, 64) },
			func(shape runtime.Shape, c []float32) error { return SgemmCPU(shape, c, a, b, 64) })
	})
	t.Run("BlockSum", func(t *testing.T) {
		in := random[int64](1000)
		same(t, grid(8, 1, 128), 8, random[int64],
			func(th *gpu.Thread, out []int64) { BlockSum(th, in, out) },
			func(shape runtime.Shape, out []int64) error { return BlockSumCPU(shape, in, out) })
	})
	t.Run("Scan", func(t *testing.T) {
		same(t, grid(8, 1, 128), 1000, random[int32], Scan, ScanCPU)
	})
	t.Run("Transpose", func(t *testing.T) {
		in := random[float32](100 * 70)
		same(t, grid(4, 3, 32, 8), 7000, random[float32],
			func(th *gpu.Thread, out []float32) { Transpose(th, out, in, 100, 70) },
			func(shape runtime.Shape, out []float32) error { return TransposeCPU(shape, out, in, 100, 70) })
	})
	t.Run("Mixed", func(t *testing.T) {
		for rounds := range 8 {
			shape := grid(2, 2, 4, 3, 5)
			shape.SharedBytes = 4 * 60
			same(t, shape, 240, random[uint32],
				func(th *gpu.Thread, out []uint32) { Mixed(th, out, rounds, false) },
				func(shape runtime.Shape, out []uint32) error { return MixedCPU(shape, out, rounds, false) })
		}
	})
	t.Run("Guarded", func(t *testing.T) {
		for _, d := range []int{1, 3, 100} {
			same(t, grid(5, 1, 32), 151, random[int32],
				func(th *gpu.Thread, x []int32) { Guarded(th, x, 7, d) },
				func(shape runtime.Shape, x []int32) error { return GuardedCPU(shape, x, 7, d) })
		}
		require.NoError(t, GuardedCPU(grid(5, 1, 32), make([]int32, 5), 7, 0))
	})
	t.Run("Walks", func(t *testing.T) {
		for _, n := range []int{2, 70, 128, 150} {
			same(t, grid(4, 1, 32), 100, random[int32],
				func(th *gpu.Thread, y []int32) { Walks(th, make([]int32, 150), y, n) },
				func(shape runtime.Shape, y []int32) error { return WalksCPU(shape, make([]int32, 150), y, n) })
			same(t, grid(4, 1, 32), 150, random[int32],
				func(th *gpu.Thread, x []int32) { Walks(th, x, make([]int32, 100), n) },
				func(shape runtime.Shape, x []int32) error { return WalksCPU(shape, x, make([]int32, 100), n) })
		}
		y := random[int32](100)
		same(t, grid(1, 5, 1, 32), 100, random[int32],
			func(th *gpu.Thread, x []int32) { WalksDown(th, x, y) },
			func(shape runtime.Shape, x []int32) error { return WalksDownCPU(shape, x, y) })
	})
	t.Run("Only", func(t *testing.T) {
		for _, n := range []int{-1, 0, 5, 31, 32, 64} {
			same(t, grid(2, 3, 32), 6, random[int32],
				func(th *gpu.Thread, x []int32) { Only(th, x, n, n%4) },
				func(shape runtime.Shape, x []int32) error { return OnlyCPU(shape, x, n, n%4) })
			same(t, grid(2, 3, 8, 2), 6, random[int32],
				func(th *gpu.Thread, x []int32) { Only(th, x, -1, n) },
				func(shape runtime.Shape, x []int32) error { return OnlyCPU(shape, x, -1, n) })
		}
	})
	t.Run("SHA256", func(t *testing.T) {
		data := make([]byte, 64*50)
		for i := range data {
			data[i] = byte(i * i >> 3)
		}
		out := make([]byte, 32*50)
		require.NoError(t, SHA256CPU(runtime.Shape1D(50, 32), data, out, 64))
		for i := range 50 {
			want := sha256.Sum256(data[i*64 : (i+1)*64])
			require.Equal(t, want[:], out[32*i:32*i+32])
		}
	})
}

// TestWhatIsCut says of each kernel whether it is.
func TestWhatIsCut(t *testing.T) {
	text, err := os.ReadFile("kernels_gpu.go")
	require.NoError(t, err)
	for name, why := range map[string]string{
		"Shuffled":  "gpu.ReduceAdd waits for the warp",
		"Helped":    "both waits, or has shared memory",
		"Diverging": "t.ThreadX() < len(x) need not be the same for all threads of a block, and a barrier depends on it",
		"Loaded":    "i < n need not be the same for all threads of a block, and a barrier depends on it",
		"Switched":  "a barrier, or a way past one, in a switch",
		"Pointing":  "p lives across a barrier, and may point to a variable of the thread",
	} {
		assert.Regexp(t, "// "+name+`CPU .*its threads as coroutines \(kernels.go:\d+: `+strings.NewReplacer("(", `\(`, ")", `\)`).Replace(why), string(text))
	}
	assert.Equal(t, 7, strings.Count(string(text), "coroutines"))
}

func TestErrorsHaveTheirPlace(t *testing.T) {
	want := `gpu: kernels\.go:\d+: runtime error: index out of range \[101\] with length 100 in block \(0,0,0\), thread \(37,0,0\)`
	err := FailsCPU(grid(1, 1, 64), make([]int32, 100))
	require.Error(t, err)
	assert.Regexp(t, want, err.Error())
	err = FailsAloneCPU(grid(2, 1, 32), make([]int32, 100))
	require.Error(t, err)
	assert.Regexp(t, `gpu: kernels\.go:\d+: runtime error: index out of range \[100\] with length 100 in block \(1,0,0\), thread \(5,0,0\)$`, err.Error())
	// A loop over elements does not keep the thread.
	err = SaxpyCPU(grid(1, 1, 64), 1, make([]float32, 50), make([]float32, 40))
	require.Error(t, err)
	assert.Regexp(t, `gpu: kernels\.go:\d+: runtime error: index out of range \[40\] with length 40 in block \(0,0,0\)(, thread \(40,0,0\))?$`, err.Error())
}

// TestTogether has blocks that wait for each other: on the simulated driver, which needs a cooperative launch, and on the CPU.
func TestTogether(t *testing.T) {
	for _, rt := range []*runtime.Runtime{gputest.Runtime(t), nil} {
		x := random[int32](12 * 64)
		want := slices.Clone(x)
		slices.Reverse(want)
		place, err := TogetherAuto(t.Context(), rt, runtime.Shape1D(len(x), 64), x, make([]uint32, 1))
		require.NoError(t, err, place)
		assert.Equal(t, want, x)
	}
}
