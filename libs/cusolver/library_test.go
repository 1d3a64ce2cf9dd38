//go:build linux && (amd64 || arm64)

package cusolver

import (
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/testc"
	"github.com/purecuda/purecuda/libs/cublas"
)

// build builds testdata/fakecusolver.c.
func build(t *testing.T, flags ...string) (file string) {
	t.Helper()
	return testc.Build(t, "testdata/fakecusolver.c", flags...)
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
	h, s := l.Create()
	assert.Equal(t, RawHandle{0x777, 0x888, 0x999, 0xaaa}, h)
	assert.Equal(t, StatusSuccess, s)
	assert.Equal(t, StatusSuccess, l.SetStream(h, 0x55))
	assert.Equal(t, []int64{0x777, 0x55, 0xaaa, 0x55}, seen())

	const at, big, device, host = 0x7f00_1234_5678, 1 << 34, 1 << 35, 1 << 33 // addresses and sizes have more than 32 bits
	memory := new([8]byte)
	call := Call{Type: cublas.TypeFloat64, Fill: cublas.Upper, Trans: cublas.Transpose, Side: cublas.Right, Vectors: true, JobU: Thin, JobVT: All,
		M: big + 4, N: big + 5, K: big + 6, A: Operand{at, big + 7}, B: Operand{at + 1, big + 8}, U: Operand{at + 2, big + 9}, VT: Operand{at + 3, big + 10},
		Vector: at + 4, Info: at + 5, Device: at + 6, DeviceBytes: 8000, Host: unsafe.Pointer(memory), HostBytes: 8}
	hostAt := int64(uintptr(unsafe.Pointer(memory)))
	small := call // of a function whose sizes have 32 bits
	small.M, small.N, small.K, small.A.LD, small.B.LD = 4, 5, 6, 7, 8
	single := small
	single.Type, single.Vectors = cublas.TypeFloat32, false
	ends := []int64{1, at + 6, 8000, hostAt, 8, at + 5}
	potrf := []int64{0x777, 0x888, 1, big + 5, 1, at, big + 7}
	getrf := []int64{0x777, 0x888, big + 4, big + 5, 1, at, big + 7}
	geqrf := []int64{0x777, 0x888, big + 4, big + 5, 1, at, big + 7, 1, at + 4, 0}
	ormqr := []int64{0x777, 1, 1, 4, 5, 6, 1, at, 7, at + 4, 1, at + 1, 8}
	sormqr := []int64{0x777, 1, 1, 4, 5, 6, 0, at, 7, at + 4, 0, at + 1, 8}
	syevd := []int64{0x777, 0x888, 1, 1, big + 5, 1, at, big + 7, 1, at + 4, 0}
	ssyevd := []int64{0x777, 0x888, 0, 1, 5, 0, at, 7, 0, at + 4, 0}
	gesvd := []int64{0x777, 0x888, 'S', 'A', big + 4, big + 5, 1, at, big + 7, 1, at + 4, 0, 1, at + 2, big + 9, 1, at + 3, big + 10}
	small.Batch, single.Batch = 9, 9
	many := func(h int64, x, info int64) []int64 { return []int64{h, 5, at, 7, x, info, 9} }
	syevj, ssyevj := []int64{'d', 1, 1}, []int64{'s', 0, 1}
	join := func(begin []int64, end ...int64) []int64 { return append(append([]int64{}, begin...), end...) }
	for name, c := range map[string]struct {
		routine      Routine
		call         Call
		device, host uint64
		asked, run   []int64
	}{
		"Potrf":  {Potrf, call, device, host, join(potrf, 1), join(potrf, ends...)},
		"Potrs":  {Potrs, call, 0, 0, []int64{}, []int64{0x777, 0x888, 1, big + 5, big + 6, 1, at, big + 7, 1, at + 1, big + 8, at + 5}},
		"Getrf":  {Getrf, call, device, host, join(getrf, 1), join(join(getrf, at+4), ends...)},
		"Getrs":  {Getrs, call, 0, 0, []int64{}, []int64{0x777, 0x888, 1, big + 5, big + 6, 1, at, big + 7, at + 4, 1, at + 1, big + 8, at + 5}},
		"Geqrf":  {Geqrf, call, device, host, join(geqrf, 1), join(geqrf, ends...)},
		"Ormqr":  {Ormqr, small, 8000, 0, ormqr, join(ormqr, at+6, 1000, at+5)},
		"Sormqr": {Ormqr, single, 4000, 0, sormqr, join(sormqr, at+6, 2000, at+5)},
		"Syevd":  {Syevd, call, device, host, join(syevd, 1), join(syevd, ends...)},
		"Ssyevd": {Syevd, single, device, host, join(ssyevd, 0), join(ssyevd, 0, at+6, 8000, hostAt, 8, at+5)},
		"Gesvd":  {Gesvd, call, device, host, join(gesvd, 1), join(gesvd, ends...)},

		"DpotrfBatched": {PotrfBatched, small, 0, 0, []int64{}, join([]int64{'d', 1}, many(0x777, 0, at+5)...)},
		"SpotrfBatched": {PotrfBatched, single, 0, 0, []int64{}, join([]int64{'s', 1}, many(0x777, 0, at+5)...)},
		"DpotrsBatched": {PotrsBatched, small, 0, 0, []int64{}, join([]int64{'d', 1, 1, 8}, many(0x777, at+1, at+5)...)},
		"SpotrsBatched": {PotrsBatched, single, 0, 0, []int64{}, join([]int64{'s', 1, 1, 8}, many(0x777, at+1, at+5)...)},
		"DsyevjBatched": {SyevjBatched, small, 8000, 0, join(join(syevj, 0x999), many(0x777, at+4, 0)...),
			join(join(syevj, at+6, 1000, 0x999), many(0x777, at+4, at+5)...)},
		"SsyevjBatched": {SyevjBatched, single, 4000, 0, join(join(ssyevj, 0x999), many(0x777, at+4, 0)...),
			join(join(ssyevj, at+6, 2000, 0x999), many(0x777, at+4, at+5)...)},
		"DgetrfBatched": {GetrfBatched, small, 0, 0, []int64{}, join([]int64{'d'}, many(0xaaa, at+4, at+5)...)},
		"SgetrfBatched": {GetrfBatched, single, 0, 0, []int64{}, join([]int64{'s'}, many(0xaaa, at+4, at+5)...)},
		"DgetrsBatched": {GetrsBatched, small, 0, 0, []int64{}, join([]int64{'d', 1, 6, at + 1, 8}, many(0xaaa, at+4, 0)...)},
		"SgetrsBatched": {GetrsBatched, single, 0, 0, []int64{}, join([]int64{'s', 1, 6, at + 1, 8}, many(0xaaa, at+4, 0)...)},
		"DgetriBatched": {GetriBatched, small, 0, 0, []int64{}, join([]int64{'d', at + 1, 8}, many(0xaaa, at+4, at+5)...)},
		"SgetriBatched": {GetriBatched, single, 0, 0, []int64{}, join([]int64{'s', at + 1, 8}, many(0xaaa, at+4, at+5)...)},
		"DgelsBatched":  {GelsBatched, small, 0, 0, []int64{}, join([]int64{'d', 0, 4, 6, at + 1, 8}, many(0xaaa, 0, at+5)...)},
		"SgelsBatched":  {GelsBatched, single, 0, 0, []int64{}, join([]int64{'s', 0, 4, 6, at + 1, 8}, many(0xaaa, 0, at+5)...)},
	} {
		c.call.Routine = c.routine
		device, host, s := l.Workspace(h, &c.call)
		assert.Equal(t, StatusSuccess, s, name)
		assert.Equal(t, []uint64{c.device, c.host}, []uint64{device, host}, name)
		assert.Equal(t, c.asked, seen(), name)
		assert.Equal(t, StatusSuccess, l.Run(h, &c.call), name)
		assert.Equal(t, c.run, seen(), name)
	}
	assert.Equal(t, StatusSuccess, l.Destroy(h))
	assert.Equal(t, []int64{0xaaa, 0x999, 0x888, 0x777}, seen())
}

