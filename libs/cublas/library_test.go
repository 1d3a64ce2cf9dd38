//go:build linux && (amd64 || arm64)

package cublas

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/dl"
	"github.com/purecuda/purecuda/internal/ffi"
	"github.com/purecuda/purecuda/internal/testc"
)

// build builds testdata/fakecublas.c.
func build(t *testing.T, flags ...string) (file string) {
	t.Helper()
	return testc.Build(t, "testdata/fakecublas.c", flags...)
}

// fake opens a fake, and returns what reads what reached it, and how many descriptions there are.
func fake(t *testing.T, flags ...string) (l *Library, seen func() []int64, made func() int) {
	t.Helper()
	file := build(t, flags...)
	l, err := Open(file)
	require.NoError(t, err)
	lib, _, err := dl.Open(file)
	require.NoError(t, err)
	return l, testc.Seen(t, file), func() int {
		return int(int32(new(struct {
			ffi.Frame
			_ [ffi.RegisterWords]uintptr
		}).Call(lib.Symbol("fake_made"), 0)))
	}
}

// Every argument arrives in its place.
func TestArguments(t *testing.T) {
	l, seen, made := fake(t)
	assert.Equal(t, [3]int{12, 3, 7}, l.Version())
	h, s := l.Create()
	assert.Equal(t, RawHandle(0x777), h)
	assert.Equal(t, StatusSuccess, s)
	const at = 0x7f00_1234_5678 // addresses have more than 32 bits
	a, b, c := Operand{at, TypeFloat16, 11, 1 << 33}, Operand{at + 1, TypeBFloat16, 12, 2}, Operand{at + 2, TypeFloat32, 13, 3}
	x, y := VectorOperand{at + 3, TypeFloat64, 2}, VectorOperand{at + 4, TypeFloat64, 3}
	half := VectorOperand{at + 5, TypeFloat16, 1}
	double, single := Operand{at, TypeFloat64, 11, 0}, Operand{at, TypeFloat32, 11, 0}
	gemm := GemmCall{TransA: Transpose, M: 4, N: 5, K: 6, Alpha: 1.5, Beta: -2.5, A: a, B: b, C: c, Batch: 1, Compute: ComputeTF32}
	strided, pointers := gemm, gemm
	strided.Batch, strided.Compute = 7, Compute64
	pointers.Batch, pointers.Pointers = 7, true
	operands := func(more ...int64) []int64 { return more }
	gemv := GemvCall{Trans: Transpose, M: 4, N: 5, Alpha: 1.5, Beta: -2.5, A: double, X: x, Y: y}
	gemv32 := gemv
	gemv32.A = single
	for name, c := range map[string]struct {
		call func() Status
		want []int64
	}{
		"Destroy":   {func() Status { return l.Destroy(h) }, operands(0x777)},
		"SetStream": {func() Status { return l.SetStream(h, 0x55, at, 1<<35) }, operands(0x777, 0x55, 0x777, at, 1<<35)},
		"Gemm": {func() Status { return l.Gemm(h, &gemm) },
			operands(at, 2, 11, at+1, 14, 12, at+2, 0, 13, -1, 0x777, 1, 0, 4, 5, 6, 1500, -2500, 77)},
		"GemmStrided": {func() Status { return l.Gemm(h, &strided) },
			operands(at, 2, 11, 1<<33, at+1, 14, 12, 2, at+2, 0, 13, 3, 7, -1, 0x777, 1, 0, 4, 5, 6, 1500, -2500, 70)},
		"GemmPointers": {func() Status { return l.Gemm(h, &pointers) },
			operands(at, 2, 11, at+1, 14, 12, at+2, 0, 13, 7, -1, 0x777, 1, 0, 4, 5, 6, 1500, -2500, 77)},
		"Gemv":   {func() Status { return l.Gemv(h, &gemv) }, operands(0x777, 1, 4, 5, 1500, at, 1, 11, at+3, 1, 2, -2500, at+4, 1, 3)},
		"Gemv32": {func() Status { return l.Gemv(h, &gemv32) }, operands(0x777, 1, 4, 5, 1500, at, 0, 11, at+3, 0, 2, -2500, at+4, 0, 3)},
		"Axpy": {func() Status { return l.Axpy(h, &VectorCall{N: 9, Alpha: -0.5, X: x, Y: y}) },
			operands(0x777, 9, -500, 1, at+3, 1, 2, at+4, 1, 3, 1)},
		"Axpy16": {func() Status { return l.Axpy(h, &VectorCall{N: 9, Alpha: -0.5, X: half, Y: half}) },
			operands(0x777, 9, -500, 0, at+5, 2, 1, at+5, 2, 1, 0)},
		"Dot": {func() Status { return l.Dot(h, &VectorCall{N: 9, X: x, Y: y, Result: at}) },
			operands(1, 0x777, 9, at+3, 1, 2, at+4, 1, 3, at, 1, 1, 0)},
		"Dot16": {func() Status { return l.Dot(h, &VectorCall{N: 9, X: half, Y: half, Result: at}) },
			operands(1, 0x777, 9, at+5, 2, 1, at+5, 2, 1, at, 2, 0, 0)},
		"Nrm2":   {func() Status { return l.Nrm2(h, &VectorCall{N: 9, X: x, Result: at}) }, operands(1, 0x777, 9, at+3, 1, 2, at, 1, 1, 0)},
		"Scal":   {func() Status { return l.Scal(h, &VectorCall{N: 9, Alpha: 3, X: x}) }, operands(0x777, 9, 3000, 1, at+3, 1, 2, 1)},
		"Syrk":   {func() Status { return l.Syrk(h, &SyrkCall{Upper, Transpose, 4, 5, 1.5, -2.5, double, double}) }, operands(0x777, 1, 1, 4, 5, 1500, at, 1, 11, -2500, at, 1, 11)},
		"Syrk32": {func() Status { return l.Syrk(h, &SyrkCall{Upper, Transpose, 4, 5, 1.5, -2.5, single, single}) }, operands(0x777, 1, 1, 4, 5, 1500, at, 0, 11, -2500, at, 0, 11)},
		"Trsm":   {func() Status { return l.Trsm(h, &TrsmCall{Right, Upper, Transpose, Unit, 4, 5, 1.5, double, double}) }, operands(0x777, 1, 1, 1, 1, 4, 5, 1500, at, 1, 11, at, 1, 11)},
		"Trsm32": {func() Status {
			return l.Trsm(h, &TrsmCall{Left, Lower, NoTranspose, NonUnit, 4, 5, 1.5, single, single})
		}, operands(0x777, 0, 0, 0, 0, 4, 5, 1500, at, 0, 11, at, 0, 11)},
	} {
		assert.Equal(t, StatusSuccess, c.call(), name)
		assert.Equal(t, c.want, seen(), name)
	}

	shape := MatmulShape{TransA: Transpose, M: 4, N: 5, K: 6, A: Operand{Type: TypeE4M3, LD: 6}, B: Operand{Type: TypeE4M3, LD: 7}, D: Operand{Type: TypeBFloat16, LD: 8},
		AlignA: 16, AlignB: 32, AlignD: 64, Compute: Compute32, Epilogue: EpilogueGELU | EpilogueBias, Workspace: 1 << 34}
	plan, s := l.PlanMatmul(h, &shape)
	require.Equal(t, StatusSuccess, s)
	assert.Equal(t, []int64{68, 0, 0xd, 3, 1, 4, 0xd, 4, 0, 4, 0xd, 7, 36, 4, 0xe, 1, 1 << 34, 8, 0xe, 5, 16, 4, 0xe, 6, 32, 4, 0xe, 7, 64, 4, 0xe, 8, 64, 4,
		28, 6, 4, 6, 28, 6, 5, 7, 14, 4, 5, 8, 0x777, 0xd, 0xe, 1, 1}, seen())
	assert.Equal(t, StatusSuccess, plan.Run(h, &MatmulCall{Alpha: 1.5, Beta: -2.5, A: at, B: at + 1, D: at + 2, Bias: at + 3, ScaleA: at + 4, Workspace: at + 5, Stream: 0x55}))
	assert.Equal(t, []int64{0xd, 8, at + 3, 8, 0xd, 17, at + 4, 8, 0xd, 18, 0, 8,
		0x777, 0xd, 1500, at, 0x102, at + 1, 0x103, -2500, at + 2, 0x104, at + 2, 0x104, 0xa197, at + 5, 1 << 34, 0x55}, seen())
	assert.Equal(t, StatusSuccess, plan.Destroy())
	assert.Equal(t, StatusSuccess, plan.Destroy())
	assert.Zero(t, made(), "nothing is left")
}

