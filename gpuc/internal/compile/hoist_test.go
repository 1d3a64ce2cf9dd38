package compile

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What a loop in the loop changes stays in the loop, also where its blocks stand behind the last jump to the head.
func TestHoistBesideALoopBehindTheLoop(t *testing.T) {
	read := ins{op: "mov.b32", dst: []string{"%r2"}, src: []string{"%r1"}, text: "%r1"}
	code := hoist([]ins{
		{op: "mov.b32", dst: []string{"%r1"}, text: "1"},
		{label: "outer"},
		read,
		{op: "red", src: []string{"%r2"}, side: true},
		{label: "inner"},
		{op: "bra", target: "body", text: "body", guard: "%p1", side: true},
		{op: "bra", target: "outer", text: "outer", side: true},
		{label: "body"},
		{op: "add.u32", dst: []string{"%r1"}, src: []string{"%r1"}, side: true},
		{op: "bra", target: "inner", text: "inner", side: true},
	})
	at := func(f func(ins) bool) int { return slices.IndexFunc(code, f) }
	assert.Less(t, at(func(i ins) bool { return i.label == "outer" }), at(func(i ins) bool { return len(i.dst) == 1 && i.dst[0] == "%r2" }))
}
