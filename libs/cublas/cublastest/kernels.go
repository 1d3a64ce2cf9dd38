package cublastest

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/internal/overlap"
)

// kernel is a Go function with the size of its one parameter.
type kernel struct {
	bytes uintptr
	run   drivertest.KernelFunc
}

func of[C any](f func(k *drivertest.Launch, c *C) error) kernel {
	var c C
	return kernel{unsafe.Sizeof(c), func(k *drivertest.Launch) error {
		c := drivertest.Param[C](k, 0)
		return f(k, &c)
	}}
}

var kernels = map[string]kernel{
	"Gemm": of(gemm), "Gemv": of(gemv), "Axpy": of(axpy), "Dot": of(dot), "Nrm2": of(nrm2), "Scal": of(scal),
	"Syrk": of(syrk), "Trsm": of(trsm), "Matmul": of(matmul),
}

// cpu computes all, in float64: what is stored is rounded once.
var cpu gonum.Implementation

// array is device memory as float64. A matrix by columns is one by rows of the transposed.
type array struct {
	values []float64
	store  func()
	memory overlap.Box
}

// apart is an error if the result a lies in what is read.
func (a array) apart(read ...array) error {
	for _, b := range read {
		if err := overlap.Of(a.memory, b.memory); err != nil {
			return errors.New("the result overlaps an operand: what cuBLAS computes then is undefined")
		}
	}
	return nil
}

// sizes are the bytes of elements.
var sizes = map[cublas.DataType]int64{cublas.TypeFloat32: 4, cublas.TypeFloat64: 8, cublas.TypeFloat16: 2, cublas.TypeBFloat16: 2,
	cublas.TypeE4M3: 1, cublas.TypeE5M2: 1}

// read reads n elements of a type.
func read(k *drivertest.Launch, t cublas.DataType, at driver.DevicePtr, n int64) (array, error) {
	a, err := convert(k, t, at, n)
	a.memory = overlap.Box{At: at, Bytes: n * sizes[t]}
	return a, err
}

func convert(k *drivertest.Launch, t cublas.DataType, at driver.DevicePtr, n int64) (array, error) {
	switch t {
	case cublas.TypeFloat64:
		memory, err := drivertest.Slice[float64](k, at, uint64(n))
		return array{values: append([]float64(nil), memory...)}.storedIn(func(values []float64) { copy(memory, values) }), err
	case cublas.TypeFloat32:
		return converted(k, at, n, func(x float32) float64 { return float64(x) }, func(x float64) float32 { return float32(x) })
	case cublas.TypeFloat16:
		return converted(k, at, n, func(x uint16) float64 { return float64(gpu.Float16FromBits(x).Float32()) },
			func(x float64) uint16 { return gpu.ToFloat16(float32(x)).Bits() })
	case cublas.TypeBFloat16:
		return converted(k, at, n, func(x uint16) float64 { return float64(gpu.BFloat16FromBits(x).Float32()) },
			func(x float64) uint16 { return gpu.ToBFloat16(float32(x)).Bits() })
	case cublas.TypeE4M3:
		return converted(k, at, n, func(x cublas.Float8E4M3) float64 { return float64(x.Float32()) },
			func(x float64) cublas.Float8E4M3 { return cublas.ToFloat8E4M3(float32(x)) })
	case cublas.TypeE5M2:
		return converted(k, at, n, func(x cublas.Float8E5M2) float64 { return float64(x.Float32()) },
			func(x float64) cublas.Float8E5M2 { return cublas.ToFloat8E5M2(float32(x)) })
	}
	return array{}, fmt.Errorf("elements of type %d", t)
}

func converted[T any](k *drivertest.Launch, at driver.DevicePtr, n int64, get func(T) float64, put func(float64) T) (array, error) {
	memory, err := drivertest.Slice[T](k, at, uint64(n))
	values := make([]float64, len(memory))
	for i, x := range memory {
		values[i] = get(x)
	}
	return array{values: values}.storedIn(func(values []float64) {
		for i, x := range values {
			if y := put(x); get(memory[i]) != x { // what was not changed is not written
				memory[i] = y
			}
		}
	}), err
}

func (a array) storedIn(f func([]float64)) array {
	a.store = func() { f(a.values) }
	return a
}