func TestPlansThatFail(t *testing.T) {
	for flag, want := range map[string]Status{"-DSTATUS=7": StatusInvalidValue, "-DFOUND=0": StatusNotSupported, "-DWORKSPACE=999": StatusImpossibleValue, "-DSTATUS=-5": StatusImpossibleValue} {
		l, _, made := fake(t, flag)
		_, s := l.PlanMatmul(1, &MatmulShape{M: 1, N: 1, K: 1, Workspace: 100})
		assert.Equal(t, want, s, flag)
		if flag != "-DSTATUS=7" && flag != "-DSTATUS=-5" { // what failed to be made is not destroyed
			assert.Zero(t, made(), flag)
		}
	}
}

func TestFailuresOfCalls(t *testing.T) {
	l, _, _ := fake(t, "-DSTATUS=13")
	v := VectorCall{N: 1}
	for _, s := range []Status{l.Gemm(1, &GemmCall{Batch: 1}), l.Dot(1, &v), l.Scal(1, &v), l.SetStream(1, 1, 1, 1), l.Destroy(1)} {
		assert.Equal(t, StatusExecutionFailed, s)
	}
	for _, l := range []*Library{nil, {}} {
		_, s := l.Create()
		assert.Equal(t, StatusSymbolMissing, s)
		assert.Empty(t, l.Path())
		assert.Empty(t, l.Attempts())
		assert.Equal(t, [3]int{}, l.Version())
	}
	assert.Equal(t, "CUBLAS_STATUS_NOT_SUPPORTED (15): cuBLAS does not do this with these types, shapes or addresses on this device", StatusNotSupported.Error())
	assert.Equal(t, "CUBLAS_STATUS_ALLOC_FAILED", StatusAllocFailed.Name())
	assert.Contains(t, StatusSuccess.Error(), "success")
	assert.Equal(t, "CUBLAS_STATUS_99 (99)", Status(99).String())
}

