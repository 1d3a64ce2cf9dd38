package compile

import (
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// numbers rejects a type that gpu.Bits does not take.
func (k *kctx) numbers(in *ssa.Call, name string, t types.Type) {
	list := scalars(t, 0, nil)
	size := int64(0)
	for _, l := range list {
		if l.k == kNone || l.k == kPred || l.size < 4 {
			list = nil
			break
		}
		size += l.size
	}
	if len(list) == 0 || size > 8 || size != sizes.Sizeof(t) {
		k.fail(in.Pos(), "gpu.%s takes numbers of 4 or 8 bytes, and structs and arrays of them of at most 8 bytes, not a %s", name, t)
	}
}

// bitsOf are the bits of a value, as a number of 64 bits.
func (k *kctx) bitsOf(in *ssa.Call, x val, t types.Type) val {
	k.numbers(in, "Bits", t)
	words := k.words(x, nil)
	if len(words) == 1 {
		return k.pure("cvt.u64.u32", k64, words[0].String())
	}
	v := k.reg(k64)
	k.emit("mov.b64", []string{v.r}, "{"+k.register(words[0]).r+", "+k.register(words[1]).r+"}")
	return v
}

// words are the bits of a value by 32.
func (k *kctx) words(x val, list []val) []val {
	switch x.k {
	case kAgg:
		for _, e := range x.e {
			list = k.words(e, list)
		}
		return list
	case kF32:
		return append(list, k.pure("mov.b32", k32, k.register(x).r))
	case k64, kF64:
		lo, hi := k.reg(k32), k.reg(k32)
		k.emit("mov.b64", []string{lo.r, hi.r}, k.register(x).r)
		return append(list, lo, hi)
	}
	return append(list, x)
}

// ofWords is the value of a type that has the next words as its bits.
func (k *kctx) ofWords(t types.Type, words *[]val) val {
	v := val{k: kAgg}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		for f := range u.Fields() {
			v.e = append(v.e, k.ofWords(f.Type(), words))
		}
		return v
	case *types.Array:
		for range u.Len() {
			v.e = append(v.e, k.ofWords(u.Elem(), words))
		}
		return v
	}
	kd := kindOf(t.Underlying().(*types.Basic))
	next := (*words)[0]
	*words = (*words)[1:]
	switch kd {
	case kF32:
		return k.pure("mov.b32", kF32, next.r)
	case k64, kF64:
		v := k.reg(kd)
		k.emit("mov.b64", []string{v.r}, "{"+next.r+", "+(*words)[0].r+"}")
		*words = (*words)[1:]
		return v
	}
	return next
}
