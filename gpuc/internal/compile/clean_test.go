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

// TestVotesThatNobodyReads has votes whose results are read, and others whose results are not, or only by what nobody reads.
func TestVotesThatNobodyReads(t *testing.T) {
	code := []ins{
		{op: "vote.sync.ballot.b32", dst: []string{"%r1"}, src: []string{"%p1", "%r9"}, text: "%p1, %r9", side: true},
		{op: "vote.sync.any.pred", dst: []string{"%p2"}, src: []string{"%p1"}, text: "%p1, -1", side: true},
		{op: "vote.sync.ballot.b32", dst: []string{"%r2"}, src: []string{"%p1"}, text: "%p1, -1", side: true},
		{op: "st.global.u32", src: []string{"%rd1", "%r2"}, text: "[%rd1], %r2", side: true},
	}
	assert.Equal(t, []ins{
		{op: "bar.warp.sync", src: []string{"%r9"}, text: "%r9", side: true}, {op: "bar.warp.sync", text: "-1", side: true}, code[2], code[3],
	}, clean(slices.Clone(code)))
	code = []ins{
		{op: "vote.sync.ballot.b32", dst: []string{"%r1"}, src: []string{"%p1"}, text: "%p1, -1", side: true},
		{op: "vote.sync.ballot.b32", dst: []string{"%r2"}, src: []string{"%p2", "%r1"}, text: "%p2, %r1", side: true},
		{op: "setp.ne.u32", dst: []string{"%p3"}, src: []string{"%r2"}, text: "%r2, 0"},
	}
	assert.Equal(t, []ins{code[0], {op: "bar.warp.sync", src: []string{"%r1"}, text: "%r1", side: true}}, clean(slices.Clone(code)))
}
