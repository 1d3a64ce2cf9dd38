package exec

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/allocs"
)

func TestLoadsAndStores(t *testing.T) {
	h := &gmem{}
	l := load(t, h, header+`
.global .align 16 .b8 tbl[16] = {1, 2, 3, 0x84, 0xff, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
.const .align 4 .f32 cf[2] = {0f3F800000, 2.0};
.global .u64 ptrs[2] = {tbl, generic(tbl)+4};
.global .align 4 .b8 parts[4] = {0xff(tbl), 0xff00(tbl), 0xff0000(tbl), 0xff000000(tbl)};
.visible .entry k(.param .u64 out, .param .align 8 .b8 st[16]) {
.reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .b16 %h<9>; .reg .f32 %f<4>;
.local .align 16 .b8 loc[32]; .shared .align 16 .b8 sh[64];
ld.param.u64 %rd1, [out];
ld.global.s8 %r1, [tbl+3]; st.global.u32 [%rd1], %r1;
ld.global.u8 %r2, [tbl+3]; st.global.u32 [%rd1+4], %r2;
mov.u64 %rd2, tbl; ld.v4.u8 {%r3, %r4, %r5, %r6}, [%rd2+4]; add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5; add.u32 %r3, %r3, %r6; st.global.u32 [%rd1+8], %r3;
ld.global.v2.u64 {%rd3, %rd4}, [tbl]; xor.b64 %rd3, %rd3, %rd4; st.global.u64 [%rd1+16], %rd3;
ld.const.f32 %f1, [cf+4]; st.global.f32 [%rd1+12], %f1;
ld.global.u64 %rd5, [ptrs+8]; ld.global.u8 %r7, [%rd5+-1]; st.global.u32 [%rd1+24], %r7;
ld.param.u32 %r8, [st+8]; ld.param.v2.u32 {%r9, %r10}, [st]; add.u32 %r8, %r8, %r9; add.u32 %r8, %r8, %r10; st.global.u32 [%rd1+28], %r8;
// local memory through a generic address
mov.u64 %rd6, loc; cvta.local.u64 %rd7, %rd6; mov.u32 %r11, 77; st.u32 [%rd7+8], %r11; ld.local.u32 %r12, [loc+8]; st.global.u32 [%rd1+32], %r12;
// shared memory: by name, by 32-bit register, by generic address
mov.u32 %r13, sh; st.shared.v4.b32 [%r13+16], {%r11, %r12, %r8, %r7}; cvta.shared.u64 %rd8, 0; ld.u32 %r14, [%rd8+24]; st.global.u32 [%rd1+36], %r14;
mov.u64 %rd9, sh; cvta.shared.u64 %rd9, %rd9; cvta.to.shared.u64 %rd10, %rd9; cvt.u32.u64 %r15, %rd10; ld.shared.u32 %r16, [%r15+20]; st.global.u32 [%rd1+40], %r16;
{ .reg .pred %p<4>; isspacep.shared %p1, %rd9; isspacep.local %p2, %rd7; isspacep.global %p3, %rd1; selp.u32 %r17, 1, 0, %p1; selp.u32 %r18, 2, 0, %p2; selp.u32 %r19, 4, 0, %p3; add.u32 %r17, %r17, %r18; add.u32 %r17, %r17, %r19; st.global.u32 [%rd1+44], %r17; }
// parameters by address
mov.b64 %rd11, st; ld.param.u32 %r20, [%rd11+8]; cvta.param.u64 %rd12, %rd11; ld.u32 %r21, [%rd12+8]; add.u32 %r20, %r20, %r21; st.global.u32 [%rd1+48], %r20;
ld.global.u32 %r22, [parts]; cvt.u32.u64 %r23, %rd2; sub.u32 %r22, %r22, %r23; st.global.u32 [%rd1+52], %r22;
st.shared.b8 [sh+3], %r11; st.shared.b16 [sh+4], 0x1234; ld.shared.s16 %r24, [sh+4]; ld.shared.u8 %r25, [sh+3]; add.u32 %r24, %r24, %r25; st.volatile.global.u32 [%rd1+56], %r24;
st.relaxed.gpu.global.u8 [%rd1+61], 5; st.volatile.global.u16 [%rd1+62], 0x0706; ld.acquire.sys.global.u16 %h1, [%rd1+62]; st.global.v2.b16 [%rd1+64], {%h1, 3};
{ .reg .b128 %q; ld.global.b128 %q, [tbl]; st.global.b128 [%rd1+80], %q; }
cp.async.ca.shared.global [sh+32], [tbl], 16, 5; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u64 %rd13, [sh+32]; st.global.u64 [%rd1+72], %rd13;
ret;
}`)
	out := h.alloc(96)
	st := binary.LittleEndian.AppendUint32(nil, 10)
	st = binary.LittleEndian.AppendUint32(st, 20)
	st = binary.LittleEndian.AppendUint64(st, 300)
	require.NoError(t, launch(t, l, h, "k", 1, 1, out, st))
	got := h.get32(out)
	require.Equal(t, []uint32{
		0xffffff84, 0x84, 0xff + 6 + 7 + 8, 0x40000000,
	}, got[:4])
	tbl := []byte{1, 2, 3, 0x84, 0xff, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	require.Equal(t, binary.LittleEndian.Uint64(tbl)^binary.LittleEndian.Uint64(tbl[8:]), h.get64(out)[2])
	require.Equal(t, []uint32{0x84, 330, 77, 330, 77, 7, 600, 0, 0x1234 + 77, 0x07060500, 0x00030706}, got[6:17])
	require.Equal(t, uint64(0xff84030201), h.get64(out)[9])
	require.Equal(t, tbl, h.bytes(out)[80:96])
}

func TestAtomics(t *testing.T) {
	const grid, block = 8, 128
	const n = grid * block
	for _, c := range []struct {
		op   string
		reg  string // how the operand is made, in %r1, %f1, %rd4 ...
		init uint64
		want uint64
		size int
	}{
		{"add.u32 %r9, [%rd1], %gid;", "", 5, 5 + n*(n-1)/2, 4},
		{"add.u64 %rd9, [%rd1], %rd4;", "cvt.u64.u32 %rd4, %gid;", 1 << 40, 1<<40 + n*(n-1)/2, 8},
		{"min.s32 %r9, [%rd1], %r1;", "sub.u32 %r1, 100, %gid;", 0, uint64(uint32(0xffffffff & (100 - (n - 1) + 1<<32))), 4},
		{"max.u64 %rd9, [%rd1], %rd4;", "cvt.u64.u32 %rd4, %gid;", 0, n - 1, 8},
		{"and.b32 %r9, [%rd1], %r1;", "not.b32 %r1, %gid;", 0xffffffff, 0xffffffff &^ (n - 1), 4},
		{"or.b64 %rd9, [%rd1], %rd4;", "cvt.u64.u32 %rd4, %gid;", 0, n - 1, 8},
		{"xor.b32 %r9, [%rd1], %gid;", "", 1, 1, 4},
		{"inc.u32 %r9, [%rd1], 99;", "", 0, n % 100, 4},
		{"dec.u32 %r9, [%rd1], 99;", "", 0, 100 - n%100, 4},
		{"add.f32 %r9, [%rd1], 0f3F800000;", "", 0, uint64(math.Float32bits(n)), 4},
		{"add.f64 %rd9, [%rd1], 0d3FF0000000000000;", "", 0, math.Float64bits(n), 8},
		{"add.noftz.f16x2 %r9, [%rd1], 0x3C004000;", "", 0, 0x64006800, 4},
		{"add.noftz.f16 %h9, [%rd1+2], 0x3C00;", "", 0, 0x64000000, 4},
	} {
		for _, space := range []string{"", ".global", ".shared"} {
			h := &gmem{}
			decl, pre, post := "", "mov.u64 %rd1, cell;", ""
			if space == ".shared" {
				// All blocks on one shared cell each; block 0's result counts only for one block,
				// so the whole grid is one block there.
				decl = ".shared .align 8 .b8 scell[8];"
				pre = "ld.global.u64 %rd8, [cell]; mov.u64 %rd1, scell; st.shared.u64 [scell], %rd8; bar.sync 0;"
				post = "bar.sync 0; ld.shared.u64 %rd8, [scell]; st.global.u64 [cell], %rd8;"
			}
			src := kernelOf(".global .align 8 .u64 cell;"+decl, pre+c.reg+"\natom"+space+"."+c.op+"\n"+post+"ret;")
			src = strings.ReplaceAll(src, "%ti,", "%ti,")
			l := load(t, h, src)
			cell := uint64(heapBase)
			binary.LittleEndian.PutUint64(h.bytes(cell), c.init)
			g, b := uint32(grid), uint32(block)
			if space == ".shared" {
				g, b = 1, n
			}
			require.NoError(t, launch(t, l, h, "k", g, b, h.alloc(8)), c.op)
			got := h.get64(cell)[0]
			if c.size == 4 {
				got = uint64(uint32(got))
			}
			require.Equal(t, c.want, got, "%s %s", space, c.op)
		}
	}
	// red, cas on 16 and 128 bits, exch.
	h := &gmem{}
	l := load(t, h, kernelOf(".global .align 16 .b8 cell[32]; .global .align 16 .f32 vec[8];", `
red.global.add.u32 [cell], 3;
red.global.gpu.relaxed.add.v2.f32 [vec], {0f3F800000, 2.0};
atom.global.add.v4.f32 {%r1, %r2, %r3, %r4}, [vec+16], {1.0, 2.0, 3.0, 4.0};
L: ld.volatile.global.b16 %h1, [cell+6]; add.u16 %h2, %h1, 1; atom.global.cas.b16 %h3, [cell+6], %h1, %h2;
setp.ne.u16 %p1, %h3, %h1; @%p1 bra L;
{ .reg .b128 %q<4>;
M: ld.relaxed.gpu.global.v2.u64 {%rd1, %rd2}, [cell+16];
add.cc.u64 %rd3, %rd1, 0x4000000000000001; addc.u64 %rd4, %rd2, 0;
mov.b128 %q1, {%rd1, %rd2}; mov.b128 %q2, {%rd3, %rd4};
atom.global.cas.b128 %q3, [cell+16], %q1, %q2;
mov.b128 {%rd5, %rd6}, %q3; setp.ne.u64 %p1, %rd5, %rd1; setp.ne.or.u64 %p1, %rd6, %rd2, %p1; @%p1 bra M; }
ret;`))
	require.NoError(t, launch(t, l, h, "k", 4, 64, uint64(0)))
	require.Equal(t, []uint64{256<<48 | 768, 0, 256, 64}, h.get64(heapBase))
	var vec []float32
	for _, v := range h.get32(heapBase + heapStep) {
		vec = append(vec, math.Float32frombits(v))
	}
	require.Equal(t, []float32{256, 512, 0, 0, 256, 512, 768, 1024}, vec)
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		decl string
		body string
		kind FaultKind
		text []string
	}{
		{"out of bounds", "", "setp.ne.u32 %p1, %gid, 0; @%p1 ret; add.u64 %rd1, %out, 4096; st.global.u32 [%rd1], 1; ret;", IllegalAddress,
			[]string{"illegal address (700)", "kernel k", "block (0,0,0)", "thread (0,0,0)", "line 18", "write of 4 bytes", "0x700001000"}},
		{"last bytes", "", "ld.global.u64 %rd1, [%base+1020]; ret;", MisalignedAddress, []string{"misaligned"}},
		{"beyond", "", "ld.global.u32 %r1, [%base+1024]; ret;", IllegalAddress, []string{"read of 4 bytes"}},
		{"null", "", "mov.u64 %rd1, 0; ld.u32 %r1, [%rd1]; ret;", IllegalAddress, []string{"generic address 0x0"}},
		{"one thread", "", "setp.ne.u32 %p1, %gid, 70; @%p1 ret; st.global.u32 [%base+3], 1; ret;", MisalignedAddress,
			[]string{"misaligned address (716)", "block (1,0,0)", "thread (6,0,0)", "0x700000003"}},
		{"vector alignment", "", "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%base+8]; ret;", MisalignedAddress, []string{"16 bytes"}},
		{"shared", ".shared .u32 s[4];", "mov.u32 %r1, 16; st.shared.u32 [%r1], 1; ret;", IllegalAddress, []string{"shared address 0x10"}},
		{"local", "", "{ .local .u32 x; mov.u64 %rd1, x; ld.local.u32 %r1, [%rd1+16]; } ret;", IllegalAddress, []string{"local address 0x10"}},
		{"atomic", "", "atom.global.add.u32 %r1, [%base+2], 1; ret;", MisalignedAddress, []string{"write"}},
		{"trap", "", "setp.eq.u32 %p1, %gid, 3; @%p1 trap; ret;", LaunchFailed, []string{"thread (3,0,0)", "trap"}},
		{"bad table", "", "T: .branchtargets A; brx.idx %gid, T; A: ret;", IllegalInstruction, []string{"beyond the table"}},
		{"bad call", "", "mov.u64 %rd1, 5; P: .callprototype _ (); call %rd1, (), P; ret;", InvalidPC, []string{"holds no function"}},
		{"recursion", ".func f(.param .u32 a);\n.func f(.param .u32 a) { .param .u32 b; st.param.u32 [b], 1; call f, (b); ret; }",
			"{ .param .u32 b; st.param.u32 [b], 1; call f, (b); } ret;", HardwareStackError, []string{"stack"}},
		{"write to a parameter", "", "mov.b64 %rd1, out; st.u32 [%rd1], 1; ret;", IllegalAddress, []string{"param"}},
		{"barrier number", "", "mov.u32 %r1, 77; bar.sync %r1; ret;", IllegalInstruction, []string{"beyond 15"}},
		{"half a warp", "", "setp.ge.u32 %p1, %gid, 16; @%p1 ret; mov.u32 %r1, 0; mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%r2,%r3,%r4,%r5}, {%r1,%r1}, {%r1}, {%r1,%r1,%r1,%r1}; ret;",
			IllegalInstruction, []string{"mma without all lanes"}},
		{"two warps of four", "", "mov.u64 %rd1, 0; setp.ne.u32 %p1, %gid, 999; wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1,%r2,%r3,%r4}, %rd1, %rd1, %p1; ret;",
			IllegalInstruction, []string{"wgmma without all four warps", "64 threads"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &gmem{}
			l := load(t, h, kernelOf(c.decl, c.body))
			out := h.alloc(1024)
			err := launch(t, l, h, "k", 4, 64, uint64(heapBase+uint64(len(h.blocks)-1)*heapStep))
			_ = out
			var f *Fault
			require.ErrorAs(t, err, &f)
			require.Equal(t, c.kind, f.Kind, err.Error())
			for _, s := range c.text {
				require.Contains(t, err.Error(), s)
			}
		})
	}
}

