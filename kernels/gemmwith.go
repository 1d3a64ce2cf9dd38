//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"slices"

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

//purecuda:kernel block=128 checks=off noalias arch=sm_80
func (GemmWith[T, F]) kernelAny(t *gpu.Thread, f F, bias []float32, a, b []gpu.Uint4, c []uint32, m, n, k, pitchA, pitchB, pitchC int32, strideA, strideB, strideC int, sums [][2]float32, part int32) {
	gemm.Multiply[T](t, gemm.Activated[T, F]{By: f, Bias: bias}, a, b, c, m, n, k, pitchA, pitchB, pitchC, strideA, strideB, strideC, sums, part)
}

//purecuda:kernel block=384 registers=168 checks=off arch=sm_90a
func (GemmWith[T, F]) kernelWide(t *gpu.Thread, f F, bias []float32, a, b, c gpu.Tiles[T], of hopper.Size, sums [][2]float32) {
	hopper.Multiply[T, [128]float32](t, f, true, bias, 256, a, b, c, of, sums)
}

//purecuda:kernel block=384 registers=168 checks=off arch=sm_90a
func (GemmWith[T, F]) kernelMiddle(t *gpu.Thread, f F, bias []float32, a, b, c gpu.Tiles[T], of hopper.Size, sums [][2]float32) {
	hopper.Multiply[T, [64]float32](t, f, true, bias, 128, a, b, c, of, sums)
}

//purecuda:kernel block=384 registers=168 checks=off arch=sm_90a
func (GemmWith[T, F]) kernelNarrow(t *gpu.Thread, f F, bias []float32, a, b, c gpu.Tiles[T], of hopper.Size, sums [][2]float32) {
	hopper.Multiply[T, [32]float32](t, f, true, bias, 64, a, b, c, of, sums)
}

//purecuda:kernel block=256 checks=off noalias arch=sm_80
func (GemmWith[T, F]) kernelTranspose(t *gpu.Thread, in, out []uint32, rows, cols, pitchIn, pitchOut int32, strideIn, strideOut int) {
	gemm.Turn[T](t, in, out, rows, cols, pitchIn, pitchOut, strideIn, strideOut)
}

//purecuda:kernel block=256 checks=off arch=sm_80
func (GemmWith[T, F]) kernelMerge(t *gpu.Thread, f F, bias, sums []float32, c []uint32, m, n, pitchC int32, strideC int, parts int32, turned bool) {
	gemm.Add(t, gemm.Activated[T, F]{By: f, Bias: bias}, sums, c, m, n, pitchC, strideC, parts, turned)
}

// Scratch is that of [Gemm.Scratch].
func (k GemmWith[T, F]) Scratch(m, n, depth int, shape GemmShape) int {
	return gemmScratch[T](k.hopper(), m, n, depth, shape)
}

// Launch computes f.Apply(sum, bias) for each sum of [Gemm.Launch]. bias has an element for each column of C; without one, nil, it is 0. It
// must not overlap C. All products of a batch have the same bias.
func (k GemmWith[T, F]) Launch(s *runtime.Stream, f F, a, b, c Matrix[T], bias *runtime.Ref[float32], shape ...GemmShape) error {
	return gemmFinished(s, k.primitive, runtime.Struct(&f), a, b, c, bias, shape, func(g GemmShape, a, b Matrix[T], sums *runtime.Ref[float32]) (int, runtime.Shape, []runtime.Arg, error) {
		return hopperTiled(k.k.Context(), g, a, b, c, sums)
	})
}

// hopper reports whether the kernels of a product for compute capability 9.0 are loaded, behind that for 8.0.
func (k primitive) hopper() bool { return k.k.Has(k.first + 1) }

