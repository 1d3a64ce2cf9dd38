package exec

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// opCase is an instruction on registers d, a, b, c of given widths, with what it means.
type opCase struct {
	code  string // uses %d, %a, %b, %c; may use predicates %p, %q
	width string // bits of d, a, b, c: "32 32 32"
	want  func(a, b, c uint64) uint64
}

var edges = []uint64{
	0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x10000,
	0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 1 << 32, 1<<63 - 1, 1 << 63, ^uint64(0), 0x0123456789abcdef,
}

func intInputs(n int) [][3]uint64 {
	r := rand.New(rand.NewPCG(7, 7))
	var rows [][3]uint64
	for _, a := range edges {
		for _, b := range edges {
			rows = append(rows, [3]uint64{a, b, edges[r.IntN(len(edges))]})
		}
	}
	for range n {
		v := [3]uint64{r.Uint64(), r.Uint64(), r.Uint64()}
		for i := range v {
			if r.IntN(3) == 0 {
				v[i] &= 63
			}
		}
		rows = append(rows, v)
	}
	return rows
}

// opSource is a module whose kernel applies the instruction to row tid of the inputs.
func opSource(code, width string) (string, []int) {
	var w []int
	for _, s := range strings.Fields(width) {
		var n int
		_, _ = fmt.Sscan(s, &n)
		w = append(w, n)
	}
	var regs, loads strings.Builder
	for i, n := range w {
		name := "%" + "dabc"[i:i+1]
		fmt.Fprintf(&regs, ".reg .b%d %s;\n", n, name)
		if i > 0 {
			fmt.Fprintf(&loads, "ld.global.u64 %%t, [%%in+%d];\n", 8*(i-1))
			if n == 64 {
				fmt.Fprintf(&loads, "mov.b64 %s, %%t;\n", name)
			} else {
				fmt.Fprintf(&loads, "cvt.u%d.u64 %s, %%t;\n", n, name)
			}
		}
	}
	store := "mov.b64 %t, %d;"
	if w[0] != 64 {
		store = fmt.Sprintf("cvt.u64.u%d %%t, %%d;", w[0])
	}
	return fmt.Sprintf(`.version 8.6
.target sm_90
.address_size 64
.visible .entry op(.param .u64 pin, .param .u64 pout, .param .u32 n) {
.reg .pred %%p, %%q, %%end;
.reg .b64 %%in, %%out, %%t;
.reg .b32 %%i, %%n, %%x, %%y;
%s
ld.param.u64 %%in, [pin];
ld.param.u64 %%out, [pout];
ld.param.u32 %%n, [n];
mov.u32 %%x, %%ctaid.x;
mov.u32 %%y, %%ntid.x;
mov.u32 %%i, %%tid.x;
mad.lo.u32 %%i, %%x, %%y, %%i;
setp.ge.u32 %%end, %%i, %%n;
@%%end exit;
mad.wide.u32 %%in, %%i, 24, %%in;
mad.wide.u32 %%out, %%i, 8, %%out;
%s
%s
%s
st.global.u64 [%%out], %%t;
ret;
}
`, regs.String(), loads.String(), code, store), w
}

func runOp(t testing.TB, code, width string, rows [][3]uint64) ([]uint64, []int) {
	t.Helper()
	src, w := opSource(code, width)
	h := &gmem{}
	l := load(t, h, src)
	flat := make([]uint64, 0, 3*len(rows))
	for _, r := range rows {
		flat = append(flat, r[:]...)
	}
	out := h.alloc(8 * len(rows))
	require.NoError(t, launch(t, l, h, "op", uint32(len(rows)+127)/128, 128, h.put64(flat...), out, uint32(len(rows))), code)
	return h.get64(out), w
}

func checkOps(t *testing.T, cases []opCase, rows [][3]uint64) {
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.code, " ", "_"), func(t *testing.T) {
			got, w := runOp(t, c.code, c.width, rows)
			for i, r := range rows {
				var v [3]uint64
				for j := 1; j < len(w); j++ {
					v[j-1] = r[j-1] & widthMask(w[j])
				}
				want := c.want(v[0], v[1], v[2]) & widthMask(w[0])
				if got[i] != want {
					require.Failf(t, "wrong", "%s with a=%#x b=%#x c=%#x: got %#x, want %#x", c.code, v[0], v[1], v[2], got[i], want)
				}
			}
		})
	}
}