// TestStackOfCalls has a kernel with an array, and a function that calls itself ten times. Both lie on one stack, as on a device.
func TestStackOfCalls(t *testing.T) {
	h := &gmem{}
	l := load(t, h, kernelOf(`
.func f(.param .u32 a);
.func f(.param .u32 a) {
.reg .u32 %r<3>; .reg .pred %p; .local .align 8 .b8 keep[32];
ld.param.u32 %r1, [a];
setp.eq.u32 %p, %r1, 0;
@%p ret;
sub.u32 %r2, %r1, 1;
{ .param .u32 b; st.param.u32 [b], %r2; call f, (b); }
ret;
}
`, ".local .align 8 .b8 large[1000]; { .param .u32 b; st.param.u32 [b], 10; call f, (b); } ret;"))
	const needs = 1000 + 11*(32+16)
	for _, stack := range []uint32{0, 1 << 10, needs - 1, needs} {
		err := l.Entry("k").Launch(t.Context(), Launch{Grid: dim(1), Block: dim(32), Params: make([]byte, 8), Memory: h, StackBytes: stack})
		if stack == 0 || stack == needs {
			require.NoError(t, err, "%d bytes", stack)
			continue
		}
		f, ok := errors.AsType[*Fault](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, HardwareStackError, f.Kind)
	}
}

