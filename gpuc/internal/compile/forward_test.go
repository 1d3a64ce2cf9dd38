package compile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestForward loads what was stored, where nothing between can have changed it.
func TestForward(t *testing.T) {
	line := func(op, dst, text string) ins {
		i := ins{op: op, text: text, src: regsIn(text), side: strings.HasPrefix(op, "st.")}
		if dst != "" {
			i.dst = []string{dst}
		}
		return i
	}
	begin := []ins{line("mov.u64", "%rd1", "local_K_0"), line("add.s64", "%rd2", "%rd1, %rd9"), line("mov.u64", "%rd3", "local_K_1"), line("st.local.u32", "", "[%rd2+4], %r1")}
	load := line("ld.local.u32", "%r2", "[%rd2+4]")
	for what, between := range map[string][]ins{
		"":                              nil,
		"a store to another array":      {line("st.local.u32", "", "[%rd3], %r5")},
		"another array by its name":     {line("st.local.u32", "", "[local_K_1+8], %r5")},
		"global memory":                 {line("st.global.u32", "", "[%rd7], %r5")},
		"no: another place":             {line("st.local.u32", "", "[%rd2], %r5")},
		"no: the same array":            {line("st.local.u32", "", "[local_K_0+4], %r5")},
		"no: an array nobody knows":     {line("st.local.u32", "", "[%rd8], %r5")},
		"no: a vector":                  {line("st.local.v2.u32", "", "[%rd1], {%r5, %r6}")},
		"no: the register is another":   {line("mov.b32", "%r1", "7")},
		"no: the address is another":    {line("add.s64", "%rd2", "%rd1, 4")},
		"no: a place to come to":        {{label: "$L"}},
		"no: a call":                    {{op: "call", call: &callee{}, side: true}},
		"no: a store under a condition": {{op: "st.local.u32", text: "[%rd2+4], %r5", src: []string{"%rd2", "%r5"}, guard: "%p1", side: true}},
	} {
		code := forward(append(append(append([]ins{}, begin...), between...), load))
		want := "mov.b32"
		if strings.HasPrefix(what, "no: ") {
			want = "ld.local.u32"
		}
		assert.Equal(t, want, code[len(code)-1].op, what)
	}
	wide := load
	wide.op = "ld.local.s32"
	assert.Equal(t, "ld.local.s32", forward(append(append([]ins{}, begin...), wide))[4].op, "another type")
}
