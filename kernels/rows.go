//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// LayerNorm gives each row of a matrix a mean of 0 and a variance of 1, on a device. It computes in float32, and reads a row of up to 16,384
// columns once. A line makes one for a type, which is float32, gpu.Float16 or gpu.BFloat16:
//
//	//purecuda:instantiate kernels.LayerNorm[gpu.BFloat16]
//
// The squares of x - mean in a row add up in float32. So numbers are up to 1e17 in rows of 16,384 columns, and four times that in rows of a
// sixteenth. Beyond, results are 0 or NaN. Where the numbers of a row are far from 0 and near to each other, digits are lost. Results
// are off by up to 2^-20 of 1 + the largest |x| / root(variance). So 16777216 beside 16777218 gives nothing of use: take their offset off before.
//
// The order of the sums depends on the number of columns alone, so the bits are the same in each run, on every device. [LayerNormCPU] does it
// on the CPU. LayerNorm is safe for concurrent use, each goroutine with a stream of its own. A stream may be captured.
type LayerNorm[T gpu.Float] struct{ primitive }

// Of is called by what gpuc writes.
func (LayerNorm[T]) Of(k *launch.Kernels, first int) LayerNorm[T] {
	return LayerNorm[T]{primitive{k, first}}
}

//purecuda:kernel checks=off registers=56
func (LayerNorm[T]) kernelNorm(t *gpu.Thread, out, x, add, weight, bias []T, cols, pitchOut, pitch, pitchAdd int, epsilon float32) {
	tiles.Norm(t, true, out, x, add, weight, bias, cols, pitchOut, pitch, pitchAdd, epsilon)
}

// Launch sets each row of out to (x - mean) / root(variance + epsilon) * weight + bias. Weight and bias have an element for each column
// and begin at a multiple of 16 bytes. nil leaves one out. If add has memory, x becomes x + add before, rounded to T. out may be x, and add may be out.
func (k LayerNorm[T]) Launch(s *runtime.Stream, out, x, add Matrix[T], weight, bias *runtime.Ref[T], epsilon float32) error {
	return launchNorm("LayerNorm", k.primitive, s, out, x, add, []*runtime.Ref[T]{weight, bias}, epsilon)
}

// RMSNorm divides each row of a matrix by the root of the mean of its squares, on a device. //purecuda:instantiate kernels.RMSNorm[gpu.BFloat16]
// makes one for a type. It is as [LayerNorm] else, also in how large numbers are, and [RMSNormCPU] does it on the CPU.
type RMSNorm[T gpu.Float] struct{ primitive }

// Of is called by what gpuc writes.
func (RMSNorm[T]) Of(k *launch.Kernels, first int) RMSNorm[T] { return RMSNorm[T]{primitive{k, first}} }

//purecuda:kernel checks=off registers=48
func (RMSNorm[T]) kernelNorm(t *gpu.Thread, out, x, add, weight []T, cols, pitchOut, pitch, pitchAdd int, epsilon float32) {
	tiles.Norm(t, false, out, x, add, weight, nil, cols, pitchOut, pitch, pitchAdd, epsilon)
}

// Launch sets each row of out to x / root(mean of squares + epsilon) * weight. It is as [LayerNorm.Launch] else.
func (k RMSNorm[T]) Launch(s *runtime.Stream, out, x, add Matrix[T], weight *runtime.Ref[T], epsilon float32) error {
	return launchNorm("RMSNorm", k.primitive, s, out, x, add, []*runtime.Ref[T]{weight}, epsilon)
}

// launchNorm is Launch of both. Each of columns has an element for each column, or is nil.
func launchNorm[T gpu.Float](name string, k primitive, s *runtime.Stream, out, x, add Matrix[T], columns []*runtime.Ref[T], epsilon float32) error {
	if err := k.loaded(name); err != nil {
		return err
	}
	if err := checkEpsilon(name, epsilon); err != nil {
		return err
	}
	adds := add.Ref != nil
	if empty, err := rowsChecked(name, out, x, adds); err != nil {
		return err
	} else if empty {
		return nothing(s)
	}
	if adds {
		if err := sameShape(name, "what is added", add, x); err != nil {
			return err
		}
		if err := add.check(name, "what is added", 0); err != nil {
			return err
		}
		if err := inPlace(name, "what is added", add, "the result", out); err != nil {
			return err
		}
		if err := inPlace(name, "what is added", add, "the input", x); err != nil {
			return err
		}
	}
	args := launchArgs{}
	sliceOf(&args, out.Ref, true)
	sliceOf(&args, x.Ref, adds)
	sliceOf(&args, add.Ref, false)
	for i, v := range columns {
		if v != nil {
			of := [...]string{"the weight", "the bias"}[i]
			if v.Len() != x.Cols {
				return invalidArgument("%s: %s has %d elements, want one for each of the %d columns", name, of, v.Len(), x.Cols)
			}
			if _, err := v.Access(); err != nil {
				return err
			}
			if !aligned(v) {
				return invalidArgument("%s: %s begins at no multiple of 16 bytes", name, of)
			}
			if err := launch.Apart(name, launch.Device(of, v, false), launch.Device("the result", out.Ref, true)); err != nil {
				return err
			}
			if adds {
				if err := launch.Apart(name, launch.Device(of, v, false), launch.Device("the input", x.Ref, true)); err != nil {
					return err
				}
			}
		}
		sliceOf(&args, v, false)
	}
	args = append(args, runtime.Value(x.Cols), runtime.Value(out.Pitch), runtime.Value(x.Pitch), runtime.Value(add.Pitch), runtime.Value(epsilon))
	return launchRows(k, s, x, args)
}