func TestUseAfterFree(t *testing.T) {
	h := &gmem{}
	l := load(t, h, kernelOf("", "st.global.u32 [%out], 1; ret;"))
	out := h.alloc(1024)
	require.NoError(t, launch(t, l, h, "k", 1, 32, out))
	h.blocks[len(h.blocks)-1] = nil
	var f *Fault
	require.ErrorAs(t, launch(t, l, h, "k", 1, 32, out), &f)
	require.Equal(t, IllegalAddress, f.Kind)
}

func TestCalls(t *testing.T) {
	got := run32(t, kernelOf(`
.func (.param .b32 r) fib(.param .b32 n) {
.reg .b32 %r<9>; .reg .pred %p; .local .align 4 .b8 keep[8];
ld.param.b32 %r1, [n];
setp.lt.u32 %p, %r1, 2;
@%p bra BASE;
{ .param .b32 a; .param .b32 b; sub.u32 %r2, %r1, 1; st.param.b32 [a+0], %r2; call.uni (b), fib, (a); ld.param.b32 %r3, [b+0]; }
st.local.u32 [keep], %r3;
{ .param .b32 a; .param .b32 b; sub.u32 %r2, %r1, 2; st.param.b32 [a+0], %r2; call.uni (b), fib, (a); ld.param.b32 %r4, [b+0]; }
ld.local.u32 %r3, [keep];
add.u32 %r5, %r3, %r4; st.param.b32 [r+0], %r5; ret;
BASE: st.param.b32 [r+0], %r1; ret;
}
.func (.reg .u32 %rv, .reg .pred %rp) regs(.reg .u32 %a, .reg .u32 %b, .reg .pred %q) { @%q add.u32 %a, %a, 1000; sub.u32 %rv, %a, %b; setp.gt.u32 %rp, %rv, 500; ret; }
.func (.param .align 8 .b8 r[16]) swap(.param .align 8 .b8 s[16]) { .reg .b64 %x<3>; ld.param.v2.u64 {%x1, %x2}, [s]; st.param.v2.u64 [r], {%x2, %x1}; ret; }
.func (.param .u32 r) twice(.param .u32 a) { .reg .u32 %x; ld.param.u32 %x, [a]; add.u32 %x, %x, %x; st.param.u32 [r], %x; ret; }
.func (.param .u32 r) square(.param .u32 a) { .reg .u32 %x; .reg .u64 %y; mov.b64 %y, a; ld.param.u32 %x, [%y]; mul.lo.u32 %x, %x, %x; st.param.u32 [r], %x; ret; }
.global .u64 table[2] = {twice, square};
`, `
and.b32 %r1, %ti, 15;
{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), fib, (a); ld.param.b32 %r2, [b]; }
setp.gt.u32 %p1, %r1, 7;
call (%r3, %p2), regs, (%r2, 5, %p1);
@%p2 add.u32 %r3, %r3, 100000;
{ .param .align 8 .b8 a[16]; .param .align 8 .b8 b[16]; cvt.u64.u32 %rd1, %r3; st.param.u64 [a], %rd1; st.param.u64 [a+8], 7; call (b), swap, (a); ld.param.u64 %rd2, [b+8]; cvt.u32.u64 %r3, %rd2; }
and.b32 %r4, %ti, 1; mul.wide.u32 %rd3, %r4, 8; mov.u64 %rd4, table; add.u64 %rd4, %rd4, %rd3; ld.global.u64 %rd5, [%rd4];
{ .param .u32 a; .param .u32 b; st.param.u32 [a], %r1; P: .callprototype (.param .u32 _) _ (.param .u32 _); call (b), %rd5, (a), P; ld.param.u32 %r6, [b]; }
mad.lo.u32 %r3, %r6, 1000000, %r3;
st.global.u32 [%out], %r3; ret;`), 2, 64)
	fib := []uint32{0, 1}
	for i := 2; i < 16; i++ {
		fib = append(fib, fib[i-1]+fib[i-2])
	}
	for i, v := range got {
		n := uint32(i % 16)
		want := fib[n] - 5
		if n > 7 {
			want += 1000
		}
		if want > 500 {
			want += 100000
		}
		call := 2 * n
		if i&1 == 1 {
			call = n * n
		}
		require.Equal(t, want+call*1000000, v, "thread %d", i)
	}
}

