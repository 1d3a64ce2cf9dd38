package cuffttest

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cufft"
)

// kernels compute with complex128: what is stored is rounded once.
var kernels = map[cufft.Type]drivertest.KernelFunc{
	cufft.TypeC2C: complexToComplex[complex64](), cufft.TypeZ2Z: complexToComplex[complex128](),
	cufft.TypeR2C: realToComplex[float32, complex64](), cufft.TypeD2Z: realToComplex[float64, complex128](),
	cufft.TypeC2R: complexToReal[complex64, float32](), cufft.TypeZ2D: complexToReal[complex128, float64](),
}

type (
	realNumber    interface{ float32 | float64 }
	complexNumber interface{ complex64 | complex128 }
)

func fromComplex[C complexNumber](x C) complex128 { return complex128(x) }
func toComplex[C complexNumber](x complex128) C   { return C(x) }
func fromReal[R realNumber](x R) complex128       { return complex(float64(x), 0) }
func toReal[R realNumber](x complex128) R         { return R(real(x)) }

// complexToComplex transforms in one direction or the other.
func complexToComplex[C complexNumber]() drivertest.KernelFunc {
	return kernel(fromComplex[C], toComplex[C], func(c *launched, in, _ side, x []complex128) []complex128 {
		for dimension := 1; dimension <= 3; dimension++ {
			along(x, in.n, dimension, c.Direction == cufft.Inverse)
		}
		return x
	})
}

// realToComplex transforms all, and keeps the first half.
func realToComplex[R realNumber, C complexNumber]() drivertest.KernelFunc {
	return kernel(fromReal[R], toComplex[C], func(c *launched, in, out side, x []complex128) (half []complex128) {
		for dimension := 1; dimension <= 3; dimension++ {
			along(x, in.n, dimension, false)
		}
		for row := range slices.Chunk(x, int(c.N[c.Rank-1])) {
			half = append(half, row[:out.n[c.Rank]]...)
		}
		return half
	})
}

// complexToReal transforms along the last dimension at the end, where the other half is the conjugate of the first.
func complexToReal[C complexNumber, R realNumber]() drivertest.KernelFunc {
	return kernel(fromComplex[C], toReal[R], func(c *launched, in, out side, x []complex128) (all []complex128) {
		for dimension := 1; dimension < int(c.Rank); dimension++ {
			along(x, in.n, dimension, true)
		}
		n := int(c.N[c.Rank-1])
		for half := range slices.Chunk(x, n/2+1) {
			row := append(make([]complex128, 0, n), half...)
			row[0] = complex(real(row[0]), 0)
			if n%2 == 0 {
				row[n/2] = complex(real(row[n/2]), 0)
			}
			for i := len(row); i < n; i++ {
				row = append(row, cmplx.Conj(row[n-i]))
			}
			all = append(all, row...)
		}
		along(all, out.n, int(c.Rank), true)
		return all
	})
}

// along transforms numbers, by rows, along one dimension.
func along(x []complex128, n [4]int64, dimension int, inverse bool) {
	length, step := int(n[dimension]), 1
	for _, inner := range n[dimension+1:] {
		step *= int(inner)
	}
	if length == 1 {
		return
	}
	roots, line := make([]complex128, length), make([]complex128, length)
	for i := range roots {
		roots[i] = cmplx.Rect(1, -2*math.Pi*float64(i)/float64(length))
		if inverse {
			roots[i] = cmplx.Conj(roots[i])
		}
	}
	for first := range x {
		if first/step%length != 0 {
			continue
		}
		for i := range line {
			line[i] = x[first+i*step]
		}
		for i, v := range fft(line, roots) {
			x[first+i*step] = v
		}
	}
}

// fft transforms numbers of any length, with the roots of 1 of a multiple of that: it divides by the smallest factor.
func fft(x, roots []complex128) []complex128 {
	n, factor := len(x), 2
	if n == 1 {
		return x
	}
	for n%factor != 0 {
		factor++
	}
	parts := make([][]complex128, factor)
	for r := range parts {
		for i := r; i < n; i += factor {
			parts[r] = append(parts[r], x[i])
		}
		parts[r] = fft(parts[r], roots)
	}
	out := make([]complex128, n)
	for k := range out {
		for r, part := range parts {
			out[k] += part[k%len(part)] * roots[r*k%n*(len(roots)/n)]
		}
	}
	return out
}

