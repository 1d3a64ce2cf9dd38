//go:build linux && (amd64 || arm64)

package curand

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/testc"
)

// build builds testdata/fakecurand.c.
func build(t *testing.T, flags ...string) (file string) {
	t.Helper()
	return testc.Build(t, "testdata/fakecurand.c", flags...)
}

// fake opens a fake, and returns what reads what reached it.
func fake(t *testing.T, flags ...string) (l *Library, seen func() []int64) {
	t.Helper()
	file := build(t, flags...)
	l, err := Open(file)
	require.NoError(t, err)
	return l, testc.Seen(t, file)
}

// Every argument arrives in its place.
func TestArguments(t *testing.T) {
	l, seen := fake(t)
	assert.Equal(t, [3]int{10, 3, 7}, l.Version())
	g, s := l.Create(MRG32k3a)
	assert.EqualValues(t, 0x777, g)
	assert.Equal(t, StatusSuccess, s)
	assert.Equal(t, []int64{121}, seen())

	const at, n, large = 0x7f00_1234_5678, 1 << 34, -1 << 62 // addresses, counts and seeds have 64 bits
	bits := func(f float64) int64 { return int64(math.Float64bits(f)) }
	call := func(d Distribution) Status { return l.Generate(g, &Call{d, at, n, 0.25, -math.Pi}) }
	single := []int64{0x777, at, n, bits(0.25), bits(float64(float32(-math.Pi)))}
	double := []int64{0x777, at, n, bits(0.25), bits(-math.Pi)}
	for _, c := range []struct {
		name string
		call func() Status
		want []int64
	}{
		{"SetStream", func() Status { return l.SetStream(g, 0x55) }, []int64{0x777, 0x55}},
		{"SetOrdering", func() Status { return l.SetOrdering(g, Dynamic) }, []int64{0x777, 104}},
		{"SetSeed", func() Status { return l.SetSeed(g, 3<<62) }, []int64{0x777, large}},
		{"SetOffset", func() Status { return l.SetOffset(g, 3<<62) }, []int64{0x777, large}},
		{"GenerateSeeds", func() Status { return l.GenerateSeeds(g) }, []int64{0x777}},
		{"Uint32", func() Status { return call(Uint32) }, double[:3]},
		{"Uniform", func() Status { return call(Uniform) }, double[:3]},
		{"UniformDouble", func() Status { return call(UniformDouble) }, double[:3]},
		{"Normal", func() Status { return call(Normal) }, single},
		{"NormalDouble", func() Status { return call(NormalDouble) }, double},
		{"LogNormal", func() Status { return call(LogNormal) }, single},
		{"LogNormalDouble", func() Status { return call(LogNormalDouble) }, double},
		{"Poisson", func() Status { return call(Poisson) }, double[:4]},
		{"Destroy", func() Status { return l.Destroy(g) }, []int64{0x777}},
	} {
		assert.Equal(t, StatusSuccess, c.call(), c.name)
		assert.Equal(t, c.want, seen(), c.name)
	}
}

func TestFailuresOfCalls(t *testing.T) {
	l, _ := fake(t, "-DSTATUS=104")
	_, s := l.Create(Philox)
	assert.Equal(t, StatusOutOfRange, s)
	for d := Uint32; d <= Poisson; d++ {
		assert.Equal(t, StatusOutOfRange, l.Generate(0, &Call{Distribution: d}), d)
	}
	assert.Equal(t, StatusOutOfRange, l.Destroy(0))
	l, seen := fake(t)
	for _, d := range []Distribution{-1, Poisson + 1} {
		assert.Equal(t, StatusOutOfRange, l.Generate(0, &Call{Distribution: d}))
		assert.Empty(t, seen())
	}
	assert.Equal(t, "distribution 99", Distribution(99).String())
	assert.Equal(t, "curandGeneratePoisson", Poisson.String())

	// What cannot be true.
	l, _ = fake(t, "-DMADE=0")
	_, s = l.Create(Philox)
	assert.Equal(t, StatusImpossibleValue, s)
	l, _ = fake(t, "-DSTATUS=-7")
	assert.Equal(t, StatusImpossibleValue, l.SetStream(0, 0))

	for _, l := range []*Library{nil, {}} {
		_, s := l.Create(Philox)
		assert.Equal(t, StatusSymbolMissing, s)
		assert.Empty(t, l.Path())
		assert.Empty(t, l.Attempts())
		assert.Equal(t, [3]int{}, l.Version())
	}
	assert.Equal(t, "CURAND_STATUS_TYPE_ERROR (103): this kind of generator does not do this", StatusTypeError.Error())
	assert.Equal(t, "CURAND_STATUS_ALLOCATION_FAILED", StatusAllocationFailed.Name())
	assert.Contains(t, StatusSuccess.Error(), "success")
	assert.Equal(t, "CURAND_STATUS_99 (99)", Status(99).String())
}

func TestWhyItDoesNotOpen(t *testing.T) {
	t.Setenv(PathVariable, "")
	missing := filepath.Join(t.TempDir(), "libcurand.so.10")
	_, err := Open(missing)
	require.ErrorIs(t, err, driver.ErrLibraryUnavailable)
	assert.ErrorContains(t, err, "no cuRAND to make random numbers with: install it (CUDA toolkit 11.0 or newer")
	assert.ErrorContains(t, err, missing)

	_, err = Open(build(t, "-DOLD", "-DMINOR=1"))
	require.ErrorIs(t, err, driver.ErrDriverLibraryLoadFailed)
	assert.ErrorContains(t, err, "curandGeneratePoisson, CURAND_ORDERING_PSEUDO_LEGACY needs cuRAND 10.2, found 10.1.7")
	_, err = Open(build(t, "-DMINOR=1"))
	assert.ErrorContains(t, err, "CURAND_ORDERING_PSEUDO_LEGACY needs cuRAND 10.2, found 10.1.7", "it has all functions")
	_, err = Open(build(t, "-DOLD"))
	assert.ErrorContains(t, err, "lacks curandGeneratePoisson: not cuRAND, or one older than 10.2")
	_, err = Open("libc.so.6")
	require.ErrorIs(t, err, driver.ErrDriverLibraryLoadFailed)
	assert.ErrorContains(t, err, "lacks curandCreateGenerator, ")

	t.Setenv(PathVariable, "/x/curand")
	assert.Equal(t, []string{"/x/curand"}, library.CURAND.Candidates())
	_, err = Open()
	assert.ErrorContains(t, err, "/x/curand")

	second := build(t)
	l, err := Open(missing, second)
	require.NoError(t, err)
	assert.Equal(t, second, l.Path())
	require.Len(t, l.Attempts(), 1)
	assert.Equal(t, missing, l.Attempts()[0].Name)
}

// TestHeader compares with NVIDIA's headers, where a compiler and the headers are.
func TestHeader(t *testing.T) { testc.CheckHeader(t, "curand.h", "testdata/abi_check.c") }