// The statuses of cuBLAS are other numbers.
func TestStatusesOfBLAS(t *testing.T) {
	for status, want := range map[string]Status{
		"3": StatusAllocFailed, "7": StatusInvalidValue, "8": StatusArchMismatch, "11": StatusMappingError, "13": StatusExecutionFailed,
		"14": StatusInternalError, "15": StatusNotSupported, "1": StatusNotInitialized,
	} {
		l, seen := fake(t, "-DBLAS="+status)
		_, s := l.Create()
		assert.Equal(t, want, s)
		assert.Equal(t, []int64{0x999, 0x888, 0x777}, seen(), "what was made is destroyed again")
		for _, r := range []Routine{GetrfBatched, GetrsBatched, GetriBatched, GelsBatched} {
			assert.Equal(t, want, l.Run(RawHandle{BLAS: 1}, &Call{Routine: r}), r)
		}
	}
	l, _ := fake(t, "-DHOSTINFO=-5")
	for _, r := range []Routine{GetrsBatched, GelsBatched} {
		assert.Equal(t, StatusInvalidValue, l.Run(RawHandle{BLAS: 1}, &Call{Routine: r}), r)
	}
	l, seen := fake(t, "-DNOBLAS")
	h, s := l.Create()
	require.Equal(t, StatusSuccess, s, "all else works without cuBLAS")
	assert.Equal(t, StatusSuccess, l.SetStream(h, 1))
	seen()
	for _, r := range []Routine{GetrfBatched, GetrsBatched, GetriBatched, GelsBatched} {
		assert.Equal(t, StatusSymbolMissing, l.Run(h, &Call{Routine: r}), r)
	}
	assert.Equal(t, StatusSuccess, l.Destroy(h))
	assert.Equal(t, []int64{0x999, 0x888, 0x777}, seen())
}

