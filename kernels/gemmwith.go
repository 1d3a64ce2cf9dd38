//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/gemm"
	"github.com/purecuda/purecuda/kernels/internal/hopper"
	"github.com/purecuda/purecuda/runtime"
)

// Activation changes each sum of a product before it is rounded, with the bias of its column. It may have numbers in it.
type Activation interface {
	Apply(sum, bias float32) float32
}

// GemmWith is [Gemm] with a bias for each column and a Go function on each sum, in one kernel.
// A line //purecuda:instantiate kernels.GemmWith[gpu.BFloat16, GELU] makes one for the types of a program. It needs gpuc -arch sm_80, and
// takes the tensor cores of compute capability 9.0 with -arch sm_80,sm_90a. It is safe for concurrent use.
type GemmWith[T gpu.Half, F Activation] struct{ primitive }

// Of is called by what gpuc writes.
func (GemmWith[T, F]) Of(k *launch.Kernels, first int) GemmWith[T, F] {
	return GemmWith[T, F]{primitive{k, first}}
}

//purecuda:kernel block=256 checks=off noalias arch=sm_80
func (GemmWith[T, F]) kernelAny(t *gpu.Thread, f F, bias []float32, a, b []gpu.Uint4, c []uint32, m, n, k, pitchA, pitchB, pitchC int32, strideA, strideB, strideC int, sums []float32, part int32) {
	gemm.Multiply[T](t, f, true, bias, a, b, c, m, n, k, pitchA, pitchB, pitchC, strideA, strideB, strideC, sums, part)
}

//purecuda:kernel block=384 registers=168 checks=off arch=sm_90a
func (GemmWith[T, F]) kernelWide(t *gpu.Thread, f F, bias []float32, a, b, c gpu.Tiles[T], m, n, k int32) {
	hopper.Multiply[T, [128]float32](t, f, true, bias, 256, a, b, c, m, n, k)
}

//purecuda:kernel block=384 registers=168 checks=off arch=sm_90a
func (GemmWith[T, F]) kernelMiddle(t *gpu.Thread, f F, bias []float32, a, b, c gpu.Tiles[T], m, n, k int32) {
	hopper.Multiply[T, [64]float32](t, f, true, bias, 128, a, b, c, m, n, k)
}

//purecuda:kernel block=384 registers=168 checks=off arch=sm_90a
func (GemmWith[T, F]) kernelNarrow(t *gpu.Thread, f F, bias []float32, a, b, c gpu.Tiles[T], m, n, k int32) {
	hopper.Multiply[T, [32]float32](t, f, true, bias, 64, a, b, c, m, n, k)
}

//purecuda:kernel block=256 checks=off noalias arch=sm_80
func (GemmWith[T, F]) kernelTranspose(t *gpu.Thread, in, out []uint32, rows, cols, pitchIn, pitchOut int32, strideIn, strideOut int) {
	gemm.Turn(t, in, out, rows, cols, pitchIn, pitchOut, strideIn, strideOut)
}

//purecuda:kernel block=256 checks=off arch=sm_80
func (GemmWith[T, F]) kernelMerge(t *gpu.Thread, f F, bias, sums []float32, c []uint32, m, n, pitchC int32, strideC int, parts int32) {
	gemm.Add[T](t, f, true, bias, sums, c, m, n, pitchC, strideC, parts)
}

// Scratch is that of [Gemm.Scratch].
func (GemmWith[T, F]) Scratch(m, n, k int, shape GemmShape) int {
	return gemmScratch[T](m, n, k, shape)
}

// Launch computes f.Apply(sum, bias) for each sum of [Gemm.Launch]. bias has an element for each column of C; without one, nil, it is 0. It
// must not overlap C. All products of a batch have the same bias.
func (k GemmWith[T, F]) Launch(s *runtime.Stream, f F, a, b, c Matrix[T], bias *runtime.Ref[float32], shape ...GemmShape) error {
	if err := k.loaded("Gemm"); err != nil {
		return err
	}
	g, empty, err := gemmChecked(a, b, c, shape)
	if err != nil {
		return err
	} else if empty {
		return nothing(s)
	}
	values := []runtime.Arg{runtime.Struct(&f), runtime.Value(uint64(0)), runtime.Value(0)}
	if bias != nil {
		if bias.Len() != c.Cols {
			return invalidArgument("Gemm: the bias has %d elements, want one for each of the %d columns of C", bias.Len(), c.Cols)
		}
		if err := launch.Apart("Gemm", launch.Device("bias", bias, false), launch.Device("C", c.Ref, true), launch.Device("scratch", g.Scratch, true)); err != nil {
			return err
		}
		values[1], values[2] = slice(bias, false)
	}
	space, err := newGemmScratch(s, g, a, b, c)
	if err != nil {
		return err
	}
	defer space.close()
	err = gemmStraight(space, &g, &a, &b, func(shape runtime.Shape, args ...runtime.Arg) error { return k.k.Launch(k.first+4, s, shape, args...) })
	if err != nil {
		return err
	}
	if !k.k.Has(k.first+1) || g.together(c.Rows, c.Cols, a.Cols, k.k.Multiprocessors()) {
		return gemmAny(space, g, a, b, c, func(i int, shape runtime.Shape, args ...runtime.Arg) error {
			return k.k.Launch(k.first+5*i, s, shape, append(values, args...)...)
		})
	}
	return gemmEach(g, a, b, c, func(a, b, c Matrix[T]) error {
		width, shape, args, err := hopperArgs(k.k.Context(), a, b, c)
		if err != nil {
			return err
		}
		return k.k.Launch(k.first+1+width, s, shape, append(values, args[:]...)...)
	})
}

// GemmWithCPU is GemmWith on all cores, as [GemmCPU] is Gemm. bias has n elements, or none.
func GemmWithCPU[T gpu.Half, F Activation](f F, m, n, k int, a, b, c []T, bias []float32, shape ...GemmShape) error {
	if len(bias) != 0 && len(bias) != n {
		return invalidArgument("Gemm: the bias has %d elements, want one for each of the %d columns of C", len(bias), n)
	}
	if err := launch.Apart("Gemm", launch.Host("bias", bias, false), launch.Host("C", c, true)); err != nil {
		return err
	}
	return gemmCPU(m, n, k, a, b, c, shape, func(sum float32, col int) float32 { return f.Apply(sum, gemm.Bias(bias, int32(col))) })
}
