package main

import (
	"os"
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
