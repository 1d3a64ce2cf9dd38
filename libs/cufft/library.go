package cufft

import (
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/ffi"
	"github.com/purecuda/purecuda/internal/zero"
)

// PathVariable names the environment variable that replaces the candidates of [Open] by one file.
const PathVariable = "PURECUDA_CUFFT_PATH"

// oldest is the version that brings all functions: that of CUDA 11.0.
var oldest = library.Since{10, 0}

// function is an index into functions and Library.fn.
type function int

const (
	fnCreate function = iota
	fnDestroy
	fnSetAutoAllocation
	fnMakePlan
	fnSetStream
	fnSetWorkArea
	fnExecC2C
	fnExecR2C
	fnExecC2R
	fnExecZ2Z
	fnExecD2Z
	fnExecZ2D

	functionCount
)

var functions = [functionCount]string{
	fnCreate:            "cufftCreate",
	fnDestroy:           "cufftDestroy",
	fnSetAutoAllocation: "cufftSetAutoAllocation",
	fnMakePlan:          "cufftMakePlanMany64",
	fnSetStream:         "cufftSetStream",
	fnSetWorkArea:       "cufftSetWorkArea",
	fnExecC2C:           "cufftExecC2C",
	fnExecR2C:           "cufftExecR2C",
	fnExecC2R:           "cufftExecC2R",
	fnExecZ2Z:           "cufftExecZ2Z",
	fnExecD2Z:           "cufftExecD2Z",
	fnExecZ2D:           "cufftExecZ2D",
}

// Candidates lists where Open looks for cuFFT, in order: the file that PURECUDA_CUFFT_PATH names and nothing
// else if it is set. Otherwise it is a cuFFT that is in the process already, then the toolkit of CUDA_PATH and
// CUDA_HOME, then what the system's loader knows. Last come the toolkits in their usual folders, and the
// active Python environment. It is empty where NVIDIA has no cuFFT.
func Candidates() []string { return library.CUFFT.Candidates() }

// Library is the cuFFT of this machine. It implements [API] and is safe for concurrent use. It is never unloaded.
type Library struct {
	lib *library.Library
	fn  [functionCount]uintptr
}

var _ API = (*Library)(nil)

// Open loads cuFFT. With no argument it looks in the places where it is installed (see [Candidates]); otherwise it tries the
// given files, in order. It reads hundreds of megabytes.
//
// The error is of kind [driver.ErrLibraryUnavailable] if no candidate is there or the platform has none, with
// every place and what to install. It is of kind [driver.ErrDriverLibraryLoadFailed] if one is there and none
// can be used, because it is too old, for example.
func Open(candidates ...string) (*Library, error) {
	d := library.CUFFT
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
	words                [ffi.MaxWords]uintptr
	plan                 int32
	workArea             uint64
	n, inEmbed, outEmbed [3]int64
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
