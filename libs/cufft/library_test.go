//go:build linux && (amd64 || arm64)

package cufft

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/testc"
)

// build builds testdata/fakecufft.c.
func build(t *testing.T, flags ...string) (file string) {
	t.Helper()
	return testc.Build(t, "testdata/fakecufft.c", flags...)
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
	assert.Equal(t, [3]int{11, 4, 7}, l.Version())
	const big, at = 1 << 34, 0x7f00_1234_5678 // sizes and addresses have more than 32 bits
	d := Description{Type: TypeD2Z, Rank: 3, N: [3]int64{big + 1, big + 2, big + 3}, InEmbed: [3]int64{big + 4, big + 5, big + 6}, InStride: big + 7,
		InDistance: big + 8, OutEmbed: [3]int64{big + 9, big + 10, big + 11}, OutStride: big + 12, OutDistance: big + 13, Batch: big + 14}
	p, workArea, s := l.Plan(&d)
	assert.Equal(t, RawPlan(0x777), p)
	assert.EqualValues(t, 1<<35, workArea)
	assert.Equal(t, StatusSuccess, s)
	want := []int64{0x777, 0, 0x777, 3}
	for i := range int64(14) {
		if i == 13 {
			want = append(want, 0x6a)
		}
		want = append(want, big+1+i)
	}
	assert.Equal(t, want, seen())
	assert.Equal(t, StatusSuccess, l.SetStream(p, 0x55, 0))
	assert.Equal(t, []int64{0x777, 0x55}, seen())
	assert.Equal(t, StatusSuccess, l.SetStream(p, 0x55, at))
	assert.Equal(t, []int64{0x777, 0x55, 0x777, at}, seen())
	for typ := range execs {
		want := []int64{int64(typ), 0x777, at, at + 8}
		for _, direction := range []Direction{Forward, Inverse} {
			assert.Equal(t, StatusSuccess, l.Exec(p, typ, direction, at, at+8))
			if typ == TypeC2C || typ == TypeZ2Z {
				want = append(want[:4], int64(direction))
			}
			assert.Equal(t, want, seen())
		}
	}
	assert.Equal(t, StatusSuccess, l.Destroy(p))
	assert.Equal(t, []int64{0x777}, seen())
}

func TestFailuresOfCalls(t *testing.T) {
	l, _ := fake(t, "-DSTATUS=6")
	_, _, s := l.Plan(&Description{})
	assert.Equal(t, StatusExecFailed, s)
	assert.Equal(t, StatusExecFailed, l.SetStream(1, 2, 3))
	assert.Equal(t, StatusExecFailed, l.Destroy(1))
	for typ := range execs {
		assert.Equal(t, StatusExecFailed, l.Exec(1, typ, Forward, 2, 3))
	}
	assert.Equal(t, StatusInvalidType, l.Exec(1, 5, Forward, 2, 3))

	// A plan that is of no use is destroyed again.
	for flag, want := range map[string]Status{"-DMADE=8": StatusInvalidSize, "-DSIZE=-1": StatusImpossibleValue, "-DMADE=-4": StatusImpossibleValue} {
		l, seen := fake(t, flag)
		_, _, s := l.Plan(&Description{Rank: 1})
		assert.Equal(t, want, s, flag)
		all := seen()
		assert.EqualValues(t, 0x777, all[len(all)-1], flag)
		assert.Len(t, all, 14, flag)
	}
	l, seen := fake(t, "-DPLAN=-1")
	_, _, s = l.Plan(&Description{})
	assert.Equal(t, StatusImpossibleValue, s)
	assert.Empty(t, seen())
	l, _ = fake(t, "-DSTATUS=-7")
	assert.Equal(t, StatusImpossibleValue, l.SetStream(1, 0, 0))

	for _, l := range []*Library{nil, {}} {
		_, _, s := l.Plan(&Description{})
		assert.Equal(t, StatusSymbolMissing, s)
		assert.Empty(t, l.Path())
		assert.Empty(t, l.Attempts())
		assert.Equal(t, [3]int{}, l.Version())
	}
	assert.Equal(t, "CUFFT_NOT_SUPPORTED (16): cuFFT does not do this with such a shape, or on this device", StatusNotSupported.Error())
	assert.Equal(t, "CUFFT_ALLOC_FAILED", StatusAllocFailed.Name())
	assert.Contains(t, StatusSuccess.Error(), "success")
	assert.Equal(t, "CUFFT_99 (99)", Status(99).String())
}

func TestWhyItDoesNotOpen(t *testing.T) {
	t.Setenv(PathVariable, "")
	missing := filepath.Join(t.TempDir(), "libcufft.so.12")
	_, err := Open(missing)
	require.ErrorIs(t, err, driver.ErrLibraryUnavailable)
	assert.ErrorContains(t, err, "no cuFFT to transform signals with: install it (CUDA toolkit 11.0 or newer")
	assert.ErrorContains(t, err, missing)

	_, err = Open(build(t, "-DOLD", "-DVERSION=9"))
	require.ErrorIs(t, err, driver.ErrDriverLibraryLoadFailed)
	assert.ErrorContains(t, err, "cufftCreate needs cuFFT 10.0, found 9.4.7")
	_, err = Open("libc.so.6")
	require.ErrorIs(t, err, driver.ErrDriverLibraryLoadFailed)
	assert.ErrorContains(t, err, "lacks cufftCreate, ")

	t.Setenv(PathVariable, "/x/cufft")
	assert.Equal(t, []string{"/x/cufft"}, library.CUFFT.Candidates())
	_, err = Open()
	assert.ErrorContains(t, err, "/x/cufft")

	second := build(t)
	l, err := Open(missing, second)
	require.NoError(t, err)
	assert.Equal(t, second, l.Path())
	require.Len(t, l.Attempts(), 1)
	assert.Equal(t, missing, l.Attempts()[0].Name)
}

// TestHeader compares with NVIDIA's headers, where a compiler and the headers are.
func TestHeader(t *testing.T) { testc.CheckHeader(t, "cufft.h", "testdata/abi_check.c") }