func TestPrintfAndAssert(t *testing.T) {
	h := &gmem{}
	decl := `
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e) .noreturn;
.global .align 1 .b8 fmt[] = {37, 48, 52, 100, 32, 37, 103, 32, 37, 115, 37, 37, 32, 37, 108, 108, 120, 10, 0};
.global .align 1 .b8 msg[3] = {104, 105, 0};`
	l := load(t, h, kernelOf(decl, `
setp.gt.u32 %p1, %ti, 1; @%p1 ret;
{ .local .align 8 .b8 buf[32]; .param .b64 a; .param .b64 b; .param .b32 r;
mov.u64 %rd1, buf; cvta.local.u64 %rd1, %rd1; mov.u64 %rd2, fmt; cvta.global.u64 %rd2, %rd2;
st.local.u32 [buf], %ti; st.local.f64 [buf+8], 0d3FF8000000000000; mov.u64 %rd3, msg; st.local.u64 [buf+16], %rd3; st.local.u64 [buf+24], -1;
st.param.b64 [a], %rd2; st.param.b64 [b], %rd1; call.uni (r), vprintf, (a, b); ld.param.b32 %r1, [r]; st.global.u32 [%out], %r1; }
setp.ne.u32 %p1, %ti, 1; @%p1 ret;
{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
st.param.b64 [a], %rd3; st.param.b64 [b], %rd3; st.param.b32 [c], 42; st.param.b64 [d], %rd3; st.param.b64 [e], 1;
call.uni __assertfail, (a, b, c, d, e); }
ret;`))
	out := h.alloc(256)
	var text bytes.Buffer
	k := l.Entry("k")
	err := k.Launch(context.Background(), Launch{Grid: dim(1), Block: dim(64), Params: args(k, out), Memory: h, Printf: &text})
	require.Equal(t, "0000 1.5 hi% ffffffffffffffff\n0001 1.5 hi% ffffffffffffffff\n", text.String())
	require.Equal(t, uint32(4), h.get32(out)[0])
	var f *Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, Assert, f.Kind)
	require.Contains(t, err.Error(), "hi:42: hi: assertion `hi' failed")
}