// gemmFinished launches kernels with a function on each sum: that for sm_80, or one of three for compute capability 9.0. tiled tells which of
// those, and its arguments behind the bias.
func gemmFinished[T gpu.Element, R gpu.Element | gpu.Sum](s *runtime.Stream, k primitive, f runtime.Arg, a, b Matrix[T], c Matrix[R], bias *runtime.Ref[float32], shape []GemmShape,
	tiled func(g GemmShape, a, b Matrix[T], sums *runtime.Ref[float32]) (width int, shape runtime.Shape, args []runtime.Arg, err error)) error {
	if err := k.loaded("Gemm"); err != nil {
		return err
	}
	g, empty, err := gemmChecked(a, b, c, shape)
	if err != nil {
		return err
	} else if empty {
		return nothing(s)
	}
	values := []runtime.Arg{f, runtime.Value(uint64(0)), runtime.Value(0)}
	if bias != nil {
		if bias.Len() != c.Cols {
			return invalidArgument("Gemm: the bias has %d elements, want one for each of the %d columns of C", bias.Len(), c.Cols)
		}
		if err := launch.Apart("Gemm", launch.Device("bias", bias, false), launch.Device("C", c.Ref, true), launch.Device("scratch", g.Scratch, true)); err != nil {
			return err
		}
		values[1], values[2] = slice(bias, false)
	}
	hopper := k.hopper()
	space, err := newGemmScratch(s, g, hopper, a, c)
	if err != nil {
		return err
	}
	defer space.close()
	err = gemmStraight(space, &g, hopper, &a, &b, func(shape runtime.Shape, args ...runtime.Arg) error {
		return k.k.Launch(k.first+4, s, shape, args...)
	})
	if err != nil {
		return err
	}
	return gemmInParts(space, g, hopper, a, c, func(sums *runtime.Ref[float32]) error {
		if !hopper {
			shape, args, err := gemmArgs(g, a, b, c, sums)
			if err != nil {
				return err
			}
			return k.k.Launch(k.first, s, shape, append(values, args...)...)
		}
		width, shape, args, err := tiled(g, a, b, sums)
		if err != nil {
			return err
		}
		return k.k.Launch(k.first+1+width, s, shape, append(values, args...)...)
	}, func(shape runtime.Shape, args ...runtime.Arg) error {
		return k.k.Launch(k.first+5, s, shape, append(values, args...)...)
	})
}

// GemmWithCPU is GemmWith on all cores, as [GemmCPU] is Gemm. bias has n elements, or none.
func GemmWithCPU[T gpu.Half, F Activation](f F, m, n, k int, a, b, c []T, bias []float32, shape ...GemmShape) error {
	return gemmFinishedCPU(m, n, k, a, b, c, bias, shape, func(sum, bias float32) T { return gpu.ToHalf[T](f.Apply(sum, bias)) })
}

func gemmFinishedCPU[T gpu.Element, S gpu.Sum, R any](m, n, k int, a, b []T, c []R, bias []float32, shape []GemmShape, apply func(sum S, bias float32) R) error {
	if len(bias) != 0 && len(bias) != n {
		return invalidArgument("Gemm: the bias has %d elements, want one for each of the %d columns of C", len(bias), n)
	}
	if err := launch.Apart("Gemm", launch.Host("bias", bias, false), launch.Host("C", c, true)); err != nil {
		return err
	}
	return gemmCPU(m, n, k, a, b, c, shape, func(sum S, col int) R { return apply(sum, gemm.Bias(bias).Of(int32(col))) })
}

// Finish makes an element of C of each sum, with the bias of its column, which may be a factor as well. It may have numbers in it.
type Finish[S gpu.Sum, R gpu.Element | gpu.Sum] interface {
	Apply(sum S, bias float32) R
}

// Factor is what [GemmTo] multiplies.
type Factor interface {
	int8 | uint8 | gpu.Float8E4M3 | gpu.Float8E5M2 | gpu.TF32 | gpu.Float16 | gpu.BFloat16
}

// GemmTo is [GemmWith] for more types. T is what A and B have. S is what products are added up in: int32 for int8 and uint8, and float32 for all others.
// F makes the elements of C, of type R, of the sums.
// A line //purecuda:instantiate kernels.GemmTo[int8, int32, gpu.BFloat16, Dequantize] makes one. It needs gpuc -arch sm_80, and sm_89 for Float8. It
// takes the tensor cores of compute capability 9.0 with -arch sm_80,sm_90a. There the products of 128 columns of Float8 have sums of their own, because
// tensor cores keep few bits of a sum. It is safe for concurrent use.
type GemmTo[T Factor, S gpu.Sum, R gpu.Element | gpu.Sum, F Finish[S, R]] struct{ primitive }

// Of is called by what gpuc writes.
func (GemmTo[T, S, R, F]) Of(k *launch.Kernels, first int) GemmTo[T, S, R, F] {
	return GemmTo[T, S, R, F]{primitive{k, first}}
}

//purecuda:kernel block=128 checks=off noalias arch=sm_80
func (GemmTo[T, S, R, F]) kernelAny(t *gpu.Thread, f F, bias []float32, a, b []gpu.Uint4, c [][2]R, m, n, k, pitchA, pitchB, pitchC int32, strideA, strideB, strideC int, sums [][2]S, part int32) {
	gemm.Multiply[T](t, gemm.Finished[S, R, F]{By: f, Bias: bias}, a, b, c, m, n, k, pitchA, pitchB, pitchC, strideA, strideB, strideC, sums, part)
}

