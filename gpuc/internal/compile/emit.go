package compile

import (
	"fmt"
	"go/token"
	"go/types"
	"math"
	"strings"
)

// ins is an instruction, or a label.
type ins struct {
	label    string
	op       string
	dst, src []string // registers
	text     string   // operands
	guard    string
	guardNot bool
	side     bool
	target   string
	note     string
	root     string // of a load: the slice parameter
	call     *callee
	asked    *asked // of a bounds check
	others   bool   // it ends the thread because others have ended
	early    bool   // of a load: no check between it and the loop was for it
	pos      token.Pos
}

var prefix = map[kind]string{kPred: "%p", k32: "%r", k64: "%rd", kF32: "%f", kF64: "%fd", kHalf: "%h", kPair: "%q"}

func (k *kctx) reg(kd kind) val {
	k.nreg[kd]++
	return val{k: kd, r: fmt.Sprint(prefix[kd], k.nreg[kd])}
}

func (k *kctx) label() string { k.nlabel++; return fmt.Sprint(markLabel, k.nlabel) }

// emit appends an instruction; a dst of "" means none. Registers are found in the operands.
func (k *kctx) emit(op string, dst []string, args ...string) *ins {
	i := ins{op: op, dst: dst, text: strings.Join(args, ", ")}
	for _, a := range args {
		i.src = append(i.src, regsIn(a)...)
	}
	if len(k.out) > 200000 {
		if k.asked.IsValid() {
			k.fail(k.asked, "%s becomes too large with the passes of this loop: write %s 4, which makes 4 copies of it", called(k.fn), unrollDirective)
		}
		k.fail(k.fn.Pos(), "%s becomes too large", called(k.fn))
	}
	k.out = append(k.out, i)
	return &k.out[len(k.out)-1]
}

func regsIn(s string) (out []string) {
	for i := 0; i < len(s); i++ {
		if s[i] == '%' {
			j := i + 1
			for j < len(s) && (s[j] >= '0' && s[j] <= '9' || s[j] >= 'a' && s[j] <= 'z' || s[j] == '_' || s[j] == '.') {
				j++
			}
			out = append(out, s[i:j])
			i = j
		}
	}
	return
}

// pure emits an instruction without effects, or finds the register of an earlier one.
func (k *kctx) pure(op string, kd kind, args ...string) val {
	key := op + " " + strings.Join(args, ",")
	if v, ok := k.cur.get(key); ok {
		return v
	}
	v := k.reg(kd)
	switch op {
	case "cvt.u64.u32":
		v.n32, v.hi = args[0], math.MaxUint32
	case "cvt.s64.s32":
		v.n32, v.n32s = args[0], true
	}
	k.emit(op, []string{v.r}, args...)
	k.cur.m[key] = v
	return v
}

func (k *kctx) mov(dst, src val) {
	switch dst.k {
	case kAgg:
		for i := range dst.e {
			k.mov(dst.e[i], src.e[i])
		}
	case kPtr:
		k.emit("mov.b64", []string{dst.p.base}, k.addressIn(dst.p.sp, src).r)
	case kThread, kNone, kFunc:
	case kPred:
		if src.isC {
			o := "ne"
			if src.c != 0 {
				o = "eq"
			}
			k.emit("setp."+o+".u32", []string{dst.r}, "0", "0")
			return
		}
		k.emit("mov.pred", []string{dst.r}, src.r)
	default:
		if dst.r != src.r || src.isC {
			k.emit("mov."+suffix(dst.k), []string{dst.r}, src.String())
		}
	}
}

// home makes registers for a value of type t.
func (k *kctx) home(t types.Type, key string) val {
	switch u := t.Underlying().(type) {
	case *types.Slice:
		return val{k: kAgg, e: []val{k.homePtr(key + "s"), k.reg(k64)}}
	case *types.Signature:
		return k.homeFunc(key)
	case *types.Basic:
		if isText(u) {
			return val{k: kAgg, e: []val{k.homePtr(key + "s"), k.reg(k64)}}
		}
	case *types.Pointer:
		if isThread(t) {
			return val{k: kThread}
		}
		return k.homePtr(key)
	case *types.Struct:
		v := val{k: kAgg}
		for i := range u.NumFields() {
			v.e = append(v.e, k.home(u.Field(i).Type(), fmt.Sprint(key, ".", i)))
		}
		return v
	case *types.Array:
		v := val{k: kAgg}
		for i := range u.Len() {
			v.e = append(v.e, k.home(u.Elem(), fmt.Sprint(key, ".", i)))
		}
		return v
	case *types.Tuple:
		v := val{k: kAgg}
		for i := range u.Len() {
			v.e = append(v.e, k.home(u.At(i).Type(), fmt.Sprint(key, ".", i)))
		}
		return v
	}
	return k.reg(kindOf(t))
}
