package compile

import (
	"fmt"
	"go/types"
	"slices"
)

func elem(t types.Type) types.Type { return t.Underlying().(*types.Pointer).Elem() }

func fieldOffset(t types.Type, i int) int64 {
	st := t.Underlying().(*types.Struct)
	var fs []*types.Var
	for j := range st.NumFields() {
		fs = append(fs, st.Field(j))
	}
	return sizes.Offsetsof(fs)[i]
}

type scalar struct {
	off  int64
	t    *types.Basic
	k    kind
	size int64
}

func kindOf(t types.Type) kind {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		switch u.Kind() {
		case types.Bool, types.UntypedBool:
			return kPred
		case types.Int8, types.Int16, types.Int32, types.Uint8, types.Uint16, types.Uint32, types.UntypedRune:
			return k32
		case types.Int, types.Uint, types.Int64, types.Uint64, types.Uintptr, types.UntypedInt:
			return k64
		case types.Float32:
			return kF32
		case types.Float64, types.UntypedFloat:
			return kF64
		case types.String, types.UntypedString:
			return kAgg // as a slice
		}
	case *types.Pointer:
		return kPtr
	case *types.Signature:
		return kFunc
	case *types.Slice, *types.Struct, *types.Array, *types.Tuple:
		return kAgg
	}
	return kNone
}

// scalars lists the leaves of a type with their offsets.
func scalars(t types.Type, off int64, out []scalar) []scalar {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		if isText(u) {
			return append(out, scalar{off, nil, kNone, sizes.Sizeof(u)})
		}
		return append(out, scalar{off, u, kindOf(u), sizes.Sizeof(u)})
	case *types.Array:
		n := sizes.Sizeof(u.Elem())
		for i := range u.Len() {
			out = scalars(u.Elem(), off+i*n, out)
		}
	case *types.Struct:
		for i := range u.NumFields() {
			out = scalars(u.Field(i).Type(), off+fieldOffset(u, i), out)
		}
	default:
		out = append(out, scalar{off, nil, kNone, 8})
	}
	return out
}

func unsigned(b *types.Basic) bool { return b.Info()&types.IsUnsigned != 0 }

func isFloat(k kind) bool { return k == kF32 || k == kF64 }

func isThread(t types.Type) bool {
	p, ok := t.Underlying().(*types.Pointer)
	return ok && fromGPU(p.Elem(), "Thread")
}

// fromGPU reports whether a type is one of package gpu with one of some names.
func fromGPU(t types.Type, names ...string) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == gpuPackage && slices.Contains(names, n.Obj().Name())
}

// piece is what one instruction loads or stores of a struct or an array: one, two or four numbers of a type, or eight of 16 bits as four words.
type piece struct {
	t   *types.Basic
	n   int
	off int64
}

// of is the end of the name of the instruction.
func (p piece) of() string {
	switch p.n {
	case 1:
		return "." + mem(p.t)
	case 8:
		return ".v4.u32"
	}
	return fmt.Sprintf(".v%d.%s", p.n, mem(p.t))
}

// vectors are the pieces of a struct or an array of numbers of one type, where an instruction can take several.
func (p *ptr) vectors(t types.Type) (list []piece) {
	if p.sp == spCell || p.sp == spConst || p.sp == spParam {
		return nil
	}
	switch t.Underlying().(type) {
	case *types.Struct, *types.Array:
	default:
		return nil
	}
	leaves := scalars(t, 0, nil)
	if len(leaves) < 2 || len(leaves) > 256 {
		return nil
	}
	first := leaves[0]
	for i, l := range leaves {
		if l.t == nil || l.t.Kind() != first.t.Kind() || l.k == kNone || l.t.Kind() == types.Bool || l.off != int64(i)*l.size {
			return nil
		}
	}
	several := false
	for i := 0; i < len(leaves); {
		off, left := leaves[i].off, len(leaves)-i
		n := min(16/int(first.size), 4, left)
		switch {
		case n == 3:
			n = 2
		case first.t.Kind() == types.Uint16 && left >= 8:
			n = 8
		}
		for ; n > 1; n /= 2 {
			if size := int64(n) * first.size; max(1, p.align)%size == 0 && (p.off+off)%size == 0 {
				break
			}
		}
		list, several = append(list, piece{first.t, n, off}), several || n > 1
		i += n
	}
	if !several {
		return nil
	}
	return list
}

// natural is how the elements of a slice are aligned on the device: an allocation is to 256 bytes, and a Ref begins at
// an element of it.
func natural(t types.Type) int64 { return gcd(16, max(1, sizes.Sizeof(t))) }

func suffix(k kind) string {
	return map[kind]string{kPred: "pred", k32: "b32", k64: "b64", kF32: "f32", kF64: "f64", kHalf: "b16", kPair: "b128"}[k]
}

// num is the PTX type for arithmetic.
func num(b *types.Basic) string {
	switch kindOf(b) {
	case kF32:
		return "f32"
	case kF64:
		return "f64"
	case k64:
		if unsigned(b) {
			return "u64"
		}
		return "s64"
	}
	if unsigned(b) {
		return "u32"
	}
	return "s32"
}

// mem is the PTX type of a load or store.
func mem(b *types.Basic) string {
	switch kindOf(b) {
	case kF32:
		return "f32"
	case kF64:
		return "f64"
	case kPred:
		return "u8"
	}
	s := "s"
	if unsigned(b) {
		s = "u"
	}
	return fmt.Sprint(s, sizes.Sizeof(b)*8)
}
