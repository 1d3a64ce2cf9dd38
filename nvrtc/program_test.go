package nvrtc

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

func TestOptionsInNVRTCsWords(t *testing.T) {
	assert.Equal(t, []string{"--no-source-include", "--std=c++17"}, Options{}.list(13000))
	assert.Equal(t, []string{"--std=c++17"}, Options{}.list(11020))
	assert.Equal(t, []string{
		"--std=c++20", "--fmad=false", "--maxrregcount=32",
		"--define-macro=A", "--define-macro=B=2", "--define-macro=C=f(x, y)",
		"--include-path=/z", "--include-path=/a b", "--restrict",
	}, Options{
		IncludePaths: []string{"/z", "/a b"}, Defines: map[string]string{"C": "f(x, y)", "B": "2", "A": ""},
		Std: "c++20", NoFMA: true, MaxRegisters: 32,
		Extra: []string{"--restrict"},
	}.list(12040))
	assert.Contains(t, Options{FastMath: true}.list(0), "--use_fast_math")
}

func TestProgramsThatCannotBe(t *testing.T) {
	good := Target{Kind: PTX, Arch: 75}
	for name, p := range map[string]Program{
		"no source":      {},
		"only space":     {Source: " \n"},
		"fast and exact": {Source: "x", Options: Options{FastMath: true, NoFMA: true}},
		"registers":      {Source: "x", Options: Options{MaxRegisters: -1}},
		"NUL in source":  {Source: "a\x00b"},
		"NUL in name":    {Source: "x", Name: "\x00"},
		"NUL in header":  {Source: "x", Headers: map[string]string{"h": "\x00"}},
		"NUL in define":  {Source: "x", Options: Options{Defines: map[string]string{"A": "\x00"}}},
		"NUL in names":   {Source: "x", NameExpressions: []string{"\x00"}},
	} {
		_, err := Compile(t.Context(), &Library{fn: present}, p, good)
		assert.ErrorIs(t, err, driver.ErrUnsupported, "no NVRTC at all is said first: %s", name)
		assert.ErrorIs(t, p.check(), driver.ErrInvalidArgument, name)
	}
	for _, bad := range []Target{{}, {Kind: PTX}, {Kind: 9, Arch: 90}, {Kind: CUBIN, Arch: 90, Suffix: "x"}} {
		assert.ErrorIs(t, bad.check(), driver.ErrInvalidArgument)
	}
}

// present is no function.
var present [functionCount]uintptr

func TestTargets(t *testing.T) {
	assert.Equal(t, "sm_90a", Target{CUBIN, 90, "a"}.String())
	assert.Equal(t, "compute_100f", Target{PTX, 100, "f"}.String())
	assert.Equal(t, []string{"--gpu-architecture=compute_90", "-dlto"}, Target{Kind: LTOIR, Arch: 90}.options())
}

func TestErrorsShowTheLines(t *testing.T) {
	p := Program{
		Source:  "one\r\ntwo\nthree\nfour\nfive\nsix",
		Name:    "k.cu",
		Headers: map[string]string{"h.h": "head"},
	}
	const log = `k.cu(3): error: identifier "x" is undefined
    three
    ^

k.cu(3): error: expected a ";"
h.h(1): catastrophic error: cannot open source file "none.h"
k.cu(2): warning #177-D: variable "w" was declared but never referenced
elsewhere.h(9): error: no such thing
k.cu(999): error: beyond the end

4 errors detected in the compilation of "k.cu".
`
	err := compileFailed(nil, "nvrtcCompileProgram", ResultCompilation, p, log, 12040, []string{"--gpu-architecture=sm_90", "--std=c++17"})
	assert.Equal(t, `KernelCompileFailed: nvrtcCompileProgram: NVRTC_ERROR_COMPILATION (6): the source does not compile: `+
		`k.cu(3): error: identifier "x" is undefined [NVRTC 12.4, --gpu-architecture=sm_90 --std=c++17]`, err.Error())
	assert.ErrorIs(t, err, ResultCompilation)
	assert.ErrorIs(t, err, driver.ErrKernelCompileFailed)
	var e *driver.Error
	require.ErrorAs(t, err, &e)
	assert.Contains(t, e.Log, "4 errors detected")
	assert.Contains(t, e.Log, `
k.cu:3: error: identifier "x" is undefined
     1 | one
     2 | two
>    3 | three
     4 | four
     5 | five
h.h:1: catastrophic error: cannot open source file "none.h"
>    1 | head`)
}

func TestResultsHaveNames(t *testing.T) {
	assert.Equal(t, "NVRTC_ERROR_CANCELLED (16): the compile was cancelled", ResultCancelled.Error())
	assert.Equal(t, "NVRTC_ERROR_99 (99): a result that is newer than this program", Result(99).Error())
}

func FuzzDecodeImage(f *testing.F) {
	f.Add((&Artifact{Code: []byte("code"), Log: "log", LoweredNames: map[string]string{"a": "b"}, CompileTime: 5}).encode())
	f.Add([]byte{})
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		i, ok := decodeArtifact(b, Target{Kind: PTX, Arch: 75})
		if !ok {
			return
		}
		again, ok := decodeArtifact(i.encode(), i.Target)
		assert.True(t, ok)
		assert.Equal(t, i, again)
	})
}