// matrix reads a matrix of so many rows and columns, by columns, before the operation.
func matrix(k *drivertest.Launch, o cublas.Operand, op cublas.Operation, rows, cols int32) (array, error) {
	if op == cublas.Transpose {
		rows, cols = cols, rows
	}
	if rows == 0 || cols == 0 {
		// Nothing is read. gonum wants the gaps between the rows all the same.
		return array{values: make([]float64, max(cols-1, 0)*o.LD+rows)}.storedIn(func([]float64) {}), nil
	}
	a, err := read(k, o.Type, o.At, int64(cols-1)*int64(o.LD)+int64(rows))
	a.memory.Bytes = int64(rows) * sizes[o.Type]
	a.memory.Levels[0] = overlap.Level{N: int64(cols), Step: int64(o.LD) * sizes[o.Type]}
	return a, err
}

func vector(k *drivertest.Launch, v cublas.VectorOperand, n int32) (array, error) {
	return read(k, v.Type, v.At, int64(n-1)*int64(v.Inc)+1)
}

// transposes are the operations by rows: memory by columns is transposed already, and the product is as well.
var transposes = map[cublas.Operation]blas.Transpose{cublas.NoTranspose: blas.NoTrans, cublas.Transpose: blas.Trans}

var (
	fills = map[cublas.Fill]blas.Uplo{cublas.Lower: blas.Upper, cublas.Upper: blas.Lower}
	sides = map[cublas.Side]blas.Side{cublas.Left: blas.Right, cublas.Right: blas.Left}
	diags = map[cublas.Diag]blas.Diag{cublas.NonUnit: blas.NonUnit, cublas.Unit: blas.Unit}
)

func gemm(k *drivertest.Launch, c *cublas.GemmCall) error {
	for i := range int64(c.Batch) {
		one := *c
		for _, o := range []*cublas.Operand{&one.A, &one.B, &one.C} {
			if !c.Pointers {
				o.At += driver.DevicePtr(i * o.Stride * sizes[o.Type])
				continue
			}
			pointers, err := drivertest.Slice[driver.DevicePtr](k, o.At, uint64(c.Batch))
			if err != nil {
				return err
			}
			o.At = pointers[i]
		}
		if err := multiply(k, &one, nil); err != nil {
			return err
		}
	}
	return nil
}

// multiply computes one product, and what follows it.
func multiply(k *drivertest.Launch, c *cublas.GemmCall, after func(values []float64)) error {
	a, err := matrix(k, c.A, c.TransA, c.M, c.K)
	if err != nil {
		return err
	}
	b, err := matrix(k, c.B, c.TransB, c.K, c.N)
	if err != nil {
		return err
	}
	d, err := matrix(k, c.C, cublas.NoTranspose, c.M, c.N)
	if err != nil {
		return err
	}
	if err := d.apart(a, b); err != nil {
		return err
	}
	if c.Compute == cublas.ComputeTF32 {
		roundTF32(a.values)
		roundTF32(b.values)
	}
	cpu.Dgemm(transposes[c.TransB], transposes[c.TransA], int(c.N), int(c.M), int(c.K), c.Alpha, b.values, int(c.B.LD), a.values, int(c.A.LD), c.Beta, d.values, int(c.C.LD))
	if after != nil {
		after(d.values)
	}
	d.store()
	return nil
}

// roundTF32 rounds to 10 bits of fraction.
func roundTF32(values []float64) {
	for i, v := range values {
		values[i] = float64(math.Float32frombits((math.Float32bits(float32(v)) + 1<<12) &^ (1<<13 - 1)))
	}
}

func gemv(k *drivertest.Launch, c *cublas.GemvCall) error {
	nx, ny := c.N, c.M
	if c.Trans == cublas.Transpose {
		nx, ny = ny, nx
	}
	a, err := matrix(k, c.A, cublas.NoTranspose, c.M, c.N)
	if err != nil {
		return err
	}
	x, err := vector(k, c.X, nx)
	if err != nil {
		return err
	}
	y, err := vector(k, c.Y, ny)
	if err != nil {
		return err
	}
	cpu.Dgemv(transposes[1-c.Trans], int(c.N), int(c.M), c.Alpha, a.values, int(c.A.LD), x.values, int(c.X.Inc), c.Beta, y.values, int(c.Y.Inc))
	y.store()
	return nil
}