func TestDynamicShared(t *testing.T) {
	h := &gmem{}
	l := load(t, h, kernelOf(".extern .shared .align 16 .b8 dyn[]; .shared .u32 fixed[3];", `
mov.u32 %r1, dyn; mov.u32 %r2, fixed; st.shared.u32 [fixed+8], 9;
mad.lo.u32 %r3, %ti, 4, %r1; st.shared.u32 [%r3], %ti; bar.sync 0;
xor.b32 %r4, %ti, 31; mad.lo.u32 %r4, %r4, 4, %r1; ld.shared.u32 %r5, [%r4];
mov.u32 %r6, %dynamic_smem_size; mad.lo.u32 %r5, %r6, 1000, %r5; st.global.u32 [%out], %r5; ret;`))
	out := h.alloc(128)
	k := l.Entry("k")
	require.Equal(t, 12, k.SharedBytes())
	require.NoError(t, k.Launch(context.Background(), Launch{Grid: dim(1), Block: dim(32), SharedBytes: 128, Params: args(k, out), Memory: h}))
	require.Equal(t, uint32(128*1000+30), h.get32(out)[1])
	var f *Fault
	require.ErrorAs(t, k.Launch(context.Background(), Launch{Grid: dim(1), Block: dim(32), SharedBytes: 64, Params: args(k, out), Memory: h}), &f)
	require.Equal(t, "shared", f.Space)
}

