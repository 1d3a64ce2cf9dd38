package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGenerated holds that the generated files are what the lists give.
func TestGenerated(t *testing.T) {
	if _, err := os.Stat("../../entries.txt"); err != nil {
		t.Skipf("the tests run without their source: %v", err)
	}
	files, count, err := generate("../..")
	require.NoError(t, err)
	assert.NotZero(t, count)
	for file, want := range files {
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.True(t, string(want) == string(got), "%s is not what the lists give: run go generate ./driver", file)
	}
}

// TestLibrariesAreGenerated holds that the lowest layers of the other libraries are what their lists give.
func TestLibrariesAreGenerated(t *testing.T) {
	lists, err := filepath.Glob("../../../libs/*/functions.txt")
	require.NoError(t, err)
	if _, err := os.Stat("../../../nvrtc/functions.txt"); err != nil {
		t.Skipf("the tests run without their source: %v", err)
	}
	for _, list := range append(lists, "../../nvml/functions.txt", "../../../nvrtc/functions.txt") {
		folder := filepath.Dir(list)
		files, count, err := generateLibrary(folder)
		require.NoError(t, err)
		assert.NotZero(t, count)
		for file, want := range files {
			got, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.True(t, string(want) == string(got), "%s is not what the list gives: run go generate in %s", file, folder)
		}
	}
}

// list is a small library, of which a test changes a line.
const list = `name cuSMALL
library CUSMALL
prefix cusmall
oldest 1.2
simulated cusmalltest
header cusmall.h
version CUSMALL_VERSION

== Status int32 cusmallStatus_t
# Status is what a function of cuSMALL returns.
StatusSuccess CUSMALL_SUCCESS 0 success
@200 StatusNew CUSMALL_NEW 1 ErrUnsupported: it is new

== RawHandle uintptr cusmallHandle_t
# RawHandle is a cusmallHandle_t.

== functions
cusmallCreate
	c cusmallHandle_t *
	go Create(out h RawHandle)
cusmallScale
	c cusmallHandle_t, float *, size_t, double
	go scale(h RawHandle, x driver.DevicePtr, n uint64, by float64)
`

// What a list gives for one library, and what is wrong with others.
func TestLibrary(t *testing.T) {
	generated := func(from, to string) (map[string][]byte, error) {
		folder := filepath.Join(t.TempDir(), "cusmall")
		require.NoError(t, os.Mkdir(folder, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "functions.txt"), []byte(strings.Replace(list, from, to, 1)), 0o644))
		files, _, err := generateLibrary(folder)
		short := map[string][]byte{}
		for file, text := range files {
			name, err := filepath.Rel(folder, file)
			require.NoError(t, err)
			short[name] = text
		}
		return short, err
	}
	files, err := generated("", "")
	require.NoError(t, err)
	for file, parts := range map[string][]string{
		"zapi.go":                 {"type API interface", "Create() (h RawHandle, s Status)", "type RawHandle uintptr"},
		"zcalls.go":               {"r = status.NotZero(r, h)", "ffi.Float64(by)", "l.callFloats(fnScale, &c.Frame, 4, 0b1000)"},
		"zlibrary.go":             {"library.CUSMALL", "library.Since{1, 2}", `fnScale:  "cusmallScale"`},
		"zstatus.go":              {"case StatusNew:\n\t\te.Kind = driver.ErrUnsupported", `{"CUSMALL_NEW", "it is new"}`},
		"testdata/abi_check.c":    {"#if CUSMALL_VERSION >= 200\nSAME(CUSMALL_NEW, 1);\n#endif", "(*check_cusmallScale)(cusmallHandle_t, float *, size_t, double) = cusmallScale;"},
		"cusmalltest/zlibrary.go": {"package cusmalltest", "func (l *Library) Fail(method string, s cusmall.Status)"},
	} {
		for _, part := range parts {
			assert.Contains(t, string(files[filepath.FromSlash(file)]), part, file)
		}
	}
	for _, c := range []struct{ from, to, want string }{
		{"name cu", "named cu", "functions.txt:1: \"named\" is no word of a list"},
		{"== Status int32", "== Answer int32", "want a type Status or Result"},
		{"== functions", "== function", "want types, which begin with =="},
		{"size_t, double", "size_t, float", "by is float64, and C has float"},
		{"out h RawHandle", "h RawHandle", "see out, ref, list and null"},
		{"NEW 1 Err", "NEW x Err", "functions.txt:12: "},
		{"float *, size_t, double", "float *, size_t", "has 3 C parameters and 4 Go ones"},
	} {
		_, err := generated(c.from, c.to)
		assert.ErrorContains(t, err, c.want)
	}
}

// TestCheck holds that a method that does not fit its prototype is found.
func TestCheck(t *testing.T) {
	all := known{goType: map[string]string{"CUstream": "Stream", "CUmemLocation": "MemLocation"}}
	enums := []*enum{{typ: "Limit", c: "CUlimit"}}
	for _, c := range []struct{ head, c, method, want string }{
		{"cuX 1 -", "size_t *, const CUmemLocation *, CUlimit", "X(out n uint64, ref at MemLocation, limit Limit)", ""},
		{"cuX 1 -", "size_t", "X(n uint32)", "n is uint32, and C has size_t, which is uint64"},
		{"cuX 1 -", "size_t *", "X(n uint64)", "see out, ref, list and null"},
		{"cuX 1 -", "size_t", "X(out n uint64)", "see out, ref, list and null"},
		{"cuX 1 -", "CUlimit, size_t", "X(value uint64, limit Limit)", "value is uint64, and C has CUlimit, which is Limit"},
		{"cuX 1 -", "CUmemLocation *, size_t", "X(list at MemLocation uint32)", "counted by uint32, and C has size_t"},
		{"cuX 1 -", "CUnew", "X(n uint64)", "no Go type is known for CUnew"},
		{"cuX 1 -", "void *", "X(n uint64)", "n is uint64, and C has void *"},
		{"cuX 1 -", "CUstream", "X(stream Stream)", "or is hot, work or cold"},
		{"cuX 1 - hot", "CUstream", "X(stream Stream)", ""},
		{"cuX 1 - ctx", "CUstream", "X(stream Stream)", ""},
	} {
		e := &entry{c: c.c}
		require.NoError(t, e.parseHead(strings.Fields(c.head)))
		require.NoError(t, e.parseSignature(c.method, nil))
		if err := e.check(all, enums); c.want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, c.want)
		}
	}
}
