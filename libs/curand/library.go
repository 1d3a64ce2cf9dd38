package curand

import (
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/ffi"
	"github.com/purecuda/purecuda/internal/zero"
)

// PathVariable names the environment variable that replaces the candidates of [Open] by one file.
const PathVariable = "PURECUDA_CURAND_PATH"

// oldest is the version that brings the ordering Legacy: that of CUDA 11.0.
var oldest = library.Since{10, 2}

// function is an index into functions and Library.fn.
type function int

const (
	fnCreate function = iota
	fnDestroy
	fnSetStream
	fnSetOrdering
	fnSetSeed
	fnSetOffset
	fnSeeds
	fnGenerate
	fnUniform
	fnUniformDouble
	fnNormal
	fnNormalDouble
	fnLogNormal
	fnLogNormalDouble
	fnPoisson

	functionCount
)

var functions = [functionCount]string{
	fnCreate:          "curandCreateGenerator",
	fnDestroy:         "curandDestroyGenerator",
	fnSetStream:       "curandSetStream",
	fnSetOrdering:     "curandSetGeneratorOrdering",
	fnSetSeed:         "curandSetPseudoRandomGeneratorSeed",
	fnSetOffset:       "curandSetGeneratorOffset",
	fnSeeds:           "curandGenerateSeeds",
	fnGenerate:        "curandGenerate",
	fnUniform:         "curandGenerateUniform",
	fnUniformDouble:   "curandGenerateUniformDouble",
	fnNormal:          "curandGenerateNormal",
	fnNormalDouble:    "curandGenerateNormalDouble",
	fnLogNormal:       "curandGenerateLogNormal",
	fnLogNormalDouble: "curandGenerateLogNormalDouble",
	fnPoisson:         "curandGeneratePoisson",
}

// Candidates lists where Open looks for cuRAND, in order: the file that PURECUDA_CURAND_PATH names and nothing
// else if it is set. Otherwise it is a cuRAND that is in the process already, then the toolkit of CUDA_PATH and
// CUDA_HOME, then what the system's loader knows. Last come the toolkits in their usual folders, and the
// active Python environment. It is empty where NVIDIA has no cuRAND.
func Candidates() []string { return library.CURAND.Candidates() }

// Library is the cuRAND of this machine. It implements [API] and is safe for concurrent use. It is never unloaded.
type Library struct {
	lib *library.Library
	fn  [functionCount]uintptr
}

var _ API = (*Library)(nil)

// Open loads cuRAND. With no argument it looks in the places where it is installed (see [Candidates]);
// otherwise it tries the given files, in order. It reads a hundred megabytes.
//
// The error is of kind [driver.ErrLibraryUnavailable] if no candidate is there or the platform has none, with
// every place and what to install. It is of kind [driver.ErrDriverLibraryLoadFailed] if one is there and none
// can be used, because it is too old, for example.
func Open(candidates ...string) (*Library, error) {
	d := library.CURAND
	d.Functions, d.Oldest = functions[:], oldest
	d.Brings = "CURAND_ORDERING_PSEUDO_LEGACY"
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
	words [ffi.MaxWords]uintptr
	out   uintptr
}

var blocks = sync.Pool{New: func() any { return new(block) }}

// call makes one call. The words are integers, handles, addresses, and floating-point numbers where a bit of floats
// is set.
func (l *Library) call(f function, b *block, floats uint32, words ...uintptr) Status {
	if l == nil || l.fn[f] == 0 {
		return StatusSymbolMissing
	}
	copy(b.words[:], words)
	var r uintptr
	if floats == 0 {
		r = b.Call(l.fn[f], len(words))
	} else {
		r = b.CallFloats(l.fn[f], len(words), floats)
	}
	s := Status(int32(r))
	if s < StatusSuccess { // ours are negative
		return StatusImpossibleValue
	}
	return s
}

// do is call with a block of its own.
func (l *Library) do(f function, floats uint32, words ...uintptr) Status {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	return l.call(f, b, floats, words...)
}
