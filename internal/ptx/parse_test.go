package ptx

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const head = ".version 7.8\n.target sm_80, debug\n.address_size 64\n"

func parse(t *testing.T, src string) *Module {
	t.Helper()
	m, err := Parse([]byte(src))
	require.NoError(t, err)
	return m
}

func TestModuleDirectives(t *testing.T) {
	m := parse(t, head)
	require.Equal(t, Version{7, 8}, m.Version)
	require.True(t, m.Version.AtLeast(7, 8) && m.Version.AtLeast(6, 9) && !m.Version.AtLeast(8, 0))
	require.Equal(t, "sm_80", m.Target)
	require.Equal(t, []string{"debug"}, m.TargetOptions)
	require.Equal(t, 64, m.AddressSize)
	// A zero byte at the end, as C strings have it.
	_, err := Parse([]byte(head + "\x00"))
	require.NoError(t, err)
}

func TestKernelSignature(t *testing.T) {
	m := parse(t, head+`
.extern .shared .align 32 .b8 dyn[];
.func f() { .shared .u64 q; .reg .b64 %r; mov.u64 %r, dyn; ret; }
.visible .entry _Z1kPf(
	.param .u64 .ptr .global .align 16 a,
	.param .u8 b,
	.param .align 8 .b8 c[20],
	.param .f64 d,
	.param .u16 e[3]
)
.maxntid 128, 2
.minnctapersm 3
.maxnreg 64
.reqntid 32
.explicitcluster
.reqnctapercluster 2, 1, 1
{
	.shared .align 8 .b8 s[10];
	.shared .u32 w;
	call f;
	ret;
}
`)
	k := m.Entry("_Z1kPf")
	require.NotNil(t, k)
	require.Nil(t, m.Entry("f"))
	require.NotNil(t, m.Function("f"))
	type row struct {
		name         string
		typ          Type
		size, align  uint64
		offset       uint64
		array, isPtr bool
	}
	var got []row
	for _, p := range k.Params {
		got = append(got, row{p.Name, p.Type, p.Size, p.Align, p.Offset, p.Array, p.Ptr})
	}
	require.Equal(t, []row{
		{"a", U64, 8, 8, 0, false, true},
		{"b", U8, 1, 1, 8, false, false},
		{"c", B8, 20, 8, 16, true, false},
		{"d", F64, 8, 8, 40, false, false},
		{"e", U16, 6, 2, 48, true, false},
	}, got)
	require.Equal(t, Global, k.Params[0].PtrSpace)
	require.Equal(t, uint64(16), k.Params[0].PtrAlign)
	require.Equal(t, uint64(54), k.ParamBytes)
	require.Equal(t, [3]uint32{128, 2, 1}, k.MaxNTID)
	require.Equal(t, [3]uint32{32, 1, 1}, k.ReqNTID)
	require.Equal(t, [3]uint32{2, 1, 1}, k.ReqNCluster)
	require.Equal(t, uint32(3), k.MinNCTAPerSM)
	require.Equal(t, uint32(64), k.MaxNReg)
	// s at 0, w at 12, f's q at 16.
	require.Equal(t, uint64(24), k.SharedBytes)
	l := m.Shared(k)
	require.Equal(t, uint64(32), l.DynamicBase)
	require.Equal(t, uint64(32), l.Offset[m.Variable("dyn")])
}

func TestVariables(t *testing.T) {
	m := parse(t, head+`
.global .align 16 .b8 a[4] = {1, 0x2, 03, 0b100};
.global .u32 b = -1;
.visible .const .f32 c[2][2] = {{0f3F800000, 2.0}, {-0f3F800000}};
.global .f64 d = 0d3FF0000000000000;
.global .v4 .u16 e[2];
.weak .global .u64 f[2] = {later+8, generic(a)-1};
.global .b8 g[4] = {0xff00(a), 7};
.global .u8 h[] = {1, 2, 3};
.extern .global .align 4 .b8 later[];
.global .attribute(.managed) .u32 i = (1 + 2) * 3 << 2 | 1;
.global .u32 j = 5 > 3 ? 10 : 20, k = 0xFFFFFFFFU / 2;
.common .global .align 8 .b8 l[16];
.global .s64 m = -9223372036854775808;
`)
	v := m.Variable
	require.Equal(t, []byte{1, 2, 3, 4}, v("a").Init)
	require.Equal(t, uint64(16), v("a").Align)
	require.Equal(t, []byte{255, 255, 255, 255}, v("b").Init)
	require.Equal(t, []byte{0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 128, 191}, v("c").Init)
	require.Equal(t, uint64(16), v("c").Size)
	require.Equal(t, []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, v("d").Init)
	require.Equal(t, uint64(16), v("e").Size)
	require.Equal(t, uint64(8), v("e").Align)
	require.Equal(t, []Reloc{
		{Offset: 0, Size: 8, Var: v("later"), Addend: 8, Mask: math.MaxUint64},
		{Offset: 8, Size: 8, Var: v("a"), Addend: -1, Generic: true, Mask: math.MaxUint64},
	}, v("f").Relocs)
	require.Equal(t, []Reloc{{Offset: 0, Size: 1, Var: v("a"), Mask: 0xff00, Shift: 8}}, v("g").Relocs)
	require.Equal(t, uint64(3), v("h").Size)
	require.True(t, v("i").Managed)
	require.Equal(t, []byte{37, 0, 0, 0}, v("i").Init)
	require.Equal(t, []byte{10, 0, 0, 0}, v("j").Init)
	require.Equal(t, []byte{255, 255, 255, 127}, v("k").Init)
	require.Equal(t, []byte{0, 0, 0, 0, 0, 0, 0, 128}, v("m").Init)
}

