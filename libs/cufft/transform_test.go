package cufft_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/libs/cufft"
	"github.com/purecuda/purecuda/runtime"
)

func generator(seed, of uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, of)) }

// Random shapes and layouts are what the definition says, in both directions, and back again.
func TestTransforms(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		seeds.Each(t, 40, func(t *testing.T, seed uint64) {
			b := bench{t, b.api, b.s, b.h}
			r := generator(seed, 1)
			n := randomLengths(r)
			single.all(b, r, n, 1+r.IntN(4))
			double.all(b, r, n, 1+r.IntN(4))
		})
	})
}

// randomLengths are one to three dimensions, of a few hundred numbers at most.
func randomLengths(r *rand.Rand) []int {
	switch r.IntN(3) {
	case 0:
		return []int{1 + r.IntN(400)}
	case 1:
		return []int{1 + r.IntN(20), 1 + r.IntN(20)}
	}
	return []int{1 + r.IntN(7), 1 + r.IntN(7), 1 + r.IntN(9)}
}

// randomLayout is one in which numbers of these lengths have places of their own.
func randomLayout(r *rand.Rand, batch int, lengths []int) cufft.Layout {
	if r.IntN(3) == 0 {
		return cufft.Layout{}
	}
	if r.IntN(4) == 0 { // one number of each transform after the other
		return cufft.Layout{Stride: batch, Distance: 1}
	}
	l := cufft.Layout{Stride: r.IntN(4)}
	if r.IntN(2) == 0 {
		for _, n := range lengths {
			l.Embed = append(l.Embed, n+r.IntN(3))
		}
	}
	if r.IntN(2) == 0 {
		p := placed(l, 1, lengths...)
		l.Distance = p.distance + r.IntN(5)
	}
	return l
}

// all tries all transforms of a shape.
func (k kit[R, C]) all(b bench, r *rand.Rand, n []int, batch int) {
	k.complexNumbers(b, r, n, batch)
	k.inPlace(b, r, n, batch)
	k.realNumbers(b, r, n, batch)
	k.realInPlace(b, r, n, batch)
}

// complexNumbers transforms there and back.
func (k kit[R, C]) complexNumbers(b bench, r *rand.Rand, n []int, batch int) {
	b.Helper()
	d := []cufft.Direction{cufft.Forward, cufft.Inverse}[r.IntN(2)]
	shape := cufft.Shape{N: n, Batch: batch, In: randomLayout(r, batch, n), Out: randomLayout(r, batch, n)}
	what := fmt.Sprintf("%+v in direction %d", shape, d)
	from, to := placed(shape.In, batch, n...), placed(shape.Out, batch, n...)
	x := random(r, batch, from.count(), true)
	want := each(x, func(x []complex128) []complex128 { return dft(x, d, n...) })
	memory := scattered(from, x, toC[C])
	in, out := upload(b, memory), upload(b, scattered(to, nil, toC[C]))
	require.NoError(b, k.c2c(b.h, d, shape, in, out), what)
	got := gathered(b, to, numbers(b, out), fromC[C])
	near(b, want, got, k.epsilon, what)
	assert.Equal(b, memory, numbers(b, in), "the input is as it was")

	// Parseval: the squares have n times the sum.
	for i := range x {
		assert.InEpsilon(b, float64(from.count())*squares(x[i]), squares(got[i]), 100*k.epsilon, what)
	}

	shape.In, shape.Out, shape.Scale = shape.Out, shape.In, true
	require.NoError(b, k.c2c(b.h, -d, shape, out, in), what)
	near(b, x, gathered(b, from, numbers(b, in), fromC[C]), 2*k.epsilon, "back from "+what)
}

func squares(x []complex128) (sum float64) {
	for _, v := range x {
		sum += real(v)*real(v) + imag(v)*imag(v)
	}
	return sum
}

// inPlace transforms in the same memory.
func (k kit[R, C]) inPlace(b bench, r *rand.Rand, n []int, batch int) {
	b.Helper()
	layout := randomLayout(r, batch, n)
	shape := cufft.Shape{N: n, Batch: batch, In: layout, Out: layout}
	what := fmt.Sprintf("%+v in place", shape)
	p := placed(layout, batch, n...)
	x := random(r, batch, p.count(), true)
	memory := upload(b, scattered(p, x, toC[C]))
	require.NoError(b, k.c2c(b.h, cufft.Forward, shape, memory, memory), what)
	want := each(x, func(x []complex128) []complex128 { return dft(x, cufft.Forward, n...) })
	near(b, want, gathered(b, p, numbers(b, memory), fromC[C]), k.epsilon, what)
	shape.Scale = true
	require.NoError(b, k.c2c(b.h, cufft.Inverse, shape, memory, memory), what)
	near(b, x, gathered(b, p, numbers(b, memory), fromC[C]), 2*k.epsilon, what+" and back")
}

