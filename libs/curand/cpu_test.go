package curand_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/libs/curand"
)

// What NVIDIA's example prints, on the device: https://github.com/NVIDIA/CUDALibrarySamples/tree/main/cuRAND/Host/philox
func TestPublishedNumbers(t *testing.T) {
	o := curand.Options{Seed: 1234, Ordering: curand.Best}
	uniform, normal, logNormal := make([]float32, 12), make([]float32, 12), make([]float32, 12)
	cpu(t, o).Uniform(uniform)
	cpu(t, o).Normal(normal, 1, 2)
	cpu(t, o).LogNormal(logNormal, 1, 2)
	published := func(got []float32, tolerance float64, want ...float64) {
		t.Helper()
		require.Len(t, want, len(got))
		for i := range want {
			assert.InDelta(t, want[i], got[i], tolerance*max(want[i], 1)+0.6e-6, "number %d", i)
		}
	}
	published(uniform, 0, 0.127208, 0.853469, 0.265649, 0.796055, 0.816736, 0.324165, 0.781055, 0.058918, 0.543999, 0.923496, 0.441505, 0.258264)
	published(normal, 2*curand.NormalTolerance,
		-2.232981, 3.458309, -2.121081, 1.929241, 2.136910, 0.428208, 1.508686, 2.310768, -0.020450, 2.956819, 3.553997, 0.867263)
	published(logNormal, 2*curand.NormalTolerance,
		0.107208, 31.763233, 0.119902, 6.884281, 8.473219, 1.534505, 4.520784, 10.082161, 0.979758, 19.236685, 34.952747, 2.380388)
}

func TestWhatTheCPUDoesNotHave(t *testing.T) {
	for _, o := range []curand.Options{{Kind: curand.XORWOW}, {Kind: 7}, {Ordering: curand.Dynamic}, {Ordering: curand.Seeded}, {Ordering: 7}} {
		_, err := curand.NewCPU(o)
		assert.ErrorIs(t, err, driver.ErrUnsupported)
		assert.ErrorContains(t, err, "on the CPU: only ")
	}
	a, b := make([]uint32, 9), make([]uint32, 9)
	cpu(t, curand.Options{}).Uint32(a)
	c := cpu(t, curand.Options{Kind: curand.Philox, Seed: 7, Ordering: curand.Default})
	c.Uint32(b)
	assert.NotEqual(t, a, b)
	c.UniformDouble(make([]float64, 40))
	c.Reset(0, 0)
	c.Uint32(b)
	assert.Equal(t, a, b)
}

// moments are the mean and the standard deviation.
func moments[T uint32 | float32 | float64](all []T) (mean, stddev float64) {
	for _, x := range all {
		mean += float64(x)
	}
	mean /= float64(len(all))
	for _, x := range all {
		stddev += (float64(x) - mean) * (float64(x) - mean)
	}
	return mean, math.Sqrt(stddev / float64(len(all)))
}

// chiSquare compares how many numbers are in each of equal parts of the interval, with what would be there by chance: more
// than 6 standard deviations from the mean do not occur.
func chiSquare[T float32 | float64](t *testing.T, all []T) {
	t.Helper()
	const bins = 1024
	var counts [bins]float64
	for _, x := range all {
		require.True(t, x > 0 && x <= 1, "%v", x)
		counts[min(int(x*bins), bins-1)]++
	}
	expected, sum := float64(len(all))/bins, 0.0
	for _, n := range counts {
		sum += (n - expected) * (n - expected) / expected
	}
	assert.InDelta(t, bins-1, sum, 6*math.Sqrt(2*(bins-1)))
}

// statistics checks numbers of one generator. The tolerances are 6 standard deviations of what is measured.
func statistics(t *testing.T, n int, uniform []float32, uniformDouble []float64, normal []float32, normalDouble []float64, logNormal []float32, logNormalDouble []float64) {
	t.Helper()
	root := 6 / math.Sqrt(float64(n))
	chiSquare(t, uniform)
	chiSquare(t, uniformDouble)
	check := func(name string, mean, stddev, wantMean, wantStddev float64) {
		t.Helper()
		assert.InDelta(t, wantMean, mean, root*wantStddev, "the mean of %s", name)
		assert.InDelta(t, wantStddev, stddev, root*wantStddev, "the standard deviation of %s", name)
	}
	of := func(mean, stddev float64) func(name string, wantMean, wantStddev float64) {
		return func(name string, wantMean, wantStddev float64) { check(name, mean, stddev, wantMean, wantStddev) }
	}
	of(moments(uniform))("uniform", 0.5, math.Sqrt(1.0/12))
	of(moments(uniformDouble))("uniform, double", 0.5, math.Sqrt(1.0/12))
	of(moments(normal))("normal", 3, 2)
	of(moments(normalDouble))("normal, double", -3, 0.5)
	logarithms := make([]float64, 0, n)
	for _, x := range logNormal {
		logarithms = append(logarithms, math.Log(float64(x)))
	}
	of(moments(logarithms))("log normal", 1, 2)
	logarithms = logarithms[:0]
	for _, x := range logNormalDouble {
		logarithms = append(logarithms, math.Log(x))
	}
	of(moments(logarithms))("log normal, double", -1, 0.25)
}

func TestStatisticsOfTheCPU(t *testing.T) {
	const n = 1 << 16
	seeds.Each(t, 4, func(t *testing.T, seed uint64) {
		c := cpu(t, curand.Options{Seed: seed})
		f, d, nf, nd, lf, ld := make([]float32, n), make([]float64, n), make([]float32, n), make([]float64, n), make([]float32, n), make([]float64, n)
		c.Uniform(f)
		c.UniformDouble(d)
		c.Normal(nf, 3, 2)
		c.NormalDouble(nd, -3, 0.5)
		c.LogNormal(lf, 1, 2)
		c.LogNormalDouble(ld, -1, 0.25)
		statistics(t, n, f, d, nf, nd, lf, ld)
	})
}

// n numbers from an offset on are the tail of those without it, in any pieces.
func TestOffsetOnTheCPU(t *testing.T) {
	const n = 4*65536 + 4099
	all, floats := make([]uint32, n), make([]float32, n)
	cpu(t, curand.Options{Seed: 5}).Uint32(all)
	cpu(t, curand.Options{Seed: 5}).Normal(floats, 0, 1)
	for _, offset := range []int{0, 1, 2, 3, 4, 5, 1000, 65537, 4*65536 - 1, 4 * 65536, n - 1} {
		o := curand.Options{Seed: 5, Offset: uint64(offset)}
		tail, one := cpu(t, o), make([]uint32, n-offset)
		for at := 0; at < len(one); at += 10007 {
			tail.Uint32(one[at:min(at+10007, len(one))])
		}
		require.Equal(t, all[offset:], one, "from %d on", offset)
		tailFloats := make([]float32, n-offset)
		cpu(t, o).Normal(tailFloats, 0, 1)
		require.Equal(t, floats[offset:], tailFloats, "from %d on", offset)
	}
}