func TestInstructions(t *testing.T) {
	m := parse(t, head+`
.visible .func (.param .b32 r) g(.param .b32 a);
.entry k(.param .u32 p) {
	.reg .b32 %r<10>, %s, %q1<3>;
	.reg .pred %p<3>;
	.reg .v2 .f32 vec;
	.reg .b64 %rd<4>;
	.param .b32 arg;
	/* a comment
	   of two lines */ @!%p1 add.sat.s32 %r1, %r2, -5; // end
	shfl.sync.up.b32 %r1|%p2, %r3, 1, 0, -1;
	ld.v4.u32 {%r1, _, %r3, %r4}, [%rd1+-16];
	mov.f32 vec.y, 0f3F800000;
	mov.u32 %r1, %tid.x;
	ld.param.u32 %r1, [p+0];
	call (arg), g, (arg, %r2);
	lop3.b32 %r1, %r2, %r3, %r4, 0x96;
	mov.u32 %q12, WARP_SZ-1;
L:	{ .reg .f32 %r1; mov.f32 %r1, 1.5; bra L; M: }
	bra M2;
M2:	tab: .branchtargets L, M2;
	brx.idx %r1, tab;
	st.global.u64 [k2], 0xFFFFFFFFFFFFFFFF;
	mov.b64 %rd1, {%r1, %r2};
}
.global .u64 k2;
`)
	f := m.Entry("k")
	b := f.Body
	name := func(o Operand) string { return f.Registers[o.Reg].Name }
	require.Equal(t, "add.sat.s32", b[0].String())
	require.True(t, b[0].GuardNot)
	require.Equal(t, "%p1", f.Registers[b[0].Guard].Name)
	require.Equal(t, 13, b[0].Line)
	five := int64(5)
	require.Equal(t, uint64(-five), b[0].Operands[2].Bits)
	require.Equal(t, OperandPair, b[1].Operands[0].Kind)
	require.Equal(t, OperandSink, b[2].Operands[0].Elems[1].Kind)
	sixteen := int64(16)
	require.Equal(t, uint64(-sixteen), b[2].Operands[1].Bits)
	require.Equal(t, "vec.y", name(b[3].Operands[0]))
	require.Equal(t, Tid, b[4].Operands[1].Special)
	require.Equal(t, f.ParamVars[0], b[5].Operands[1].Elems[0].Var)
	require.Equal(t, OperandList, b[6].Operands[0].Kind)
	require.Equal(t, m.Function("g"), b[6].Operands[1].Func)
	require.Equal(t, uint64(31), b[8].Operands[1].Bits)
	require.Equal(t, "%q12", name(b[8].Operands[0]))
	// The inner %r1 hides the outer one.
	require.Equal(t, F32, f.Registers[b[9].Operands[0].Reg].Type)
	require.Equal(t, "L", f.Labels[b[10].Operands[0].Index].Name)
	require.Equal(t, "M2", f.Labels[b[11].Operands[0].Index].Name)
	require.Equal(t, 12, f.Labels[b[11].Operands[0].Index].Pos)
	require.Len(t, f.Tables[b[12].Operands[1].Index].Targets, 2)
	require.Equal(t, m.Variable("k2"), b[13].Operands[0].Elems[0].Var)
	require.Equal(t, OperandVector, b[14].Operands[1].Kind)
}