// TestJunk reads what nobody has written. The block before wrote zeros there.
func TestJunk(t *testing.T) {
	for _, c := range []struct{ name, decl, body string }{
		{"static shared memory", ".shared .align 4 .b8 s[5000];", "mad.lo.u32 %r2, %ti, 76, s; ld.shared.u32 %r1, [%r2]; st.shared.u32 [%r2], 0;"},
		{"dynamic shared memory", ".shared .u32 s[3]; .extern .shared .align 16 .b8 dyn[];", "mad.lo.u32 %r2, %ti, 4, dyn; ld.shared.u32 %r1, [%r2]; st.shared.u32 [%r2], 0;"},
		{"local memory", "", ".local .align 4 .b8 l[200]; ld.local.u32 %r1, [l+196]; st.local.u32 [l+196], 0;"},
		{"16 bits", "", ".reg .b16 %x; cvt.u32.u16 %r1, %x; sub.u32 %r1, %r1, 0x10000; mov.b16 %x, 0;"},
		{"32 bits", "", ".reg .f32 %x; mov.b32 %r2, %x; cvt.u64.u32 %rd1, %r2; shr.u64 %rd1, %rd1, 16; cvt.u32.u64 %r1, %rd1; sub.u32 %r1, %r1, 0x10000; mov.f32 %x, 0f00000000;"},
		{"64 bits", "", ".reg .b64 %x; shr.s64 %x, %x, 40; cvt.u32.u64 %r1, %x; mov.b64 %x, 0;"},
		{"128 bits", "", ".reg .b128 %x; mov.b128 {%rd1, %rd2}, %x; and.b64 %rd1, %rd1, %rd2; shr.u64 %rd1, %rd1, 32; cvt.u32.u64 %r1, %rd1; mov.b64 %rd1, 0; mov.b128 %x, {%rd1, %rd1};"},
		{"a predicate", "", ".reg .pred %x; selp.s32 %r1, -1, 0, %x; setp.ne.u32 %x, %r1, %r1;"},
		{"a register of some threads", "", "setp.gt.u32 %p1, %ti, 63; @%p1 mov.u32 %r1, 0;"},
		{"a register of a function", ".func (.reg .u32 %y) f() { .reg .u32 %x; mov.u32 %y, %x; mov.u32 %x, 0; ret; }", "call (%r1), f, (); call (%r1), f, ();"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &gmem{}
			l := load(t, h, kernelOf(c.decl, c.body+" st.global.u32 [%out], %r1; ret;"))
			k := l.Entry("k")
			for range 2 { // the second launch has the blocks of the first
				out := h.alloc(4 * 3 * 64)
				require.NoError(t, k.Launch(t.Context(), Launch{Grid: dim(3), Block: dim(64), SharedBytes: 256, Params: args(k, out), Memory: h, Workers: 1}))
				for i, v := range h.get32(out) {
					require.Equal(t, ^uint32(0), v, "thread %d", i)
				}
			}
		})
	}
}