//purecuda:kernel block=384 registers=168 checks=off noalias arch=sm_90a
func (GemmTo[T, S, R, F]) kernelWide(t *gpu.Thread, f F, bias []float32, a, b gpu.Tiles[T], c [][2]R, of hopper.Size, sums [][2]S) {
	if !hopper.Parted[T, S]() {
		hopper.MultiplyTo[T, S, [128]S](t, gemm.Finished[S, R, F]{By: f, Bias: bias}, 256, a, b, c, of, sums)
	}
}

//purecuda:kernel block=384 registers=168 checks=off noalias arch=sm_90a
func (GemmTo[T, S, R, F]) kernelMiddle(t *gpu.Thread, f F, bias []float32, a, b gpu.Tiles[T], c [][2]R, of hopper.Size, sums [][2]S) {
	hopper.MultiplyTo[T, S, [64]S](t, gemm.Finished[S, R, F]{By: f, Bias: bias}, 128, a, b, c, of, sums)
}

//purecuda:kernel block=384 registers=168 checks=off noalias arch=sm_90a
func (GemmTo[T, S, R, F]) kernelNarrow(t *gpu.Thread, f F, bias []float32, a, b gpu.Tiles[T], c [][2]R, of hopper.Size, sums [][2]S) {
	hopper.MultiplyTo[T, S, [32]S](t, gemm.Finished[S, R, F]{By: f, Bias: bias}, 64, a, b, c, of, sums)
}

//purecuda:kernel block=256 checks=off noalias arch=sm_80
func (GemmTo[T, S, R, F]) kernelTranspose(t *gpu.Thread, in, out []uint32, rows, cols, pitchIn, pitchOut int32, strideIn, strideOut int) {
	gemm.Turn[T](t, in, out, rows, cols, pitchIn, pitchOut, strideIn, strideOut)
}

//purecuda:kernel block=256 checks=off arch=sm_80
func (GemmTo[T, S, R, F]) kernelMerge(t *gpu.Thread, f F, bias []float32, sums []S, c [][2]R, m, n, pitchC int32, strideC int, parts int32, turned bool) {
	gemm.Add(t, gemm.Finished[S, R, F]{By: f, Bias: bias}, sums, c, m, n, pitchC, strideC, parts, turned)
}

// Scratch is that of [Gemm.Scratch].
func (k GemmTo[T, S, R, F]) Scratch(m, n, depth int, shape GemmShape) int {
	return gemmScratch[T](k.hopper(), m, n, depth, shape)
}

// Launch computes f.Apply(sum, bias) for each sum, as [GemmWith.Launch] does. Sums of integers are exact, and wrap around. Where the
// columns of C are no multiple of 8, the elements after each row, up to the next multiple, may change. C has memory for them behind its last row too.
func (k GemmTo[T, S, R, F]) Launch(s *runtime.Stream, f F, a, b Matrix[T], c Matrix[R], bias *runtime.Ref[float32], shape ...GemmShape) error {
	return gemmFinished(s, k.primitive, runtime.Struct(&f), a, b, c, bias, shape, func(g GemmShape, a, b Matrix[T], sums *runtime.Ref[float32]) (int, runtime.Shape, []runtime.Arg, error) {
		first := 0
		if hopper.Parted[T, S]() {
			first = 1
		}
		width, shape, args, err := hopperArgs(k.k.Context(), first, g, a, b, c, sums)
		return width, shape, slices.Insert(args, min(2, len(args)), runtime.InOut(c.Ref), runtime.Value(c.Ref.Len()/2)), err
	})
}

// GemmToCPU is GemmTo on all cores, as [GemmWithCPU] is GemmWith. It adds Float8 in the order of compute capability 8.9.
func GemmToCPU[T Factor, S gpu.Sum, R gpu.Element | gpu.Sum, F Finish[S, R]](f F, m, n, k int, a, b []T, c []R, bias []float32, shape ...GemmShape) error {
	var sums any = float32(0)
	switch any(*new(T)).(type) {
	case int8, uint8:
		sums = int32(0)
	}
	if _, ok := sums.(S); !ok {
		return invalidArgument("Gemm: products of %T are added up in %T, not %T", *new(T), sums, *new(S))
	}
	return gemmFinishedCPU(m, n, k, a, b, c, bias, shape, f.Apply)
}