// realNumbers transforms real numbers there and back.
func (k kit[R, C]) realNumbers(b bench, r *rand.Rand, n []int, batch int) {
	b.Helper()
	shape := cufft.Shape{N: n, Batch: batch, In: randomLayout(r, batch, n), Out: randomLayout(r, batch, half(n))}
	what := fmt.Sprintf("real numbers of %+v", shape)
	from, to := placed(shape.In, batch, n...), placed(shape.Out, batch, half(n)...)
	x := random(r, batch, from.count(), false)
	want := each(each(x, func(x []complex128) []complex128 { return dft(x, cufft.Forward, n...) }), firstHalf(n))
	memory := scattered(from, x, toR[R])
	in, out := upload(b, memory), upload(b, scattered(to, nil, toC[C]))
	require.NoError(b, k.r2c(b.h, shape, in, out), what)
	near(b, want, gathered(b, to, numbers(b, out), fromC[C]), k.epsilon, what)
	assert.Equal(b, memory, numbers(b, in), "the input is as it was")

	shape.In, shape.Out, shape.Scale = shape.Out, shape.In, true
	require.NoError(b, k.c2r(b.h, shape, out, in), what)
	near(b, x, gathered(b, from, numbers(b, in), fromR[R]), 2*k.epsilon, "back from "+what)
}

// realInPlace transforms real numbers in the memory of their spectrum.
func (k kit[R, C]) realInPlace(b bench, r *rand.Rand, n []int, batch int) {
	b.Helper()
	shape := cufft.Shape{N: n, Batch: batch, In: cufft.Padded(n...)}
	what := fmt.Sprintf("real numbers of %+v in place", shape)
	from, to := placed(shape.In, batch, n...), placed(shape.Out, batch, half(n)...)
	x := random(r, batch, from.count(), false)
	host := scattered(from, x, toR[R])
	spectrum := upload(b, make([]C, to.size()))
	memory, err := runtime.Cast[R](spectrum)
	require.NoError(b, err)
	host = append(host, make([]R, memory.Len())...)[:memory.Len()]
	require.NoError(b, runtime.Upload(bg, b.s, memory, host))
	require.NoError(b, k.r2c(b.h, shape, memory, spectrum), what)
	want := each(each(x, func(x []complex128) []complex128 { return dft(x, cufft.Forward, n...) }), firstHalf(n))
	near(b, want, gathered(b, to, numbers(b, spectrum), fromC[C]), k.epsilon, what)
	shape.In, shape.Out, shape.Scale = shape.Out, shape.In, true
	require.NoError(b, k.c2r(b.h, shape, spectrum, memory), what)
	got := numbers(b, memory)
	for t := range x {
		for i := range x[t] { // what lies between is undefined
			x[t][i] -= fromR(got[from.element(t, i)])
			assert.InDelta(b, 0, real(x[t][i]), 100*k.epsilon, what)
		}
	}
}

// Lengths with large prime factors, powers, and one that needs a work area, against gonum.
func TestAgainstGonum(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		b.TB = t
		r := generator(1, 2)
		// gonum's own numbers are wrong by more where a length has a large prime factor.
		primes := map[int]float64{97: 97, 127: 127, 1021: 1021, 4099: 4099}
		for _, n := range []int{1, 2, 3, 4, 5, 7, 16, 97, 100, 127, 128, 1000, 1021, 1024, 2187, 4096, 4099, 6000} {
			epsilon := double.epsilon * (2 + primes[n])
			x := random(r, 1, n, false)
			in, out := upload(b, scattered(placed(cufft.Layout{}, 1, n), x, toR[float64])[:n]), upload(b, make([]complex128, n/2+1))
			require.NoError(t, cufft.D2Z(b.h, cufft.Shape{N: []int{n}}, in, out))
			reals := make([]float64, n)
			for i, v := range x[0] {
				reals[i] = real(v)
			}
			want := fourier.NewFFT(n).Coefficients(nil, reals)
			near(b, [][]complex128{want}, [][]complex128{numbers(b, out)}, epsilon, fmt.Sprint(n))
			z := random(r, 1, n, true)
			memory := upload(b, z[0])
			require.NoError(t, cufft.Z2Z(b.h, cufft.Inverse, cufft.Shape{N: []int{n}}, memory, memory))
			near(b, [][]complex128{fourier.NewCmplxFFT(n).Sequence(nil, z[0])}, [][]complex128{numbers(b, memory)}, epsilon, fmt.Sprint(n))
		}
	})
}