func TestSpecialRegisters(t *testing.T) {
	h := &gmem{}
	l := load(t, h, header+`.visible .entry k(.param .u64 out) {
.reg .b32 %r<20>; .reg .b64 %o; .reg .b64 %c<3>; .reg .pred %p; .reg .v4 .u32 %v;
mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y;
mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;
mov.u32 %r7, %ctaid.y; mul.lo.u32 %r7, %r7, 1000; mov.u32 %r8, %ctaid.z; mad.lo.u32 %r7, %r8, 10000, %r7;
add.u32 %r7, %r7, %ctaid.x; mov.v4.u32 %v, %nctaid; mad.lo.u32 %r7, %v.y, 100, %r7;
mov.u32 %r9, %warpid; mov.u32 %r10, %laneid; mad.lo.u32 %r9, %r9, WARP_SZ, %r10; sub.u32 %r9, %r9, %r6; add.u32 %r7, %r7, %r9;
mov.u64 %c1, %clock64; mov.u64 %c2, %clock64; setp.gt.u64 %p, %c2, %c1; @!%p trap;
mov.u32 %r11, %nctaid.x; mov.u32 %r12, %nctaid.y; mov.u32 %r13, %ctaid.y; mov.u32 %r14, %ctaid.x; mov.u32 %r15, %ctaid.z;
mad.lo.u32 %r15, %r15, %r12, %r13; mad.lo.u32 %r15, %r15, %r11, %r14; mul.lo.u32 %r15, %r15, 60; add.u32 %r15, %r15, %r6;
ld.param.u64 %o, [out]; mad.wide.u32 %o, %r15, 4, %o; st.global.u32 [%o], %r7; ret; }`)
	out := h.alloc(60 * 24 * 4)
	k := l.Entry("k")
	require.NoError(t, k.Launch(context.Background(), Launch{Grid: [3]uint32{2, 3, 4}, Block: [3]uint32{5, 4, 3}, Params: args(k, out), Memory: h}))
	for i, v := range h.get32(out) {
		b := uint32(i / 60)
		require.Equal(t, b/6*10000+b/2%3*1000+b%2+300, v)
	}
}

func TestUnsupportedAndInvalid(t *testing.T) {
	for _, c := range []struct {
		code string
		typ  any
		text string
	}{
		{"wgmma.mma_async.sp.sync.aligned.m64n8k64.s32.s8.s8 {%r1,%r2,%r3,%r4}, %rd1, %rd2, %r5, 0, 1;", new(*UnsupportedError), "wgmma.mma_async.sp.sync.aligned"},
		{"wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {%r1,%r2,%r3,%r4}, %rd1, %rd2, %p1;", new(*UnsupportedError), "m64n40k32"},
		{"wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.s8 {%r1,%r2,%r3,%r4}, %rd1, %rd2, %p1, 1, 1;", new(*UnsupportedError), "e4m3.s8"},
		{"wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {%r1,%r2,%r3,%r4}, %rd1, %rd2, %p1, 1, 1;", new(*InvalidError), "6 operands, want 4"},
		{"wgmma.mma_async.sync.aligned.m64n8k16.f32.e4m3.e4m3 {%r1,%r2,%r3,%r4}, %rd1, %rd2, %p1, 1, 1;", new(*UnsupportedError), "m64n8k16"},
		{"tex.1d.v4.f32.s32 {%r1,%r2,%r3,%r4}, [%rd1, {%r1}];", new(*UnsupportedError), "tex.1d"},
		{"add.what.s32 %r1, %r2, %r3;", new(*UnsupportedError), "modifier .what"},
		{"add.s32 %r1, %rd2, %r3;", new(*InvalidError), "add.s32"},
		{"mov.u32 %r1;", new(*InvalidError), "1 operands"},
		{"setp.lt.b32 %p1, %r1, %r2;", new(*InvalidError), "comparison"},
		{"ld.global.v2.u32 %r1, [%rd1];", new(*InvalidError), "vector"},
	} {
		m := mustParse(t, kernelOf("", "\n"+c.code+"\nret;"))
		_, err := compileAll(m)
		require.ErrorAs(t, err, c.typ, c.code)
		require.Contains(t, err.Error(), c.text)
		require.Contains(t, err.Error(), "line 19")
		require.Contains(t, err.Error(), "kernel k")
	}
}

