package compile

import (
	"fmt"
	"go/types"
	"math"
	"strings"

	"golang.org/x/tools/go/ssa"
)

type kind uint8

const (
	kNone kind = iota
	kPred
	k32
	k64
	kF32
	kF64
	kAgg
	kPtr
	kThread
	kHalf // 16 bits, while one of Float16 or BFloat16 is computed
	kPair // 16 bytes, for an atomic
	kFunc // a function that is known, with what a closure has captured
)

// val is a value while a kernel is emitted: a constant, a register, a tree of values, a pointer, or a function.
type val struct {
	k    kind
	isC  bool
	c    uint64
	r    string
	e    []val
	p    *ptr
	fn   *ssa.Function
	n32  string // the 32-bit register that this 64-bit value was widened from
	n32s bool   // with its sign
	hi   uint64 // of an integer that is known to lie between 0 and hi; 0 where nothing is known
	sum  poly   // what this 64-bit value is known to be

	param string // of an array or a struct: the parameter that it lies in, and where
	off   int64
}

func (v val) String() string {
	if !v.isC {
		return v.r
	}
	switch v.k {
	case kPred:
		return fmt.Sprint(v.c)
	case k32:
		return fmt.Sprint(int32(v.c))
	case k64:
		return fmt.Sprint(int64(v.c))
	case kF32:
		return fmt.Sprintf("0f%08X", uint32(v.c))
	case kF64:
		return fmt.Sprintf("0d%016X", v.c)
	}
	return "?"
}

func cst(k kind, c uint64) val { return val{k: k, isC: true, c: c} }

func cF(k kind, f float64) val {
	if k == kF32 {
		return cst(k, uint64(math.Float32bits(float32(f))))
	}
	return cst(k, math.Float64bits(f))
}

func (v val) f() float64 {
	if v.k == kF32 {
		return float64(math.Float32frombits(uint32(v.c)))
	}
	return math.Float64frombits(v.c)
}

// norm brings a constant of 32 bits or less to the form its register has.
func norm(b *types.Basic, c uint64) uint64 {
	switch b.Kind() {
	case types.Int8:
		return uint64(uint32(int32(int8(c))))
	case types.Int16:
		return uint64(uint32(int32(int16(c))))
	case types.Uint8:
		return uint64(uint8(c))
	case types.Uint16:
		return uint64(uint16(c))
	case types.Int32, types.Uint32, types.UntypedRune:
		return uint64(uint32(c))
	}
	return c
}

// signedC is a constant as a signed or unsigned number, widened to 64 bits.
func signedC(b *types.Basic, c uint64) uint64 {
	if sizes.Sizeof(b) < 8 && !unsigned(b) {
		return uint64(int64(int32(c)))
	}
	return c
}

func isReg(s string) bool { return strings.HasPrefix(s, "%") }

// zero is the zero value.
func (k *kctx) zero(t types.Type) val {
	switch u := t.Underlying().(type) {
	case *types.Struct:
		v := val{k: kAgg}
		for i := range u.NumFields() {
			v.e = append(v.e, k.zero(u.Field(i).Type()))
		}
		return v
	case *types.Array:
		v := val{k: kAgg}
		for range u.Len() {
			v.e = append(v.e, k.zero(u.Elem()))
		}
		return v
	case *types.Slice:
		return val{k: kAgg, e: []val{k.null(), cst(k64, 0)}}
	case *types.Signature:
		return val{k: kFunc}
	case *types.Basic:
		if isText(u) {
			return k.constantText("")
		}
	case *types.Pointer:
		if isThread(t) {
			return val{k: kThread}
		}
		return k.null()
	}
	return cst(kindOf(t), 0)
}

// null is the nil pointer.
func (k *kctx) null() val {
	return val{k: kPtr, p: &ptr{sp: spGlobal, base: k.pure("mov.b64", k64, "0").r, null: true}}
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
