package compile

import (
	"go/token"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/tools/go/ssa"
)

// TestTrapsAreGuarded makes checks of a block that is computed early: each fails only where the block runs.
func TestTrapsAreGuarded(t *testing.T) {
	reg := func(k kind, r string) val { return val{k: k, r: r} }
	for name, check := range map[string]func(k *kctx){
		"check":  func(k *kctx) { k.check(reg(k64, "%rd1"), reg(k64, "%rd2"), token.NoPos) },
		"le":     func(k *kctx) { k.le(reg(k64, "%rd1"), reg(k64, "%rd2"), token.NoPos) },
		"notNil": func(k *kctx) { k.notNil(val{k: kPtr, p: &ptr{sp: spGlobal, base: "%rd3", maybe: true}}, token.NoPos) },
		"null":   func(k *kctx) { k.notNil(val{k: kPtr, p: &ptr{sp: spGlobal, base: "%rd3", null: true}}, token.NoPos) },
		"trap":   func(k *kctx) { k.trap(token.NoPos, "no", "0", "0", "%p1") },
	} {
		k := newKctx(&Program{fset: token.NewFileSet()}, Options{Arch: 75, Checks: ChecksReport}, &Source{fn: &ssa.Function{}})
		k.unit, k.guard = &unit{}, reg(kPred, "%p9")
		check(k)
		last := k.out[len(k.out)-1]
		assert.Equal(t, "bra", last.op, name)
		both := k.out[len(k.out)-2]
		assert.Equal(t, "and.pred", both.op, name)
		assert.Equal(t, last.guard, both.dst[0], name)
		assert.Equal(t, "%p9", both.src[0], name)
		_, known := k.cur.get("not nil %rd3")
		assert.False(t, known, "who does not run the block learns nothing")
	}
	k := newKctx(&Program{fset: token.NewFileSet()}, Options{}, &Source{fn: &ssa.Function{}})
	k.unit, k.guard = &unit{}, reg(kPred, "%p9")
	k.trap(token.NoPos, "panic", "0", "0", "")
	assert.Equal(t, "%p9", k.out[len(k.out)-1].guard)
}
