package compile

import (
	"fmt"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// numbers lists the numbers and bools in a type. It rejects one that gpu.Bits does not take.
func (k *kctx) numbers(in *ssa.Call, name string, t types.Type) []scalar {
	list := scalars(t, 0, nil)
	for _, l := range list {
		if l.k == kNone {
			list = nil
			break
		}
	}
	if len(list) == 0 || sizes.Sizeof(t) > 8 {
		k.fail(in.Pos(), "gpu.%s takes numbers and bools, and structs and arrays of them of at most 8 bytes, not %s", name, t)
	}
	return list
}

// bitsOf are the bits of a value, as a number of 64 bits.
func (k *kctx) bitsOf(in *ssa.Call, x val, t types.Type) val {
	words := make([]val, (sizes.Sizeof(t)+3)/4)
	leaves := flat(x, nil)
	for i, l := range k.numbers(in, "Bits", t) {
		v, at := leaves[i], l.off/4
		switch {
		case l.size == 8:
			words[0], words[1] = k.reg(k32), k.reg(k32)
			k.emit("mov.b64", []string{words[0].r, words[1].r}, k.register(v).r)
		case v.k == kF32:
			words[at] = k.pure("mov.b32", k32, k.register(v).r)
		case l.size == 4:
			words[at] = v
		default:
			words[at] = k.orBits(words[at], v, l)
		}
	}
	for i, w := range words {
		if w.k == kNone { // there is none but the space behind the last number
			words[i] = cst(k32, 0)
		}
	}
	if len(words) == 1 {
		return k.pure("cvt.u64.u32", k64, words[0].String())
	}
	v := k.reg(k64)
	k.emit("mov.b64", []string{v.r}, "{"+k.register(words[0]).r+", "+k.register(words[1]).r+"}")
	return v
}

// orBits adds a number of 8 or 16 bits, or a bool, to the others of a word.
func (k *kctx) orBits(word, v val, l scalar) val {
	if v.k == kPred {
		v = k.pure("selp.b32", k32, "1", "0", k.register(v).r)
	} else {
		v = k.pure("and.b32", k32, k.register(v).r, fmt.Sprint(1<<(8*l.size)-1))
	}
	if shift := l.off % 4 * 8; shift > 0 {
		v = k.pure("shl.b32", k32, v.r, fmt.Sprint(shift))
	}
	if word.k == kNone {
		return v
	}
	return k.pure("or.b32", k32, word.r, v.r)
}

// fromBits is the value of a type with some bits.
func (k *kctx) fromBits(in *ssa.Call, t types.Type, bits val) val {
	words := []val{k.pure("cvt.u32.u64", k32, bits.String()), k.pure("cvt.u32.u64", k32, k.pure("shr.u64", k64, bits.String(), "32").r)}
	var leaves []val
	for _, l := range k.numbers(in, "FromBits", t) {
		v := words[l.off/4]
		if shift := l.off % 4 * 8; shift > 0 {
			v = k.pure("shr.u32", k32, v.r, fmt.Sprint(shift))
		}
		switch {
		case l.size == 8:
			v = k.reg(l.k)
			k.emit("mov.b64", []string{v.r}, "{"+words[0].r+", "+words[1].r+"}")
		case l.k == kF32:
			v = k.pure("mov.b32", kF32, v.r)
		case l.k == kPred:
			v = k.pure("setp.ne.u32", kPred, k.pure("and.b32", k32, v.r, "255").r, "0")
		default:
			v = k.narrow(l.t, v)
		}
		leaves = append(leaves, v)
	}
	return rebuild(k.zero(t), &leaves)
}