func TestSyntaxErrors(t *testing.T) {
	body := func(s string) string { return head + ".entry k(.param .u32 p) {\n.reg .b32 %r<4>;\n" + s + "\n}\n" }
	for _, c := range []struct {
		src         string
		line        int
		token, text string
	}{
		{"", 1, "", "begins with .version"},
		{".target sm_80", 1, ".target", "begins with .version"},
		{".version 7", 1, "7", "version"},
		{head + ".address_size 16\n", 4, "16", "32 or 64"},
		{head + ".nonsense x;", 4, ".nonsense", "unknown directive"},
		{head + "hello", 4, "hello", "expected a directive"},
		{body("add.s32 %r1, %r2, %r9;"), 6, "%r9", "not declared"},
		{body("add.s32 %r1, %r2, ;"), 6, ";", "expected a constant"},
		{body("add.s32 %r1, %r2"), 7, "}", "expected ';'"},
		{body("bra NOWHERE;"), 6, "NOWHERE", "not declared"},
		{body("@%r1 ret;"), 6, "%r1", "not a predicate"},
		{body("L: ret;\nL: ret;"), 7, "L", "declared twice"},
		{body(".reg .b32 %r<4>;"), 6, "%r", "declared twice"},
		{body("mov.f32 %r1, 0f3F80;"), 6, "0f3F80", "8 hexadecimal digits"},
		{body("mov.u32 %r1, 99999999999999999999;"), 6, "99999999999999999999", "64-bit"},
		{body("mov.u32 %r1, 1/0;"), 6, "/", "division by zero"},
		{body("mov.u32 %r1, %tid.q;"), 6, ".q", "no such component"},
		{body("mov.u32 %r1, \x80;"), 6, "\x80", "not allowed"},
		{body("{ ret;"), 8, "", "not closed"},
		{body("/* ret;"), 6, "/*", "comment"},
		{head + ".global .u32 x = y;", 4, "y", "not declared"},
		{head + ".global .u32 x[2] = {1,2,3};", 4, "x", "larger than the variable"},
		{head + ".global .b8 x[9999999999][9999999999];", 4, "[", "too large"},
		{head + ".global .u32 x; .global .u32 x;", 4, "x", "declared twice"},
		{head + ".global .align 3 .u32 x;", 4, "3", "power of two"},
		{head + ".global .pred x;", 4, "x", "predicate"},
		{head + ".entry k() .maxntid 4294967296 { ret; }", 4, "4294967296", "out of range"},
		{head + ".entry k() { ret; } .entry k() { ret; }", 4, "k", "declared twice"},
	} {
		_, err := Parse([]byte(c.src))
		var s *SyntaxError
		require.ErrorAs(t, err, &s, c.src)
		require.Equal(t, c.line, s.Line, "%s: %v", c.src, err)
		require.Equal(t, c.token, s.Token, "%s: %v", c.src, err)
		require.Contains(t, s.Msg, c.text)
		require.Contains(t, err.Error(), "line ")
	}
}

// TestHostileSources: deep nesting ends in an error, ranges and arrays cost nothing.
func TestHostileSources(t *testing.T) {
	deep := func(open, shut string) string {
		return head + ".global .u32 x = " + strings.Repeat(open, 100_000) + "1" + strings.Repeat(shut, 100_000) + ";"
	}
	for _, src := range []string{
		deep("(", ")"), deep("{", "}"), deep("-", ""), deep("1?", ":1"), deep("1+(", ")"),
		head + ".entry k() " + strings.Repeat("{", 100_000),
		head + ".entry k() { mov.u32 " + strings.Repeat("{", 100_000),
		head + ".entry k() { call " + strings.Repeat("(", 100_000),
		head + ".entry k() { mov.u32 " + strings.Repeat("!x", 100_000),
	} {
		_, err := Parse([]byte(src))
		var s *SyntaxError
		require.True(t, errors.As(err, &s))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	parse(t, head+".global .b8 big[1099511627776] = {1};\n.entry k() { .reg .b32 %r<4294967295>; .local .b8 x[1099511627776]; mov.u32 %r4294967294, 1; }")
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

func TestStyles(t *testing.T) {
	files, err := filepath.Glob("exec/testdata/*.ptx")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		src, err := os.ReadFile(name)
		require.NoError(t, err)
		m, err := Parse(src)
		require.NoError(t, err, name)
		require.NotEmpty(t, m.Entries, name)
	}
}

func BenchmarkParse(b *testing.B) {
	src, err := os.ReadFile("exec/testdata/sha_calls.ptx")
	require.NoError(b, err)
	for name, parse := range map[string]func([]byte) (*Module, error){"of=all": Parse, "of=signatures": ParseSignatures} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parse(src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestSignaturesOfABodyThatIsUnknown(t *testing.T) {
	src := head + `.visible .entry k(.param .u64 a, .param .align 8 .b8 b[24]) .maxntid 32, 1, 1 { { .pragma "}"; later.than.ours %x, {%y}; } ret; }
.visible .entry m() { ret; }`
	_, err := Parse([]byte(src))
	require.Error(t, err)
	m, err := ParseSignatures([]byte(src))
	require.NoError(t, err)
	require.Len(t, m.Entries, 2)
	require.EqualValues(t, 24, m.Entry("k").Params[1].Size)
	_, err = ParseSignatures([]byte(head + ".visible .entry k() { { ret; }"))
	require.ErrorContains(t, err, "function body is not closed")
}
