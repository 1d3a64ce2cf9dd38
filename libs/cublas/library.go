package cublas

import (
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/ffi"
	"github.com/purecuda/purecuda/internal/zero"
)

// PathVariable names the environment variable that replaces the candidates of [Open] by one file.
const PathVariable = "PURECUDA_CUBLAS_PATH"

// oldest is the version that brings all functions.
var oldest = library.Since{11, 4}

// function is an index into functions and Library.fn.
type function int

const (
	fnCreate function = iota
	fnDestroy
	fnSetStream
	fnSetWorkspace
	fnSetPointerMode
	fnGemm
	fnGemmStrided
	fnGemmPointers
	fnSgemv
	fnDgemv
	fnAxpy
	fnDot
	fnNrm2
	fnScal
	fnSsyrk
	fnDsyrk
	fnStrsm
	fnDtrsm
	fnDescCreate
	fnDescSet
	fnDescDestroy
	fnLayoutCreate
	fnLayoutDestroy
	fnPreferenceCreate
	fnPreferenceSet
	fnPreferenceDestroy
	fnHeuristic
	fnMatmul

	functionCount
)

var functions = [functionCount]string{
	fnCreate:            "cublasCreate_v2",
	fnDestroy:           "cublasDestroy_v2",
	fnSetStream:         "cublasSetStream_v2",
	fnSetWorkspace:      "cublasSetWorkspace_v2",
	fnSetPointerMode:    "cublasSetPointerMode_v2",
	fnGemm:              "cublasGemmEx",
	fnGemmStrided:       "cublasGemmStridedBatchedEx",
	fnGemmPointers:      "cublasGemmBatchedEx",
	fnSgemv:             "cublasSgemv_v2",
	fnDgemv:             "cublasDgemv_v2",
	fnAxpy:              "cublasAxpyEx",
	fnDot:               "cublasDotEx",
	fnNrm2:              "cublasNrm2Ex",
	fnScal:              "cublasScalEx",
	fnSsyrk:             "cublasSsyrk_v2",
	fnDsyrk:             "cublasDsyrk_v2",
	fnStrsm:             "cublasStrsm_v2",
	fnDtrsm:             "cublasDtrsm_v2",
	fnDescCreate:        "cublasLtMatmulDescCreate",
	fnDescSet:           "cublasLtMatmulDescSetAttribute",
	fnDescDestroy:       "cublasLtMatmulDescDestroy",
	fnLayoutCreate:      "cublasLtMatrixLayoutCreate",
	fnLayoutDestroy:     "cublasLtMatrixLayoutDestroy",
	fnPreferenceCreate:  "cublasLtMatmulPreferenceCreate",
	fnPreferenceSet:     "cublasLtMatmulPreferenceSetAttribute",
	fnPreferenceDestroy: "cublasLtMatmulPreferenceDestroy",
	fnHeuristic:         "cublasLtMatmulAlgoGetHeuristic",
	fnMatmul:            "cublasLtMatmul",
}

// Candidates lists where Open looks for cuBLAS, in order: the file that PURECUDA_CUBLAS_PATH names and nothing
// else if it is set. Otherwise it is a cuBLAS that is in the process already, then the toolkit of CUDA_PATH and
// CUDA_HOME, then what the system's loader knows. Last come the toolkits in their usual folders, and the
// active Python environment. It is empty where NVIDIA has no cuBLAS.
func Candidates() []string { return library.CUBLAS.Candidates() }

// Library is the cuBLAS of this machine, with the cuBLASLt that belongs to it. It implements [API] and is safe
// for concurrent use. It is never unloaded.
type Library struct {
	lib *library.Library
	fn  [functionCount]uintptr
}

var _ API = (*Library)(nil)

// Open loads cuBLAS. With no argument it looks in the places where it is installed (see [Candidates]);
// otherwise it tries the given files, in order. It reads hundreds of megabytes, and takes a quarter of a second if
// they are in memory.
//
// The error is of kind [driver.ErrLibraryUnavailable] if no candidate is there or the platform has none, with
// every place and what to install. It is of kind [driver.ErrDriverLibraryLoadFailed] if one is there and none
// can be used, because it is too old, for example.
func Open(candidates ...string) (*Library, error) {
	d := library.CUBLAS
	d.Functions, d.Oldest = functions[:], oldest
	lib, err := d.Open(candidates...)
	if err != nil {
		return nil, err
	}
	l := &Library{lib: lib}
	for i, name := range functions {
		l.fn[i] = lib.Symbol(name)
	}
	return l, nil
}

// Path is the candidate that was opened.
func (l *Library) Path() string { return zero.Or(l).lib.Path() }

// Attempts are the candidates that were tried before, and why they were not used.
func (l *Library) Attempts() []driver.Attempt {
	return zero.Or(l).lib.Attempts()
}

// Version implements [API].
func (l *Library) Version() [3]int { return zero.Or(l).lib.Version() }

// block is the argument block of a call with what it points to. It is on the heap: words that are addresses
// of it stay true.
type block struct {
	ffi.Frame
	words       [ffi.MaxWords]uintptr
	alpha, beta uint64
	out         uintptr
}

var blocks = sync.Pool{New: func() any { return new(block) }}

// call makes one call. The words are integers, handles and addresses of what is on the heap, or on the device.
func (l *Library) call(f function, b *block, words ...uintptr) Status {
	if l == nil || l.fn[f] == 0 {
		return StatusSymbolMissing
	}
	copy(b.words[:], words)
	s := Status(int32(b.Call(l.fn[f], len(words))))
	if s < StatusSuccess { // ours are negative
		return StatusImpossibleValue
	}
	return s
}

// do is call with a block of its own.
func (l *Library) do(f function, words ...uintptr) Status {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	return l.call(f, b, words...)
}