// The frames of a spectrogram overlap in the input, and lie one behind the other in the output.
func TestOverlappingFrames(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		b.TB = t
		const n, hop, frames = 64, 16, 9
		x := random(generator(2, 2), 1, hop*(frames-1)+n, false)
		signal, out := upload(b, scattered(placed(cufft.Layout{}, 1, len(x[0])), x, toR[float32])), upload(b, make([]complex64, frames*(n/2+1)))
		require.NoError(t, cufft.R2C(b.h, cufft.Shape{N: []int{n}, Batch: frames, In: cufft.Layout{Distance: hop}}, signal, out))
		var want [][]complex128
		for i := range frames {
			want = append(want, firstHalf([]int{n})(dft(x[0][i*hop:i*hop+n], cufft.Forward, n)))
		}
		near(b, want, gathered(b, placed(cufft.Layout{}, frames, n/2+1), numbers(b, out), fromC[complex64]), single.epsilon, "frames")
	})
}

// FuzzShapes transforms any lengths in any layout.
func FuzzShapes(f *testing.F) {
	f.Add(uint64(1), uint8(8), uint8(0), uint8(0), uint8(0), false)
	f.Add(uint64(2), uint8(5), uint8(7), uint8(0), uint8(2), true)
	f.Add(uint64(3), uint8(1), uint8(6), uint8(9), uint8(4), false)
	f.Add(uint64(4), uint8(251), uint8(0), uint8(0), uint8(1), true)
	f.Fuzz(func(t *testing.T, seed uint64, x, y, z, batch uint8, precise bool) {
		b, _, _ := simulated(t)
		n := []int{1 + int(x)}
		for _, length := range []uint8{y, z} {
			if length > 0 {
				n[0] = 1 + n[0]%16
				n = append(n, 1+int(length)%16)
			}
		}
		r := generator(seed, 3)
		if precise {
			double.all(b, r, n, 1+int(batch)%5)
		} else {
			single.all(b, r, n, 1+int(batch)%5)
		}
	})
}

func TestPadded(t *testing.T) {
	assert.Equal(t, cufft.Layout{}, cufft.Padded())
	n := []int{3, 5}
	assert.Equal(t, cufft.Layout{Embed: []int{3, 6}}, cufft.Padded(n...))
	assert.Equal(t, []int{3, 5}, n)
	assert.Equal(t, cufft.Layout{Embed: []int{10}}, cufft.Padded(8))
	assert.True(t, slices.Equal(cufft.Padded(1).Embed, []int{2}))
}

// A call finds the plan of the one before by its shape as it is spelled, and nothing else is taken for the same.
func TestShapeOfTheCallBefore(t *testing.T) {
	b, _, _ := simulated(t)
	x, y := upload(b, []complex64{1, 1, 1, 1, 1, 1, 1, 1}), zeros(b, 8)
	n := []int{8}
	transformed := func(shape cufft.Shape) complex64 {
		t.Helper()
		require.NoError(t, cufft.C2C(b.h, cufft.Forward, shape, x, y))
		return numbers(b, y)[0]
	}
	shape := cufft.Shape{N: n}
	for range 2 {
		assert.Equal(t, complex64(8), transformed(shape))
	}
	shape.Scale = true
	for range 2 {
		assert.Equal(t, complex64(1), transformed(shape))
	}
	shape.Scale = false
	assert.Equal(t, complex64(8), transformed(shape))
	n[0] = 4 // of the same slice
	assert.Equal(t, complex64(4), transformed(shape))
	assert.Equal(t, complex64(4), transformed(cufft.Shape{N: n, Batch: 1, In: cufft.Layout{Stride: 1}}))
	for _, wrong := range []cufft.Shape{
		{N: n, In: cufft.Layout{Embed: []int{}}}, {N: []int{4, 1, 1, 1}}, {N: n, Batch: -1}, {N: n, Out: cufft.Layout{Stride: -1}},
	} {
		assert.Equal(t, complex64(4), transformed(shape))
		require.ErrorIs(t, cufft.C2C(b.h, cufft.Forward, wrong, x, y), driver.ErrInvalidArgument)
	}
	require.ErrorIs(t, cufft.C2C(b.h, 7, shape, x, y), driver.ErrInvalidArgument)
	require.NoError(t, b.h.Close())
	require.ErrorIs(t, cufft.C2C(b.h, cufft.Forward, shape, x, y), driver.ErrClosed, "the plan was given back after each error")
}