func TestWhyItDoesNotOpen(t *testing.T) {
	t.Setenv(PathVariable, "")
	missing := filepath.Join(t.TempDir(), "libcublas.so.12")
	_, err := Open(missing)
	require.ErrorIs(t, err, driver.ErrLibraryUnavailable)
	assert.ErrorContains(t, err, "no cuBLAS to multiply matrices with: install it (CUDA toolkit 11.4 or newer")
	assert.ErrorContains(t, err, missing)

	_, err = Open(build(t, "-DOLD", "-DVERSION=10"))
	require.ErrorIs(t, err, driver.ErrDriverLibraryLoadFailed)
	assert.ErrorContains(t, err, "cublasSetWorkspace_v2 needs cuBLAS 11.4, found 10.3.7")
	_, err = Open("libc.so.6")
	require.ErrorIs(t, err, driver.ErrDriverLibraryLoadFailed)
	assert.ErrorContains(t, err, "lacks cublasCreate_v2, ")

	t.Setenv(PathVariable, "/x/cublas")
	assert.Equal(t, []string{"/x/cublas"}, library.CUBLAS.Candidates())
	_, err = Open()
	assert.ErrorContains(t, err, "/x/cublas")

	second := build(t)
	l, err := Open(missing, second)
	require.NoError(t, err)
	assert.Equal(t, second, l.Path())
	require.Len(t, l.Attempts(), 1)
	assert.Equal(t, missing, l.Attempts()[0].Name)
}

// cuBLASLt of the same folder is opened with it, and gives what cuBLAS itself does not export.
func TestBesideIt(t *testing.T) {
	whole := build(t)
	folder := t.TempDir()
	data, err := os.ReadFile(whole)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "libcublasLt.so.12"), data, 0o755))
	source, err := os.ReadFile("testdata/fakecublas.c")
	require.NoError(t, err)
	half := filepath.Join(folder, "half.c")
	require.NoError(t, os.WriteFile(half, source, 0o644))
	file := filepath.Join(folder, "libcublas.so.12")
	out, err := exec.Command("cc", "-shared", "-fPIC", "-DcublasLtMatmul=hidden", "-o", file, half).CombinedOutput()
	require.NoError(t, err, string(out))
	l, err := Open(file)
	require.NoError(t, err)
	assert.NotZero(t, l.fn[fnLtMatmul])
	assert.Equal(t, uintptr(96), unsafe.Sizeof(heuristic{}))
	assert.LessOrEqual(t, 23, ffi.MaxWords)
}

// TestHeader compares with NVIDIA's headers, where a compiler and the headers are.
func TestHeader(t *testing.T) { testc.CheckHeader(t, "cublasLt.h", "testdata/abi_check.c") }
