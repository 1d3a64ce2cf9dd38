package cufft_test

import (
	"context"
	"errors"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/internal/leaks"
	"github.com/purecuda/purecuda/libs/cufft"
	"github.com/purecuda/purecuda/libs/cufft/cuffttest"
	"github.com/purecuda/purecuda/runtime"
)

var bg = context.Background()

// TestMain fails when the tests leave goroutines behind.
func TestMain(m *testing.M) { leaks.Main(m, 0) }

// bench is what a test computes with.
type bench struct {
	testing.TB
	api cufft.API
	s   *runtime.Stream
	h   *cufft.Handle
}

// on opens a runtime and a handle.
func on(t testing.TB, gpu driver.API, api cufft.API) bench {
	t.Helper()
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	c, err := rt.Context(0)
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	b := bench{t, api, s, nil}
	b.h = b.handle(cufft.Options{})
	return b
}

// handle makes another handle on the stream.
func (b bench) handle(o cufft.Options) *cufft.Handle {
	b.Helper()
	h, err := cufft.New(b.api, b.s, o)
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, h.Close()) })
	return h
}

func config() drivertest.Config { return drivertest.Config{Kernels: cuffttest.Kernels()} }

// simulated opens a handle on the simulated library.
func simulated(t testing.TB) (bench, *drivertest.Driver, *cuffttest.Library) {
	gpu := drivertest.ForTest(t, config())
	lib := cuffttest.New(gpu)
	t.Cleanup(func() { assert.Zero(t, lib.Left(), "plans") })
	return on(t, gpu, lib), gpu, lib
}

// conform runs a test on the simulated library and on the real one.
func conform(t *testing.T, f func(t *testing.T, b bench)) {
	t.Run("simulated", func(t *testing.T) {
		b, _, _ := simulated(t)
		f(t, b)
	})
	t.Run("hardware", func(t *testing.T) {
		b, _ := onHardware(t)
		f(t, b)
	})
}

// onHardware opens a handle on the GPU and the library of this machine. Without them the test is skipped.
func onHardware(t testing.TB) (bench, *cufft.Library) {
	t.Helper()
	gpu := hardware.Open(t)
	lib, err := cufft.Open()
	if errors.Is(err, driver.ErrLibraryUnavailable) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return on(t, gpu, lib), lib
}

func upload[T any](b bench, host []T) *runtime.Ref[T] {
	b.Helper()
	ref, err := runtime.UploadNew(bg, b.s, host)
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, ref.Close()) })
	return ref
}

// numbers reads a Ref.
func numbers[T any](b bench, ref *runtime.Ref[T]) []T {
	b.Helper()
	got, err := runtime.DownloadNew(bg, b.s, ref)
	require.NoError(b, err)
	return got
}

type (
	realNumber    interface{ float32 | float64 }
	complexNumber interface{ complex64 | complex128 }
)

// kit are the functions of one precision.
type kit[R realNumber, C complexNumber] struct {
	c2c     func(h *cufft.Handle, d cufft.Direction, shape cufft.Shape, in, out *runtime.Ref[C]) error
	r2c     func(h *cufft.Handle, shape cufft.Shape, in *runtime.Ref[R], out *runtime.Ref[C]) error
	c2r     func(h *cufft.Handle, shape cufft.Shape, in *runtime.Ref[C], out *runtime.Ref[R]) error
	epsilon float64
}

var (
	single = kit[float32, complex64]{cufft.C2C, cufft.R2C, cufft.C2R, 0x1p-23}
	double = kit[float64, complex128]{cufft.Z2Z, cufft.D2Z, cufft.Z2D, 0x1p-52}
)

// tolerance is what a result may be wrong by: a few units of the last place of the length of all results of one transform, for each
// step of a fast transform. That length is largest for the numbers of a forward one without Scale.
func tolerance(epsilon float64, want []complex128) float64 {
	sum := 0.0
	for _, x := range want {
		sum += cmplx.Abs(x) * cmplx.Abs(x)
	}
	return 4 * epsilon * (2 + math.Log2(float64(len(want)))) * math.Sqrt(sum)
}

// place is where the numbers of one side lie, as the documentation of Layout says.
type place struct {
	lengths, embed          []int
	batch, stride, distance int
}

// placed is a Layout with all that it leaves out, for numbers of these lengths.
func placed(l cufft.Layout, batch int, lengths ...int) place {
	p := place{lengths, l.Embed, batch, max(l.Stride, 1), l.Distance}
	if p.embed == nil {
		p.embed = lengths
	}
	if p.distance == 0 {
		p.distance = p.stride
		for _, n := range p.embed {
			p.distance *= n
		}
	}
	return p
}