func bigOf(v uint64, bits uint, signed bool) *big.Int {
	if signed {
		return big.NewInt(sext(v, bits))
	}
	return new(big.Int).SetUint64(v)
}

func low(x *big.Int) uint64 {
	m := new(big.Int).And(x, new(big.Int).SetUint64(math.MaxUint64))
	return m.Uint64()
}

func TestIntegerOps(t *testing.T) {
	var cases []opCase
	for _, w := range []uint{16, 32, 64} {
		for _, s := range []bool{false, true} {
			ty := fmt.Sprintf("%c%d", "us"[b2i(s)], w)
			w3 := fmt.Sprintf("%d %d %d %d", w, w, w, w)
			in := func(v uint64) *big.Int { return bigOf(v, w, s) }
			bin := func(op string, f func(a, b *big.Int) *big.Int) {
				cases = append(cases, opCase{op + "." + ty + " %d, %a, %b;", w3[:len(w3)-3], func(a, b, _ uint64) uint64 { return low(f(in(a), in(b))) }})
			}
			bin("add", func(a, b *big.Int) *big.Int { return a.Add(a, b) })
			bin("sub", func(a, b *big.Int) *big.Int { return a.Sub(a, b) })
			bin("mul.lo", func(a, b *big.Int) *big.Int { return a.Mul(a, b) })
			bin("mul.hi", func(a, b *big.Int) *big.Int { return a.Rsh(a.Mul(a, b), w) })
			bin("min", func(a, b *big.Int) *big.Int {
				if a.Cmp(b) < 0 {
					return a
				}
				return b
			})
			bin("max", func(a, b *big.Int) *big.Int {
				if a.Cmp(b) > 0 {
					return a
				}
				return b
			})
			bin("div", func(a, b *big.Int) *big.Int {
				if b.Sign() == 0 {
					return big.NewInt(-1)
				}
				return a.Quo(a, b)
			})
			bin("rem", func(a, b *big.Int) *big.Int {
				if b.Sign() == 0 {
					return a
				}
				return a.Rem(a, b)
			})
			cases = append(cases,
				opCase{"mad.lo." + ty + " %d, %a, %b, %c;", w3, func(a, b, c uint64) uint64 {
					x := in(a)
					return low(x.Add(x.Mul(x, in(b)), in(c)))
				}},
				opCase{"mad.hi." + ty + " %d, %a, %b, %c;", w3, func(a, b, c uint64) uint64 {
					x := in(a)
					return low(x.Add(x.Rsh(x.Mul(x, in(b)), w), in(c)))
				}},
				opCase{"sad." + ty + " %d, %a, %b, %c;", w3, func(a, b, c uint64) uint64 {
					x := in(a)
					return low(x.Add(x.Abs(x.Sub(x, in(b))), in(c)))
				}},
				opCase{"shr." + ty + " %d, %a, %b;", fmt.Sprintf("%d %d 32", w, w), func(a, b, _ uint64) uint64 {
					return low(new(big.Int).Rsh(in(a), uint(min(b, 200))))
				}},
			)
			if w < 64 {
				cases = append(cases,
					opCase{"mul.wide." + ty + " %d, %a, %b;", fmt.Sprintf("%d %d %d", 2*w, w, w), func(a, b, _ uint64) uint64 {
						return low(new(big.Int).Mul(in(a), in(b)))
					}},
					opCase{"mad.wide." + ty + " %d, %a, %b, %c;", fmt.Sprintf("%d %d %d %d", 2*w, w, w, 2*w), func(a, b, c uint64) uint64 {
						x := in(a)
						return low(x.Add(x.Mul(x, in(b)), new(big.Int).SetUint64(c)))
					}})
			}
			if s {
				cases = append(cases,
					opCase{"abs." + ty + " %d, %a;", w3[:5], func(a, _, _ uint64) uint64 { x := in(a); return low(x.Abs(x)) }},
					opCase{"neg." + ty + " %d, %a;", w3[:5], func(a, _, _ uint64) uint64 { x := in(a); return low(x.Neg(x)) }})
			}
		}
		b := fmt.Sprintf("b%d", w)
		w2, w3 := fmt.Sprintf("%d %d", w, w), fmt.Sprintf("%d %d %d", w, w, w)
		cases = append(cases,
			opCase{"and." + b + " %d, %a, %b;", w3, func(a, b, _ uint64) uint64 { return a & b }},
			opCase{"or." + b + " %d, %a, %b;", w3, func(a, b, _ uint64) uint64 { return a | b }},
			opCase{"xor." + b + " %d, %a, %b;", w3, func(a, b, _ uint64) uint64 { return a ^ b }},
			opCase{"not." + b + " %d, %a;", w2, func(a, _, _ uint64) uint64 { return ^a }},
			opCase{"cnot." + b + " %d, %a;", w2, func(a, _, _ uint64) uint64 { return uint64(b2i(a == 0)) }},
			opCase{"shl." + b + " %d, %a, %b;", fmt.Sprintf("%d %d 32", w, w), func(a, b, _ uint64) uint64 { return a << b }},
		)
		if w == 16 {
			continue
		}
		w32 := fmt.Sprintf("32 %d", w)
		cases = append(cases,
			opCase{"popc." + b + " %d, %a;", w32, func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a)) }},
			opCase{"clz." + b + " %d, %a;", w32, func(a, _, _ uint64) uint64 { return uint64(w) - uint64(bits.Len64(a)) }},
			opCase{"brev." + b + " %d, %a;", w2, func(a, _, _ uint64) (r uint64) {
				for i := range w {
					r |= a >> i & 1 << (w - 1 - i)
				}
				return r
			}},
			opCase{fmt.Sprintf("bfind.u%d", w) + " %d, %a;", w32, func(a, _, _ uint64) uint64 { return uint64(bits.Len64(a)) - 1 }},
			opCase{fmt.Sprintf("bfind.shiftamt.u%d", w) + " %d, %a;", w32, func(a, _, _ uint64) uint64 {
				if a == 0 {
					return ^uint64(0)
				}
				return uint64(w) - uint64(bits.Len64(a))
			}},
			opCase{fmt.Sprintf("bfind.s%d", w) + " %d, %a;", w32, func(a, _, _ uint64) uint64 {
				if a>>(w-1) != 0 {
					a = ^a & widthMask(int(w))
				}
				return uint64(bits.Len64(a)) - 1
			}},
			opCase{fmt.Sprintf("bfe.u%d", w) + " %d, %a, %b, %c;", fmt.Sprintf("%d %d 32 32", w, w), func(a, b, c uint64) uint64 { return bfeRef(a, b, c, w, false) }},
			opCase{fmt.Sprintf("bfe.s%d", w) + " %d, %a, %b, %c;", fmt.Sprintf("%d %d 32 32", w, w), func(a, b, c uint64) uint64 { return bfeRef(a, b, c, w, true) }},
			opCase{"bfi." + b + " %d, %a, %b, %c, 9;", fmt.Sprintf("%d %d %d 32", w, w, w), func(a, b, c uint64) uint64 {
				for i := range uint64(9) {
					if p := c&255 + i; p < uint64(w) {
						b = b&^(1<<p) | a>>i&1<<p
					}
				}
				return b
			}},
		)
	}
	checkOps(t, cases, intInputs(500))
}

