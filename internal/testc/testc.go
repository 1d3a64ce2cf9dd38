// Package testc builds what tests have in C: libraries that stand for NVIDIA's, and the proof that declarations agree with
// NVIDIA's headers. A test is skipped, with the reason, where there is no compiler for this processor.
package testc

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/purecuda/purecuda/internal/dl"
	"github.com/purecuda/purecuda/internal/ffi"
)

// Build builds a shared library from a source file, in a folder of its own.
func Build(t testing.TB, source string, flags ...string) (file string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("no C compiler to build %s with", source)
	}
	read(t, source)
	file = filepath.Join(t.TempDir(), "libfake.so")
	args := append([]string{"-shared", "-fPIC", "-O1", "-o", file, source}, flags...)
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Skipf("the C compiler cannot build for this processor: %s", out)
	}
	return file
}

// Seen returns what asks a library that Build has built for the words that reached it. Its function fake_seen(int64_t *words)
// stores at most 256 of them and returns how many.
func Seen(t testing.TB, file string) func() []int64 {
	t.Helper()
	lib, _, err := dl.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	ask, words := lib.Symbol("fake_seen"), make([]int64, 256)
	return func() []int64 {
		b := new(struct {
			ffi.Frame
			words [ffi.MaxWords]uintptr
		})
		b.words[0] = uintptr(unsafe.Pointer(unsafe.SliceData(words)))
		return append([]int64{}, words[:int32(b.Call(ask, 1))]...)
	}
}

// CheckHeader compares the declarations of a source file with a header of NVIDIA, where that and a compiler are. others are further
// files that the source includes.
func CheckHeader(t testing.TB, header, source string, others ...string) {
	t.Helper()
	folder := os.Getenv("PURECUDA_CUDA_INCLUDE")
	if folder == "" {
		folder = "/usr/local/cuda/include"
	}
	if _, err := os.Stat(filepath.Join(folder, header)); err != nil {
		t.Skipf("no %s: set PURECUDA_CUDA_INCLUDE to the folder that has it, and the headers of CUDA (%v)", header, err)
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("no compiler: %v", err)
	}
	read(t, append(others, source)...)
	if out, err := exec.Command(cc, "-std=c11", "-fsyntax-only", "-I"+folder, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// read reads files for the compiler, so that go test knows of a change.
func read(t testing.TB, files ...string) {
	t.Helper()
	for _, file := range files {
		if _, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
}