func TestLaunchChecks(t *testing.T) {
	h := &gmem{}
	l := load(t, h, header+".visible .entry a(.param .u64 x) .reqntid 32, 2 { ret; }\n.visible .entry b() .maxntid 64 { ret; }")
	go1 := func(name string, grid, block [3]uint32, params int) error {
		return l.Entry(name).Launch(context.Background(), Launch{Grid: grid, Block: block, Params: make([]byte, params)})
	}
	require.NoError(t, go1("a", dim(1), [3]uint32{32, 2, 1}, 8))
	require.ErrorContains(t, go1("a", dim(1), dim(64), 8), ".reqntid")
	require.ErrorContains(t, go1("a", dim(1), [3]uint32{32, 2, 1}, 4), "parameters")
	require.ErrorContains(t, go1("b", dim(1), dim(65), 0), ".maxntid")
	require.ErrorContains(t, go1("b", dim(0), dim(1), 0), "not possible")
	require.ErrorContains(t, go1("b", dim(1), [3]uint32{64, 64, 1}, 0), "4096 threads")
	require.Nil(t, l.Entry("c"))
}

// TestNoAllocations: what a launch allocates does not depend on how long it runs.
func TestNoAllocations(t *testing.T) {
	h := &gmem{}
	l := load(t, h, kernelOf(".shared .u32 s[64];", `
mov.u32 %r1, 0;
L: and.b32 %r2, %r1, %ti; setp.eq.u32 %p1, %r2, 0; @%p1 bra M; atom.shared.add.u32 %r3, [s], 1; mul.lo.u32 %r4, %r3, 3;
M: shfl.sync.bfly.b32 %r5, %r1, 1, 31, -1; bar.sync 0; fma.rn.f32 %r6, %r5, %r4, %r6; st.global.u32 [%out], %r6;
add.u32 %r1, %r1, 1; ld.param.u64 %rd1, [out]; setp.lt.u32 %p2, %r1, 200; @%p2 bra L; ret;`))
	out := h.alloc(64 * 4 * 30)
	k := l.Entry("k")
	p := args(k, out)
	launch := func(grid uint32) func() {
		return func() {
			require.NoError(t, k.Launch(context.Background(), Launch{Grid: dim(grid), Block: dim(64), Params: p, Memory: h, Workers: 1}))
		}
	}
	allocs.AtMost(t, allocs.Least(5, 0, launch(1))+3, 5, launch(30))
}

// TestAsyncCopies reads shared memory before and after each wait: the data of a copy come with the wait for its group.
func TestAsyncCopies(t *testing.T) {
	h := &gmem{}
	l := load(t, h, header+`.visible .entry k(.param .u64 in, .param .u64 out) {
.reg .b64 %in, %out; .reg .b32 %r<20>; .shared .align 16 .b32 s[16];
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %r1, 9;
st.shared.u32 [s], %r1; st.shared.u32 [s+16], %r1; st.shared.u32 [s+32], %r1; st.shared.u32 [s+48], %r1;
cp.async.cg.shared.global [s], [%in], 16; cp.async.commit_group;
cp.async.ca.shared.global [s+16], [%in+16], 4; cp.async.commit_group;
cp.async.cg.shared.global [s+32], [%in+32], 16; ld.shared.u32 %r2, [s];
cp.async.wait_group 1; ld.shared.u32 %r3, [s]; ld.shared.u32 %r4, [s+16];
cp.async.wait_group 0; ld.shared.u32 %r5, [s+16]; ld.shared.u32 %r6, [s+32];
cp.async.cg.shared.global [s+48], [%in+48], 16, 0; cp.async.wait_all; ld.shared.u32 %r7, [s+32]; ld.shared.u32 %r8, [s+48];
st.global.v4.u32 [%out], {%r2, %r3, %r4, %r5}; st.global.v4.u32 [%out+16], {%r6, %r7, %r8, %r1}; ret; }`)
	in, out := h.put64(1, 2, 3, 4, 5, 6, 7, 8), h.alloc(32)
	require.NoError(t, launch(t, l, h, "k", 1, 1, in, out))
	require.Equal(t, []uint32{9, 1, 9, 3, 9, 5, 0, 9}, h.get32(out)[:8])
}