// bfeRef is the bit-by-bit definition of PTX ISA, "bfe".
func bfeRef(a, b, c uint64, w uint, signed bool) (d uint64) {
	msb := uint64(w - 1)
	pos, n := b&255, c&255
	var sbit uint64
	if signed && n != 0 {
		sbit = a >> min(pos+n-1, msb) & 1
	}
	for i := uint64(0); i <= msb; i++ {
		if i < n && pos+i <= msb {
			d |= a >> (pos + i) & 1 << i
		} else {
			d |= sbit << i
		}
	}
	return d
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestMoreIntegerOps(t *testing.T) {
	sat := func(x int64) uint64 { return uint64(uint32(min(max(x, math.MinInt32), math.MaxInt32))) }
	s32 := func(v uint64) int64 { return int64(int32(v)) }
	byteOf := func(v uint64, i int) uint64 { return v >> (8 * i) & 255 }
	cases := []opCase{
		{"add.sat.s32 %d, %a, %b;", "32 32 32", func(a, b, _ uint64) uint64 { return sat(s32(a) + s32(b)) }},
		{"sub.sat.s32 %d, %a, %b;", "32 32 32", func(a, b, _ uint64) uint64 { return sat(s32(a) - s32(b)) }},
		{"mad.hi.sat.s32 %d, %a, %b, %c;", "32 32 32 32", func(a, b, c uint64) uint64 { return sat(s32(a)*s32(b)>>32 + s32(c)) }},
		{"mul24.lo.s32 %d, %a, %b;", "32 32 32", func(a, b, _ uint64) uint64 { return uint64(sext(a, 24) * sext(b, 24)) }},
		{"mul24.hi.u32 %d, %a, %b;", "32 32 32", func(a, b, _ uint64) uint64 { return a & 0xffffff * (b & 0xffffff) >> 16 }},
		{"mad24.lo.u32 %d, %a, %b, %c;", "32 32 32 32", func(a, b, c uint64) uint64 { return a&0xffffff*(b&0xffffff) + c }},
		{"mad24.hi.sat.s32 %d, %a, %b, %c;", "32 32 32 32", func(a, b, c uint64) uint64 {
			return sat(int64(int32(sext(a, 24)*sext(b, 24)>>16)) + s32(c))
		}},
		{"shf.l.wrap.b32 %d, %a, %b, %c;", "32 32 32 32", func(a, b, c uint64) uint64 { return (b<<32 | a) << (c & 31) >> 32 }},
		{"shf.r.wrap.b32 %d, %a, %b, %c;", "32 32 32 32", func(a, b, c uint64) uint64 { return (b<<32 | a) >> (c & 31) }},
		{"shf.l.clamp.b32 %d, %a, %b, %c;", "32 32 32 32", func(a, b, c uint64) uint64 { return (b<<32 | a) << min(c, 32) >> 32 }},
		{"shf.r.clamp.b32 %d, %a, %b, %c;", "32 32 32 32", func(a, b, c uint64) uint64 { return (b<<32 | a) >> min(c, 32) }},
		{"shf.l.wrap.b32 %d, %a, %a, %c;", "32 32 32 32", func(a, _, c uint64) uint64 { return uint64(bits.RotateLeft32(uint32(a), int(c&31))) }},
		{"shf.r.wrap.b32 %d, %a, %a, 7;", "32 32", func(a, _, _ uint64) uint64 { return uint64(bits.RotateLeft32(uint32(a), -7)) }},
		{"prmt.b32 %d, %a, %b, %c;", "32 32 32 32", func(a, b, c uint64) (r uint64) {
			v := b<<32 | a
			for i := range 4 {
				s := c >> (4 * i) & 15
				x := byteOf(v, int(s&7))
				if s > 7 {
					x = 255 * (x >> 7)
				}
				r |= x << (8 * i)
			}
			return r
		}},
		{"prmt.b32.f4e %d, %a, %b, %c;", "32 32 32 32", func(a, b, c uint64) uint64 { return (b<<32 | a) >> (8 * (c & 3)) }},
		{"prmt.b32.b4e %d, %a, %b, %c;", "32 32 32 32", func(a, b, c uint64) (r uint64) {
			for i := range 4 {
				r |= byteOf(b<<32|a, (int(c&3)-i)&7) << (8 * i)
			}
			return r
		}},
		{"prmt.b32.rc8 %d, %a, %b, %c;", "32 32 32 32", func(a, _, c uint64) uint64 { return byteOf(a, int(c&3)) * 0x01010101 }},
		{"prmt.b32.ecl %d, %a, %b, %c;", "32 32 32 32", func(a, _, c uint64) (r uint64) {
			for i := range 4 {
				r |= byteOf(a, max(i, int(c&3))) << (8 * i)
			}
			return r
		}},
		{"prmt.b32.ecr %d, %a, %b, %c;", "32 32 32 32", func(a, _, c uint64) (r uint64) {
			for i := range 4 {
				r |= byteOf(a, min(i, int(c&3))) << (8 * i)
			}
			return r
		}},
		{"prmt.b32.rc16 %d, %a, %b, %c;", "32 32 32 32", func(a, _, c uint64) uint64 { return a >> (16 * (c & 1)) & 0xffff * 0x10001 }},
		{"fns.b32 %d, %a, %b, %c;", "32 32 32 32", fnsRef},
		{"dp4a.u32.u32 %d, %a, %b, %c;", "32 32 32 32", func(a, b, c uint64) uint64 {
			for i := range 4 {
				c += byteOf(a, i) * byteOf(b, i)
			}
			return c
		}},
		{"dp4a.s32.u32 %d, %a, %b, %c;", "32 32 32 32", func(a, b, c uint64) uint64 {
			for i := range 4 {
				c += uint64(int64(int8(byteOf(a, i))) * int64(byteOf(b, i)))
			}
			return c
		}},
		{"dp2a.hi.s32.s32 %d, %a, %b, %c;", "32 32 32 32", func(a, b, c uint64) uint64 {
			return c + uint64(int64(int16(a))*int64(int8(byteOf(b, 2)))+int64(int16(a>>16))*int64(int8(byteOf(b, 3))))
		}},
		{"szext.clamp.s32 %d, %a, %b;", "32 32 32", func(a, b, _ uint64) uint64 {
			if n := uint(min(b, 32)); n != 0 {
				return uint64(sext(a, n))
			}
			return 0
		}},
		{"szext.wrap.u32 %d, %a, %b;", "32 32 32", func(a, b, _ uint64) uint64 { return a & (1<<(b&31) - 1) }},
		{"bmsk.clamp.b32 %d, %a, %b;", "32 32 32", func(a, b, _ uint64) uint64 { return (1<<min(b, 32) - 1) << min(a, 32) }},
		{"add.u16x2 %d, %a, %b;", "32 32 32", func(a, b, _ uint64) uint64 { return (a+b)&0xffff | (a>>16+b>>16)<<16 }},
		{"min.s16x2 %d, %a, %b;", "32 32 32", func(a, b, _ uint64) uint64 {
			return uint64(uint16(min(int16(a), int16(b)))) | uint64(uint16(min(int16(a>>16), int16(b>>16))))<<16
		}},
		{"max.s32.relu %d, %a, %b;", "32 32 32", func(a, b, _ uint64) uint64 { return uint64(max(s32(a), s32(b), 0)) }},
		{"add.cc.u32 %d, %a, %b; addc.u32 %d, %c, 0;", "32 32 32 32", func(a, b, c uint64) uint64 { return c + (a+b)>>32 }},
		{"sub.cc.u32 %d, %a, %b; subc.u32 %d, %c, 0;", "32 32 32 32", func(a, b, c uint64) uint64 { return c - uint64(b2i(a < b)) }},
		{"sub.cc.u64 %d, %a, %b; subc.u64 %d, %c, 5;", "64 64 64 64", func(a, b, c uint64) uint64 { return c - 5 - uint64(b2i(a < b)) }},
		{"sub.cc.u32 %d, %a, %b; addc.u32 %d, 0, 0;", "32 32 32", func(a, b, _ uint64) uint64 { return uint64(b2i(a >= b)) }},
		{"add.cc.u32 %d, %a, %b; subc.cc.u32 %d, 0, 0; addc.u32 %d, %c, 0;", "32 32 32 32", func(a, b, c uint64) uint64 { return c + (a+b)>>32 }},
		{"mad.lo.cc.u32 %d, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0;", "32 32 32 32", func(a, b, c uint64) uint64 { return (a*b + c) >> 32 }},
		{"add.cc.u64 %d, %a, %b; addc.cc.u64 %d, %d, -1; addc.u64 %d, %c, %c;", "64 64 64 64", func(a, b, c uint64) uint64 {
			s, k := bits.Add64(a, b, 0)
			_, k = bits.Add64(s, math.MaxUint64, k)
			return c + c + k
		}},
		{"selp.b32 %d, %a, %b, 1;", "32 32 32", func(a, _, _ uint64) uint64 { return a }},
		{"slct.u64.s32 %d, %a, %b, %c;", "64 64 64 32", func(a, b, c uint64) uint64 {
			if int32(c) >= 0 {
				return a
			}
			return b
		}},
		{"setp.lt.s32 %p|%q, %a, %b; selp.u32 %d, 10, 0, %p; @%q add.u32 %d, %d, 1;", "32 32 32", func(a, b, _ uint64) uint64 {
			return map[bool]uint64{true: 10, false: 1}[s32(a) < s32(b)]
		}},
		{"setp.hs.u16 %p, %a, %b; setp.ne.and.b32 %p|%q, %c, 7, !%p; selp.u32 %d, 1, 0, %p; selp.u32 %x, 2, 0, %q; or.b32 %d, %d, %x;", "32 16 16 32",
			func(a, b, c uint64) uint64 { return uint64(b2i(c != 7 && a < b) + 2*b2i(c == 7 && a < b)) }},
		{"set.gt.u32.s64 %d, %a, %b;", "32 64 64", func(a, b, _ uint64) uint64 { return -uint64(b2i(int64(a) > int64(b))) }},
		{"setp.ne.u32 %p, %a, %a; set.le.xor.f32.u32 %d, %a, %b, %p;", "32 32 32", func(a, b, _ uint64) uint64 { return uint64(b2i(a <= b)) * 0x3f800000 }},
		{"mov.b64 {%x, %y}, %a; mov.b64 %d, {%y, %x};", "64 64", func(a, _, _ uint64) uint64 { return a>>32 | a<<32 }},
		{"mov.b32 {%b, %c}, %a; mov.b32 %d, {%c, %b};", "32 32 16 16", func(a, _, _ uint64) uint64 { return a>>16&0xffff | a<<16 }},
		{"{ .reg .b128 %w; mov.b128 %w, {%a, %b}; mov.b128 {%b, %d}, %w; xor.b64 %d, %d, %b; }", "64 64 64", func(a, b, _ uint64) uint64 { return a ^ b }},
		{"{ .reg .v2 .b32 %v; mov.b64 {%v.x, %v.y}, %a; add.u32 %d, %v.x, %v.y; }", "32 64", func(a, _, _ uint64) uint64 { return a + a>>32 }},
		{"setp.ne.u32 %q, %a, %a; lop3.or.b32 %d|%p, %a, %b, %c, 0x80, %q; selp.b32 %d, 1, 2, %p;", "32 32 32 32", func(a, b, c uint64) uint64 {
			return map[bool]uint64{true: 1, false: 2}[a&b&c != 0]
		}},
		{"cvt.s16.s8 %x, %a; cvt.s64.s8 %d, %b;", "64 32 32", func(_, b, _ uint64) uint64 { return uint64(int64(int8(b))) }},
	}
	cases[len(cases)-1].code = "cvt.s64.s8 %d, %b;"
	for lut := range uint64(256) {
		cases = append(cases, opCase{fmt.Sprintf("lop3.b32 %%d, %%a, %%b, %%c, 0x%x;", lut), "32 32 32 32", func(a, b, c uint64) (r uint64) {
			for i := range 32 {
				r |= lut >> (a>>i&1<<2 | b>>i&1<<1 | c>>i&1) & 1 << i
			}
			return r
		}})
	}
	checkOps(t, cases, intInputs(300))
}

func fnsRef(mask, base, off uint64) uint64 {
	base &= 31
	n := int32(off)
	if n == 0 {
		if mask>>base&1 != 0 {
			return base
		}
		return 0xffffffff
	}
	d := int64(1)
	left := int64(n)
	if n < 0 {
		d, left = -1, -left
	}
	for i := int64(base); i >= 0 && i < 32; i += d {
		if mask>>uint(i)&1 != 0 {
			left--
			if left == 0 {
				return uint64(i)
			}
		}
	}
	return 0xffffffff
}
