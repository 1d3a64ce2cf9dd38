package kernels

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/launch"
)

// The functions for the CPU have matrices without gaps, and add up in float64. A device differs from them as follows. u is 2^-20. r is 2^-24
// for float32, 2^-11 for Float16 and 2^-8 for BFloat16. y is the result, and M the largest |x| of its row divided by the root in the formula.
//
// Norms differ by (1 + M) * |weight| * u + |y| * r.
// Softmax differs by (1 + the largest |scale * x| of the row) * y * u + y * r.
//
// What is smaller than 2^-14 in Float16 has r * 2^-14 as its last step. What is smaller than 2^-126 in a softmax may be 0.

// LayerNormCPU is [LayerNorm.Launch] on all cores. add has as many elements as x, or none. weight and bias have an element for each column, or none.
func LayerNormCPU[T gpu.Float](rows, cols int, out, x, add, weight, bias []T, epsilon float32) error {
	return normCPU("LayerNorm", true, rows, cols, out, x, add, weight, bias, epsilon)
}

// RMSNormCPU is [RMSNorm.Launch] on all cores, as [LayerNormCPU] is [LayerNorm.Launch].
func RMSNormCPU[T gpu.Float](rows, cols int, out, x, add, weight []T, epsilon float32) error {
	return normCPU("RMSNorm", false, rows, cols, out, x, add, weight, nil, epsilon)
}

func normCPU[T gpu.Float](name string, center bool, rows, cols int, out, x, add, weight, bias []T, epsilon float32) error {
	if err := checkEpsilon(name, epsilon); err != nil {
		return err
	}
	if err := rowsOnCPU(name, rows, cols, out, x); err != nil {
		return err
	}
	if len(add) != 0 && len(add) != len(x) || len(weight) != 0 && len(weight) != cols || len(bias) != 0 && len(bias) != cols {
		return invalidArgument("%s: %d elements are added, and there are %d of weight and %d of bias: want %d, and %d of the others, or none", name, len(add), len(weight), len(bias), len(x), cols)
	}
	for _, written := range []struct {
		name string
		is   bool
		x    []T
	}{{"the result", true, out}, {"the input", len(add) > 0, x}} {
		if err := launch.Apart(name, launch.Host("the weight", weight, false), launch.Host("the bias", bias, false), launch.Host(written.name, written.x, written.is)); err != nil {
			return err
		}
		if err := inPlaceOnCPU(name, "what is added", add, written.name, written.x); err != nil {
			return err
		}
	}
	return eachRow(rows, func(row int) {
		from, to := x[row*cols:][:cols], out[row*cols:][:cols]
		if len(add) > 0 {
			for i, a := range add[row*cols:][:cols] {
				from[i] = gpu.ToFloat[T](gpu.Float32(from[i]) + gpu.Float32(a))
			}
		}
		mean, squares := 0.0, 0.0
		if center {
			for _, v := range from {
				mean += float64(gpu.Float32(v))
			}
			mean /= float64(cols)
		}
		for _, v := range from {
			d := float64(gpu.Float32(v)) - mean
			squares += d * d
		}
		scale := 1 / math.Sqrt(squares/float64(cols)+float64(epsilon))
		for i, v := range from {
			y := (float64(gpu.Float32(v)) - mean) * scale
			if len(weight) > 0 {
				y *= float64(gpu.Float32(weight[i]))
			}
			if len(bias) > 0 {
				y += float64(gpu.Float32(bias[i]))
			}
			to[i] = gpu.ToFloat[T](float32(y))
		}
	})
}

// SoftmaxCPU is [Softmax.Launch] on all cores.
func SoftmaxCPU[T gpu.Float](rows, cols int, out, x []T, scale float32, causal bool) error {
	if err := checkSoftmax(rows, cols, scale, causal); err != nil {
		return err
	}
	if err := rowsOnCPU("Softmax", rows, cols, out, x); err != nil {
		return err
	}
	return eachRow(rows, func(row int) {
		from, to := x[row*cols:][:cols], out[row*cols:][:cols]
		seen := cols
		if causal {
			seen = cols - rows + row + 1
		}
		most, sum := math.Inf(-1), 0.0
		scaled := func(i int) float64 { return float64(scale) * float64(gpu.Float32(from[i])) }
		for i := range seen {
			most = max(most, scaled(i))
		}
		for i := range seen {
			sum += math.Exp(scaled(i) - most)
		}
		for i := range to {
			y := 0.0
			if i < seen {
				y = math.Exp(scaled(i)-most) / sum
			}
			to[i] = gpu.ToFloat[T](float32(y))
		}
	})
}

// eachRow calls f for each row, on all cores.
func eachRow(rows int, f func(row int)) error {
	return gpu.Run(gpu.Shape1D(rows, 1), func(t *gpu.Thread) { f(t.GlobalX()) })
}

func rowsOnCPU[T any](name string, rows, cols int, out, x []T) error {
	if min(rows, cols) < 0 || max(rows, cols) > maxGemm || uint64(rows)*uint64(cols) != uint64(len(x)) || len(out) != len(x) {
		return invalidArgument("%s: the input has %d elements and the result %d, want %d x %d", name, len(x), len(out), rows, cols)
	}
	return inPlaceOnCPU(name, "the input", x, "the result", out)
}

// inPlaceOnCPU looks whether memory is apart from that of a slice that is written, or the same.
func inPlaceOnCPU[T any](name, of string, x []T, written string, out []T) error {
	if len(x) > 0 && len(x) == len(out) && &x[0] == &out[0] {
		return nil
	}
	return launch.Apart(name, launch.Host(of, x, false), launch.Host(written, out, true))
}

func checkEpsilon(name string, epsilon float32) error {
	if !(epsilon >= 0 && epsilon <= math.MaxFloat32) {
		return invalidArgument("%s: epsilon is %v, want 0 or more", name, epsilon)
	}
	return nil
}

func checkSoftmax(rows, cols int, scale float32, causal bool) error {
	switch {
	case !(math.Abs(float64(scale)) <= math.MaxFloat32):
		return invalidArgument("Softmax: the scale is %v, want a number", scale)
	case causal && cols < rows:
		return invalidArgument("Softmax: a causal matrix has %d columns, fewer than its %d rows: the first would see none", cols, rows)
	}
	return nil
}