// Softmax makes each row of a matrix positive, with a sum of 1, on a device. //purecuda:instantiate kernels.Softmax[gpu.BFloat16] makes one for
// a type. It is as [LayerNorm] else, and [SoftmaxCPU] does it on the CPU.
type Softmax[T gpu.Float] struct{ primitive }

// Of is called by what gpuc writes.
func (Softmax[T]) Of(k *launch.Kernels, first int) Softmax[T] { return Softmax[T]{primitive{k, first}} }

//purecuda:kernel checks=off registers=48
func (Softmax[T]) kernelSoftmax(t *gpu.Thread, out, x []T, rows, cols, pitchOut, pitch int, scale float32, causal bool) {
	tiles.Softmax(t, out, x, rows, cols, pitchOut, pitch, scale, causal)
}

// Launch sets each row of out to exp(scale * x), divided by the sum of those in the row. If causal is set, a matrix of scores hides what comes
// later. Row i has the columns up to i, and as many more as there are more columns than rows. The others become 0. out may be x.
func (k Softmax[T]) Launch(s *runtime.Stream, out, x Matrix[T], scale float32, causal bool) error {
	if err := k.loaded("Softmax"); err != nil {
		return err
	}
	if err := checkSoftmax(x.Rows, x.Cols, scale, causal); err != nil {
		return err
	}
	if empty, err := rowsChecked("Softmax", out, x, false); err != nil {
		return err
	} else if empty {
		return nothing(s)
	}
	args := launchArgs{}
	sliceOf(&args, out.Ref, true)
	sliceOf(&args, x.Ref, false)
	args = append(args, runtime.Value(x.Rows), runtime.Value(x.Cols), runtime.Value(out.Pitch), runtime.Value(x.Pitch), runtime.Value(min(max(scale*math.Log2E, -math.MaxFloat32), math.MaxFloat32)), launch.Bool(causal))
	return launchRows(k.primitive, s, x, args)
}

// launchArgs are arguments of a kernel.
type launchArgs []runtime.Arg

// sliceOf adds a slice. Of nil it is empty.
func sliceOf[T any](args *launchArgs, r *runtime.Ref[T], written bool) {
	if r == nil {
		*args = append(*args, runtime.Value(uint64(0)), runtime.Value(0))
		return
	}
	memory, length := slice(r, written)
	*args = append(*args, memory, length)
}

// launchRows gives each row of x a block.
func launchRows[T gpu.Float](k primitive, s *runtime.Stream, x Matrix[T], args launchArgs) error {
	return k.launch(0, s, x.Rows, tiles.RowThreads(x.Cols), 0, args...)
}

// rowsChecked looks at the matrices of a kernel by rows, and whether the result is empty.
func rowsChecked[T gpu.Float](name string, out, x Matrix[T], written bool) (empty bool, err error) {
	if err := sameShape(name, "the result", out, x); err != nil {
		return false, err
	}
	if x.Rows == 0 || x.Cols == 0 {
		return true, nil
	}
	if err := out.check(name, "the result", 0); err != nil {
		return false, err
	}
	if err := x.check(name, "the input", 0); err != nil {
		return false, err
	}
	return false, inPlace(name, "the input", x, "the result", out)
}

// inPlace looks whether a matrix is apart from one that is written, or the same.
func inPlace[T gpu.Float](name, of string, m Matrix[T], written string, out Matrix[T]) error {
	a, errA := m.Ref.Access()
	b, errB := out.Ref.Access()
	if errA != nil || errB != nil || a != b {
		return launch.Apart(name, launch.Device(of, m.Ref, false), launch.Device(written, out.Ref, true))
	}
	if m.Pitch != out.Pitch {
		return invalidArgument("%s: %s is where %s is, with a pitch of %d, and not %d", name, of, written, m.Pitch, out.Pitch)
	}
	return nil
}

// sameShape says that a matrix has another shape than the input.
func sameShape[T gpu.Float](name, of string, m, x Matrix[T]) error {
	if m.Rows != x.Rows || m.Cols != x.Cols || min(x.Rows, x.Cols) < 0 || max(x.Rows, x.Cols) > maxGemm {
		return invalidArgument("%s: %s is %d x %d, and the input %d x %d: want as many, from 0 to %d", name, of, m.Rows, m.Cols, x.Rows, x.Cols, maxGemm)
	}
	return nil
}
