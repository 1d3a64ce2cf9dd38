package compile

import (
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// A string is a slice of bytes in constant memory: there are no others than constants and parts of them.

func isText(b *types.Basic) bool { return b.Info()&types.IsString != 0 }

// constantText is a constant string.
func (k *kctx) constantText(s string) val {
	table := make([]uint64, len(s))
	for i := range len(s) {
		table[i] = uint64(s[i])
	}
	return val{k: kAgg, e: []val{k.tableOf("string$bytes", types.Typ[types.Byte], table), cst(k64, uint64(len(s)))}}
}

// tableOf is a table of the compiler's own.
func (k *kctx) tableOf(name string, t *types.Basic, list []uint64) val {
	m := map[int64]val{}
	for i, c := range list {
		m[int64(i)*sizes.Sizeof(t)] = cst(kindOf(t), c)
	}
	return val{k: kPtr, p: &ptr{sp: spConst, base: tableMark + name, g: m, t: types.NewArray(t, int64(max(1, len(list)))), align: 16}}
}

// textOf is what a string is, if that is known.
func textOf(v val) (string, bool) {
	p, n := v.e[0].p, v.e[1]
	if p.g == nil || !n.isC {
		return "", n.isC && n.c == 0
	}
	b := make([]byte, n.c)
	for i := range b {
		b[i] = byte(p.g[p.off+int64(i)].c)
	}
	return string(b), true
}

// equalText compares strings.
func (k *kctx) equalText(in *ssa.BinOp, a, b val) val {
	s, okA := textOf(a)
	t, okB := textOf(b)
	i := types.Typ[types.Int]
	switch {
	case okA && okB:
		return cst(kPred, b2u(s == t))
	case okA && s == "" || okB && t == "":
		return k.bin(token.EQL, i, i, a.e[1], b.e[1], in.Pos())
	}
	same := k.reg(kPred)
	k.mov(same, k.bin(token.EQL, i, i, a.e[1], b.e[1], in.Pos()))
	n := k.choose(same, a.e[1], cst(k64, 0), in.Pos())
	k.each(cst(k64, 0), cst(k64, 1), n, func(i val) {
		x, y := k.load(k.at(a.e[0], i, 1), types.Typ[types.Byte], in.Pos()), k.load(k.at(b.e[0], i, 1), types.Typ[types.Byte], in.Pos())
		k.emit("and.pred", []string{same.r}, same.r, k.pure("setp.eq.u32", kPred, x.r, y.r).r)
	})
	return same
}

// rangeText begins a loop over a string: tables of the places and of the runes, their number, and how many passes there were.
func (k *kctx) rangeText(in *ssa.Range, x val) val {
	if _, ok := in.X.Type().Underlying().(*types.Basic); !ok {
		k.fail(in.Pos(), "a kernel has no maps: use an array")
	}
	s, ok := textOf(x)
	if !ok {
		k.fail(in.Pos(), "a kernel ranges over a string that is known when it is compiled; over another one, range over len(s), and take s[i]")
	}
	var at, runes []uint64
	for i, r := range s {
		at, runes = append(at, uint64(i)), append(runes, uint64(uint32(r)))
	}
	n := len(at)
	done := k.reg(k64)
	k.mov(done, cst(k64, 0))
	return val{k: kAgg, e: []val{k.tableOf("string$places", types.Typ[types.Int32], append(at, 0)), k.tableOf("string$runes", types.Typ[types.Int32], append(runes, 0)), cst(k64, uint64(n)), done}}
}

// nextRune is one pass: whether there is one, the place and the rune.
func (k *kctx) nextRune(x val) val {
	b, i := types.Typ[types.Int], k.reg(k64)
	k.emit("mov.b64", []string{i.r}, x.e[3].r)
	i.hi = max(1, x.e[2].c)
	more := k.bin(token.LSS, b, b, i, x.e[2], token.NoPos)
	at := k.load(k.at(x.e[0], i, 4), types.Typ[types.Int32], token.NoPos)
	r := k.load(k.at(x.e[1], i, 4), types.Typ[types.Int32], token.NoPos)
	k.emit("add.s64", []string{x.e[3].r}, i.r, "1")
	return val{k: kAgg, e: []val{more, k.convert(types.Typ[types.Int32], b, at), r}}
}