func TestFailuresOfCalls(t *testing.T) {
	l, _ := fake(t, "-DSTATUS=6")
	_, s := l.Create()
	assert.Equal(t, StatusExecutionFailed, s)
	for r := Potrf; r <= Gesvd; r++ {
		assert.Equal(t, StatusExecutionFailed, l.Run(RawHandle{}, &Call{Routine: r}), r)
		if _, _, s := l.Workspace(RawHandle{}, &Call{Routine: r}); r != Potrs && r != Getrs {
			assert.Equal(t, StatusExecutionFailed, s, r)
		}
	}
	for _, r := range []Routine{PotrfBatched, PotrsBatched, SyevjBatched} {
		assert.Equal(t, StatusExecutionFailed, l.Run(RawHandle{}, &Call{Routine: r}), r)
	}
	assert.Equal(t, StatusExecutionFailed, l.Destroy(RawHandle{Handle: 1}))
	for _, c := range []Call{{Routine: SyevjBatched + 1}, {Routine: -1}, {Type: cublas.TypeFloat16}} {
		_, _, s := l.Workspace(RawHandle{}, &c)
		assert.Equal(t, StatusInvalidValue, s)
		assert.Equal(t, StatusInvalidValue, l.Run(RawHandle{}, &c))
	}
	assert.Equal(t, "routine 99", Routine(99).String())
	assert.Equal(t, "cusolverDnOrmqr", Ormqr.String())
	assert.Equal(t, "cusolverDnXgesvd", Gesvd.String())

	// What cannot be true.
	l, _ = fake(t, "-DDEVICE=-1", "-DLWORK=-5")
	for _, r := range []Routine{Potrf, Ormqr} {
		_, _, s := l.Workspace(RawHandle{}, &Call{Routine: r})
		assert.Equal(t, StatusImpossibleValue, s, r)
	}
	l, seen := fake(t, "-DNOPARAMS")
	_, s = l.Create()
	assert.Equal(t, StatusImpossibleValue, s)
	assert.Equal(t, []int64{0x777}, seen(), "the handle is destroyed again")
	l, _ = fake(t, "-DSTATUS=-7")
	assert.Equal(t, StatusImpossibleValue, l.SetStream(RawHandle{}, 0))

	for _, l := range []*Library{nil, {}} {
		_, s := l.Create()
		assert.Equal(t, StatusSymbolMissing, s)
		assert.Empty(t, l.Path())
		assert.Empty(t, l.Attempts())
		assert.Equal(t, [3]int{}, l.Version())
	}
	assert.Equal(t, "CUSOLVER_STATUS_NOT_SUPPORTED (9): cuSOLVER does not do this with these types or shapes on this device", StatusNotSupported.Error())
	assert.Equal(t, "CUSOLVER_STATUS_ALLOC_FAILED", StatusAllocFailed.Name())
	assert.Contains(t, StatusSuccess.Error(), "success")
	assert.Equal(t, "CUSOLVER_STATUS_99 (99)", Status(99).String())
}

func TestWhyItDoesNotOpen(t *testing.T) {
	t.Setenv(PathVariable, "")
	missing := filepath.Join(t.TempDir(), "libcusolver.so.12")
	_, err := Open(missing)
	require.ErrorIs(t, err, driver.ErrLibraryUnavailable)
	assert.ErrorContains(t, err, "no cuSOLVER to solve equations with: install it (CUDA toolkit 11.1 or newer")
	assert.ErrorContains(t, err, missing)

	_, err = Open(build(t, "-DOLD", "-DVERSION=10"))
	require.ErrorIs(t, err, driver.ErrDriverLibraryLoadFailed)
	assert.ErrorContains(t, err, "cusolverDnCreateParams needs cuSOLVER 11.0, found 10.4.7")
	_, err = Open("libc.so.6")
	require.ErrorIs(t, err, driver.ErrDriverLibraryLoadFailed)
	assert.ErrorContains(t, err, "lacks cusolverDnCreate, ")

	t.Setenv(PathVariable, "/x/cusolver")
	assert.Equal(t, []string{"/x/cusolver"}, library.CUSOLVER.Candidates())
	_, err = Open()
	assert.ErrorContains(t, err, "/x/cusolver")

	second := build(t)
	l, err := Open(missing, second)
	require.NoError(t, err)
	assert.Equal(t, second, l.Path())
	require.Len(t, l.Attempts(), 1)
	assert.Equal(t, missing, l.Attempts()[0].Name)
}

// TestHeader compares with NVIDIA's headers, where a compiler and the headers are.
func TestHeader(t *testing.T) { testc.CheckHeader(t, "cusolverDn.h", "testdata/abi_check.c") }
