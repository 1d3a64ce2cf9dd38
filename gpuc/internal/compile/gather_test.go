package compile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestGather has two checks with a load between them, a store under a condition, and a third check.
func TestGather(t *testing.T) {
	check := func(p, l string) ins {
		return ins{op: "bra", guard: p, target: l, text: l, note: "a check", side: true}
	}
	code := []ins{
		check("%p1", "$F1"),
		{op: "ld.global.u32", dst: []string{"%r1"}, src: []string{"%rd1"}, text: "[%rd1]"},
		{op: "add.s64", dst: []string{"%rd2"}, src: []string{"%rd1"}, text: "%rd1, 4"},
		check("%p2", "$F2"),
		{op: "bra", guard: "%p3", guardNot: true, target: "$L", text: "$L", side: true},
		{op: "st.shared.u32", src: []string{"%rd2", "%r1"}, text: "[%rd2], %r1", side: true},
		{label: "$L"},
		{op: "ld.global.u32", dst: []string{"%r2"}, src: []string{"%rd2"}, text: "[%rd2]"},
		check("%p4", "$F4"),
		{op: "setp.ne.u32", dst: []string{"%p5"}, src: []string{"%r2"}, text: "%r2, 0"},
		check("%p5", "$F5"), // has to wait for a load
		{op: "ret", side: true},
	}
	for _, l := range []string{"$F1", "$F2", "$F4", "$F5"} {
		code = append(code, ins{label: l})
	}
	k := &kctx{o: Options{Checks: ChecksReport}, nreg: map[kind]int{kPred: 5}}
	var b strings.Builder
	for _, i := range k.gather(code) {
		i.write(&b)
	}
	assert.Equal(t, `	or.pred %p6, %p1, %p2;
	or.pred %p7, %p6, %p4;
	@%p7 bra $L1; // one of the checks below
	add.s64 %rd2, %rd1, 4;
	ld.global.u32 %r1, [%rd1];
	ld.global.u32 %r2, [%rd2];
	@%p3 st.shared.u32 [%rd2], %r1;
	setp.ne.u32 %p5, %r2, 0;
	@%p5 bra $F5; // a check
	ret;
$F1:
$F2:
$F4:
$F5:
$L1:
	@%p1 bra $F1; // a check
	@%p2 bra $F2; // a check
	bra $F4; // a check
`, strings.ReplaceAll(b.String(), markLabel, "$L"))
}
