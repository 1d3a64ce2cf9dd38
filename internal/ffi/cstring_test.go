package ffi_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/ffi"
)

func TestCString(t *testing.T) {
	for _, s := range []string{"", "a", strings.Repeat("long ", 100), "ümläut"} {
		p, ok := ffi.CString(s)
		require.True(t, ok)
		assert.Equal(t, s, ffi.GoString(p))
	}
	_, ok := ffi.CString("a\x00b")
	assert.False(t, ok)
	assert.Equal(t, "", ffi.GoString(nil))
}
