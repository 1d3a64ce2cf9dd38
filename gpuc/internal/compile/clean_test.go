package compile

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCleanKeepsWhatAGuardMayKeep has a register that a load sets under a condition: what it was before is not dead.
func TestCleanKeepsWhatAGuardMayKeep(t *testing.T) {
	code := []ins{
		{op: "mov.b32", dst: []string{"%r1"}, text: "0"},
		{op: "ld.global.u32", dst: []string{"%r1"}, src: []string{"%rd1"}, text: "[%rd1]", guard: "%p1"},
		{op: "st.global.u32", src: []string{"%rd1", "%r1"}, text: "[%rd1], %r1", side: true},
	}
	assert.Equal(t, code, clean(slices.Clone(code)))
	code[1].guard = ""
	assert.Equal(t, code[1:], clean(slices.Clone(code)))
}