// side is where numbers lie: how many there are in each direction, the batch first, and how far apart they are.
type side struct{ n, step [4]int64 }

// sides of a description. Above its rank there is 1 number.
func sides(d *cufft.Description) (in, out side) {
	of := func(embed [3]int64, stride, distance int64) side {
		o := side{n: [4]int64{d.Batch, 1, 1, 1}, step: [4]int64{distance}}
		step := stride
		for i := d.Rank; i > 0; i-- {
			o.n[i], o.step[i] = d.N[i-1], step
			step *= embed[i-1]
		}
		return o
	}
	in, out = of(d.InEmbed, d.InStride, d.InDistance), of(d.OutEmbed, d.OutStride, d.OutDistance)
	switch half := d.N[d.Rank-1]/2 + 1; d.Type {
	case cufft.TypeR2C, cufft.TypeD2Z:
		out.n[d.Rank] = half
	case cufft.TypeC2R, cufft.TypeZ2D:
		in.n[d.Rank] = half
	}
	return in, out
}

// span is how many elements it reaches over.
func (o side) span() uint64 {
	last := int64(0)
	for i, n := range o.n {
		last += (n - 1) * o.step[i]
	}
	return uint64(last + 1)
}

// each calls f with the element of each number, by rows.
func (o side) each(f func(i int, element int64)) {
	i := 0
	for b := range o.n[0] {
		for x := range o.n[1] {
			for y := range o.n[2] {
				for z := range o.n[3] {
					f(i, b*o.step[0]+x*o.step[1]+y*o.step[2]+z*o.step[3])
					i++
				}
			}
		}
	}
}

// count is how many numbers there are.
func (o side) count() int { return int(o.n[0] * o.n[1] * o.n[2] * o.n[3]) }

// kernel reads all numbers, transforms them, and writes.
func kernel[In, Out any](load func(In) complex128, store func(complex128) Out, transform func(c *launched, in, out side, x []complex128) []complex128) drivertest.KernelFunc {
	return func(k *drivertest.Launch) error {
		c := drivertest.Param[launched](k, 0)
		in, out := sides(&c.Description)
		from, endIn, err := elements[In](k, c.In, in, c.Type)
		if err != nil {
			return err
		}
		to, endOut, err := elements[Out](k, c.Out, out, c.Type)
		if err != nil {
			return err
		}
		if c.In != c.Out && c.In < endOut && c.Out < endIn {
			return fmt.Errorf("the output overlaps a part of the input: what %v computes then is undefined", c.Type)
		}
		workArea, err := drivertest.Slice[byte](k, c.WorkArea, needs(&c.Description))
		if err != nil {
			return err
		}
		for i := range workArea {
			workArea[i] = 0xff
		}
		x := make([]complex128, in.count())
		in.each(func(i int, element int64) {
			x[i] = load(from[element])
			if c.Type == cufft.TypeC2R || c.Type == cufft.TypeZ2D { // cuFFT may overwrite it
				nan(&from[element])
			}
		})
		x = transform(&c, in, out, x)
		out.each(func(i int, element int64) { to[element] = store(x[i]) })
		return nil
	}
}

// nan spoils a number: all bits of a float of any size.
func nan[T any](x *T) {
	for i, all := 0, unsafe.Slice((*byte)(unsafe.Pointer(x)), unsafe.Sizeof(*x)); i < len(all); i++ {
		all[i] = 0xff
	}
}

// elements are the memory of a side, and where it ends.
func elements[T any](k *drivertest.Launch, at driver.DevicePtr, o side, t cufft.Type) ([]T, driver.DevicePtr, error) {
	aligned := driver.DevicePtr(16)
	if t == cufft.TypeC2C || t == cufft.TypeR2C || t == cufft.TypeC2R {
		aligned = 8
	}
	if at%aligned != 0 {
		return nil, 0, fmt.Errorf("%#x is not a multiple of %d, the size of a complex number", uint64(at), aligned)
	}
	memory, err := drivertest.Slice[T](k, at, o.span())
	return memory, at + driver.DevicePtr(o.span()*uint64(unsafe.Sizeof(*new(T)))), err
}