func axpy(k *drivertest.Launch, c *cublas.VectorCall) error {
	x, err := vector(k, c.X, c.N)
	if err != nil {
		return err
	}
	y, err := vector(k, c.Y, c.N)
	if err != nil {
		return err
	}
	cpu.Daxpy(int(c.N), c.Alpha, x.values, int(c.X.Inc), y.values, int(c.Y.Inc))
	y.store()
	return nil
}

func scal(k *drivertest.Launch, c *cublas.VectorCall) error {
	x, err := vector(k, c.X, c.N)
	if err != nil {
		return err
	}
	cpu.Dscal(int(c.N), c.Alpha, x.values, int(c.X.Inc))
	x.store()
	return nil
}

func dot(k *drivertest.Launch, c *cublas.VectorCall) error {
	y, err := vector(k, c.Y, c.N)
	if err != nil {
		return err
	}
	return reduce(k, c, func(x []float64) float64 { return cpu.Ddot(int(c.N), x, int(c.X.Inc), y.values, int(c.Y.Inc)) })
}

func nrm2(k *drivertest.Launch, c *cublas.VectorCall) error {
	return reduce(k, c, func(x []float64) float64 { return cpu.Dnrm2(int(c.N), x, int(c.X.Inc)) })
}

func reduce(k *drivertest.Launch, c *cublas.VectorCall, f func(x []float64) float64) error {
	x, err := vector(k, c.X, c.N)
	if err != nil {
		return err
	}
	result, err := read(k, c.X.Type, c.Result, 1)
	if err != nil {
		return err
	}
	result.values[0] = f(x.values)
	result.store()
	return nil
}

func syrk(k *drivertest.Launch, c *cublas.SyrkCall) error {
	a, err := matrix(k, c.A, c.Trans, c.N, c.K)
	if err != nil {
		return err
	}
	d, err := matrix(k, c.C, cublas.NoTranspose, c.N, c.N)
	if err != nil {
		return err
	}
	if err := d.apart(a); err != nil {
		return err
	}
	cpu.Dsyrk(fills[c.Fill], transposes[1-c.Trans], int(c.N), int(c.K), c.Alpha, a.values, int(c.A.LD), c.Beta, d.values, int(c.C.LD))
	d.store()
	return nil
}

func trsm(k *drivertest.Launch, c *cublas.TrsmCall) error {
	n := c.M
	if c.Side == cublas.Right {
		n = c.N
	}
	a, err := matrix(k, c.A, cublas.NoTranspose, n, n)
	if err != nil {
		return err
	}
	b, err := matrix(k, c.B, cublas.NoTranspose, c.M, c.N)
	if err != nil {
		return err
	}
	if err := b.apart(a); err != nil {
		return err
	}
	cpu.Dtrsm(sides[c.Side], fills[c.Fill], transposes[c.Trans], diags[c.Diag], int(c.N), int(c.M), c.Alpha, a.values, int(c.A.LD), b.values, int(c.B.LD))
	b.store()
	return nil
}

func matmul(k *drivertest.Launch, c *matmulCall) error {
	s, v := &c.shape, &c.call
	one := cublas.GemmCall{TransA: s.TransA, TransB: s.TransB, M: s.M, N: s.N, K: s.K, Alpha: v.Alpha, Beta: v.Beta, A: s.A, B: s.B, C: s.D, Compute: s.Compute}
	one.A.At, one.B.At, one.C.At = v.A, v.B, v.D
	for _, at := range []driver.DevicePtr{v.ScaleA, v.ScaleB} {
		if at == 0 {
			continue
		}
		scale, err := read(k, cublas.TypeFloat32, at, 1)
		if err != nil {
			return err
		}
		one.Alpha *= scale.values[0]
	}
	bias := make([]float64, s.M)
	if v.Bias != 0 {
		stored, err := read(k, s.D.Type, v.Bias, int64(s.M))
		if err != nil {
			return err
		}
		bias = stored.values
	}
	return multiply(k, &one, func(values []float64) {
		for col := range int(s.N) {
			column := values[col*int(s.D.LD):][:s.M]
			for i, x := range column {
				column[i] = activated(s.Epilogue, x+bias[i])
			}
		}
	})
}

func activated(e cublas.Epilogue, x float64) float64 {
	switch {
	case e&cublas.EpilogueReLU != 0:
		return max(x, 0)
	case e&cublas.EpilogueGELU != 0:
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	return x
}