// count is how many numbers a transform has.
func (p place) count() int {
	n := 1
	for _, length := range p.lengths {
		n *= length
	}
	return n
}

// element is where number i of transform b lies.
func (p place) element(b, i int) int {
	at, step := 0, p.stride
	for d := len(p.lengths) - 1; d >= 0; d-- {
		at += i % p.lengths[d] * step
		i /= p.lengths[d]
		step *= p.embed[d]
	}
	return b*p.distance + at
}

// size is how many elements the memory needs.
func (p place) size() int { return p.element(p.batch-1, p.count()-1) + 1 }

// half is the lengths of the complex side of real numbers.
func half(n []int) []int {
	h := slices.Clone(n)
	h[len(h)-1] = h[len(h)-1]/2 + 1
	return h
}

// gap stands where no number lies.
const gap = 77

// scattered puts transforms where they lie, in memory with one element more.
func scattered[T any](p place, x [][]complex128, to func(complex128) T) []T {
	memory := make([]T, p.size()+1)
	for i := range memory {
		memory[i] = to(gap)
	}
	for b := range x {
		for i, v := range x[b] {
			memory[p.element(b, i)] = to(v)
		}
	}
	return memory
}

// gathered takes them out of there. What is not a number must be a gap.
func gathered[T any](b bench, p place, memory []T, from func(T) complex128) [][]complex128 {
	b.Helper()
	used := make([]bool, len(memory))
	x := make([][]complex128, p.batch)
	for t := range x {
		x[t] = make([]complex128, p.count())
		for i := range x[t] {
			at := p.element(t, i)
			x[t][i], used[at] = from(memory[at]), true
		}
	}
	for i, v := range memory {
		if !used[i] && from(v) != gap {
			b.Fatalf("element %d of the memory is %v: it belongs to no transform", i, v)
		}
	}
	return x
}

func toC[C complexNumber](x complex128) C   { return C(x) }
func fromC[C complexNumber](x C) complex128 { return complex128(x) }
func toR[R realNumber](x complex128) R      { return R(real(x)) }
func fromR[R realNumber](x R) complex128    { return complex(float64(x), 0) }

// near compares transforms.
func near(b bench, want, got [][]complex128, epsilon float64, what string) {
	b.Helper()
	require.Len(b, got, len(want), what)
	for t := range want {
		require.Len(b, got[t], len(want[t]), what)
		most := tolerance(epsilon, want[t])
		for i, w := range want[t] {
			if !(cmplx.Abs(w-got[t][i]) <= most) {
				b.Fatalf("%s: number %d of transform %d is %v: want %v within %v", what, i, t, got[t][i], w, most)
			}
		}
	}
}

// random are transforms of n numbers of size 1.
func random(r *rand.Rand, batch, n int, imaginary bool) [][]complex128 {
	x := make([][]complex128, batch)
	for b := range x {
		x[b] = make([]complex128, n)
		for i := range x[b] {
			x[b][i] = complex(float64(float32(2*r.Float64()-1)), 0)
			if imaginary {
				x[b][i] += complex(0, float64(float32(2*r.Float64()-1)))
			}
		}
	}
	return x
}

// dft is the discrete Fourier transform by its definition, along each dimension.
func dft(x []complex128, d cufft.Direction, lengths ...int) []complex128 {
	x = slices.Clone(x)
	step := 1
	for dimension := len(lengths) - 1; dimension >= 0; dimension-- {
		n := lengths[dimension]
		roots := make([]complex128, n)
		for k := range roots {
			roots[k] = cmplx.Rect(1, float64(d)*2*math.Pi*float64(k)/float64(n))
		}
		out := make([]complex128, len(x))
		for at := range x {
			k := at / step % n
			first := at - k*step
			for j := range n {
				out[at] += x[first+j*step] * roots[j*k%n]
			}
		}
		x = out
		step *= n
	}
	return x
}

// each applies f to each transform.
func each(x [][]complex128, f func(x []complex128) []complex128) [][]complex128 {
	out := make([][]complex128, len(x))
	for i := range x {
		out[i] = f(x[i])
	}
	return out
}

// firstHalf keeps the numbers that transforms of real numbers have.
func firstHalf(lengths []int) func(x []complex128) []complex128 {
	return func(x []complex128) (kept []complex128) {
		n := lengths[len(lengths)-1]
		for row := range slices.Chunk(x, n) {
			kept = append(kept, row[:n/2+1]...)
		}
		return kept
	}
}
