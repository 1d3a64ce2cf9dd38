package exec

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/seeds"
)

const header = ".version 8.0\n.target sm_80\n.address_size 64\n"

// kernelOf wraps a body into a kernel with an output pointer in %out (already offset by
// 4*global thread id) and the thread id in %ti.
func kernelOf(decl, body string) string {
	return header + decl + `
.visible .entry k(.param .u64 out) {
.reg .pred %p<20>;
.reg .b16 %h<20>;
.reg .b32 %r<60>;
.reg .b64 %rd<40>;
.reg .b64 %base, %out;
.reg .b32 %ti, %gid;
ld.param.u64 %base, [out];
mov.u32 %ti, %tid.x;
mov.u32 %gid, %ctaid.x;
mov.u32 %r59, %ntid.x;
mad.lo.u32 %gid, %gid, %r59, %ti;
mad.wide.u32 %out, %gid, 4, %base;
` + body + "\n}\n"
}

// run32 runs such a kernel and gives one word per thread.
func run32(t testing.TB, src string, grid, block uint32) []uint32 {
	t.Helper()
	h := &gmem{}
	l := load(t, h, src)
	out := h.alloc(int(4 * grid * block))
	require.NoError(t, launch(t, l, h, "k", grid, block, out))
	return h.get32(out)
}

// TestRandomControlFlow runs random, unstructured graphs of blocks and compares every
// thread with a simulation of its own.
func TestRandomControlFlow(t *testing.T) {
	seeds.Each(t, seeds.Count(50, 300, 300), func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 99))
		n := 2 + r.IntN(14)
		type node struct {
			mul, add uint32
			kind     int // 0 goto, 1 branch, 2 table, 3 predicated exit, then goto
			to       [4]int
			bit      int
		}
		nodes := make([]node, n)
		var body strings.Builder
		body.WriteString("mov.u32 %r1, %gid; mad.lo.u32 %r1, %r1, 2654435761, 12345; mov.u32 %r2, 0;\n")
		for i := range nodes {
			b := node{mul: r.Uint32() | 1, add: r.Uint32(), kind: r.IntN(4), bit: r.IntN(28)}
			for j := range b.to {
				b.to[j] = r.IntN(n)
			}
			nodes[i] = b
			fmt.Fprintf(&body, "B%d:\nadd.u32 %%r2, %%r2, 1;\nmad.lo.u32 %%r1, %%r1, %d, %d;\n", i, b.mul, b.add)
			body.WriteString("setp.gt.u32 %p1, %r2, 60;\n@%p1 bra DONE;\n")
			fmt.Fprintf(&body, "shr.u32 %%r3, %%r1, %d;\n", b.bit)
			switch b.kind {
			case 0:
				fmt.Fprintf(&body, "bra.uni B%d;\n", b.to[0])
			case 1:
				fmt.Fprintf(&body, "and.b32 %%r4, %%r3, 1;\nsetp.eq.u32 %%p2, %%r4, 0;\n@%%p2 bra B%d;\nbra B%d;\n", b.to[0], b.to[1])
			case 2:
				fmt.Fprintf(&body, "and.b32 %%r4, %%r3, 3;\nT%d: .branchtargets B%d, B%d, B%d, B%d;\nbrx.idx %%r4, T%d;\n",
					i, b.to[0], b.to[1], b.to[2], b.to[3], i)
			case 3:
				fmt.Fprintf(&body, "and.b32 %%r4, %%r3, 7;\nsetp.eq.u32 %%p3, %%r4, 5;\n@%%p3 st.global.u32 [%%out], %%r1;\n@%%p3 exit;\nbra B%d;\n", b.to[0])
			}
		}
		body.WriteString("DONE:\nst.global.u32 [%out], %r1;\nret;")
		got := run32(t, kernelOf("", body.String()), 3, 77)
		for gid := range uint32(3 * 77) {
			v, at := gid*2654435761+12345, 0
			for steps := 1; ; steps++ {
				b := nodes[at]
				v = v*b.mul + b.add
				if steps > 60 {
					break
				}
				x := v >> b.bit
				switch b.kind {
				case 0:
					at = b.to[0]
				case 1:
					at = b.to[x&1]
				case 2:
					at = b.to[x&3]
				case 3:
					at = b.to[0]
				}
				if b.kind == 3 && x&7 == 5 {
					break
				}
			}
			require.Equal(t, v, got[gid], "thread %d", gid)
		}
	})
}

// TestReconvergence: after loops of different length, nested branches and a cold block
// at the end of the code, all lanes run together again.
func TestReconvergence(t *testing.T) {
	got := run32(t, kernelOf("", `
mov.u32 %r1, 0;
LOOP:
add.u32 %r1, %r1, 1;
and.b32 %r2, %r1, 3;
setp.eq.u32 %p2, %r2, 2;
@%p2 bra COLD;
BACK:
setp.le.u32 %p1, %r1, %ti;
@%p1 bra LOOP;
activemask.b32 %r3;
st.global.u32 [%out], %r3;
ret;
COLD:
xor.b32 %r4, %r4, %r1;
bra BACK;
`), 1, 64)
	for i, v := range got {
		require.Equal(t, full, v, "thread %d", i)
	}
	// The exit of an inner loop in the middle of an outer one.
	got = run32(t, kernelOf("", `
mov.u32 %r1, 0; mov.u32 %r5, 0; mov.u32 %r6, -1;
OUTER:
mov.u32 %r2, 0;
INNER:
add.u32 %r2, %r2, 1; add.u32 %r5, %r5, %r2;
setp.lt.u32 %p1, %r2, %ti;
@%p1 bra INNER;
activemask.b32 %r3; and.b32 %r6, %r6, %r3;
add.u32 %r1, %r1, 1;
setp.lt.u32 %p2, %r1, 5;
@%p2 bra OUTER;
st.global.u32 [%out], %r6;
ret;`), 1, 32)
	for i, v := range got {
		require.Equal(t, full, v, "thread %d", i)
	}
}

// TestSpinLock: lanes of one warp and of several take a lock in turn.
func TestSpinLock(t *testing.T) {
	src := kernelOf(".global .u32 lock; .global .u32 count;", `
AGAIN:
atom.global.cas.b32 %r1, [lock], 0, 1;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra AGAIN;
ld.volatile.global.u32 %r2, [count];
add.u32 %r2, %r2, 1;
st.volatile.global.u32 [count], %r2;
membar.gl;
atom.global.exch.b32 %r3, [lock], 0;
st.global.u32 [%out], %r2;
ret;`)
	got := run32(t, src, 4, 64)
	seen := map[uint32]bool{}
	for _, v := range got {
		seen[v] = true
	}
	require.Len(t, seen, 256)
}

func TestShuffles(t *testing.T) {
	for _, c := range []struct {
		code string
		want func(lane uint32) uint32
	}{
		{"shfl.sync.down.b32 %r2, %r1, 4, 31, -1;", func(l uint32) uint32 {
			if l+4 < 32 {
				return 100 + l + 4
			}
			return 100 + l
		}},
		{"shfl.sync.up.b32 %r2|%p1, %r1, 3, 0, -1; selp.u32 %r3, 1000, 0, %p1; add.u32 %r2, %r2, %r3;", func(l uint32) uint32 {
			if l >= 3 {
				return 1100 + l - 3
			}
			return 100 + l
		}},
		{"shfl.sync.bfly.b32 %r2, %r1, 5, 31, -1;", func(l uint32) uint32 { return 100 + l ^ 5 - 0 + 0 }},
		{"shfl.sync.idx.b32 %r2, %r1, 9, 31, -1;", func(uint32) uint32 { return 109 }},
		{"shfl.sync.idx.b32 %r2, %r1, 1, 0x181f, -1;", func(l uint32) uint32 { return 100 + l&24 | 1 }},
		{"shfl.sync.down.b32 %r2, %r1, 2, 0x181f, -1;", func(l uint32) uint32 {
			if l&7+2 < 8 {
				return 102 + l
			}
			return 100 + l
		}},
		{"shfl.idx.b32 %r2, %r1, 31, 31;", func(uint32) uint32 { return 131 }},
		{"setp.lt.u32 %p1, %ti, 7; vote.sync.ballot.b32 %r2, %p1, -1;", func(uint32) uint32 { return 127 }},
		{"setp.lt.u32 %p1, %ti, 7; vote.sync.any.pred %p2, !%p1, -1; selp.u32 %r2, 5, 6, %p2;", func(uint32) uint32 { return 5 }},
		{"setp.lt.u32 %p1, %ti, 7; vote.sync.all.pred %p2, %p1, -1; selp.u32 %r2, 5, 6, %p2;", func(uint32) uint32 { return 6 }},
		{"setp.lt.u32 %p1, %ti, 99; vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r2, 5, 6, %p2;", func(uint32) uint32 { return 5 }},
		{"and.b32 %r3, %ti, 3; match.any.sync.b32 %r2, %r3, -1;", func(l uint32) uint32 { return 0x11111111 << (l & 3) }},
		{"match.all.sync.b32 %r2|%p1, %r50, -1; selp.u32 %r2, %r2, 1, %p1;", func(l uint32) uint32 { return full }},
		{"match.all.sync.b32 %r2|%p1, %r1, -1; selp.u32 %r3, 5, 1, %p1; add.u32 %r2, %r2, %r3;", func(l uint32) uint32 { return 1 }},
		{"redux.sync.add.u32 %r2, %r1, -1;", func(uint32) uint32 { return 3200 + 496 }},
		{"sub.u32 %r3, %ti, 5; redux.sync.min.s32 %r2, %r3, -1;", func(uint32) uint32 { return 0xfffffffb }},
		{"redux.sync.xor.b32 %r2, %r1, -1;", func(uint32) uint32 {
			x := uint32(0)
			for i := range uint32(32) {
				x ^= 100 + i
			}
			return x
		}},
		{"elect.sync %r2|%p1, 0xffffffff; @%p1 add.u32 %r2, %r2, 50;", func(l uint32) uint32 { return uint32(50 * b2i(l == 0)) }},
		// Under divergence: each half shuffles among itself.
		{`setp.lt.u32 %p1, %ti, 16; @%p1 bra LOW;
		  shfl.sync.idx.b32 %r2, %r1, 20, 31, 0xffff0000; bra JOIN;
		  LOW: shfl.sync.idx.b32 %r2, %r1, 3, 31, 0x0000ffff;
		  JOIN: bar.warp.sync -1;`, func(l uint32) uint32 { return 103 + 17*(l>>4) }},
		// All lanes at two places: sm_70 lets them meet.
		{`setp.lt.u32 %p1, %ti, 16; @%p1 bra LOW;
		  shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1; bra JOIN;
		  LOW: shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1;
		  JOIN: add.u32 %r2, %r2, 0;`, func(l uint32) uint32 { return 100 + (l ^ 16) }},
		// Masks that differ between lanes of one instruction.
		{"and.b32 %r3, %ti, 1; mov.u32 %r4, 0x55555555; shl.b32 %r4, %r4, %r3; redux.sync.max.u32 %r2, %r1, %r4;",
			func(l uint32) uint32 { return 130 + l&1 }},
		// A loop with a shuffle among the lanes that are left.
		{`mov.u32 %r2, 0;
		  L: setp.lt.u32 %p1, %r2, %ti; vote.sync.ballot.b32 %r3, %p1, -1; add.u32 %r2, %r2, 1;
		  setp.ne.u32 %p2, %r3, 0; @%p2 bra L;`, func(uint32) uint32 { return 32 }},
		{"activemask.b32 %r2; setp.eq.u32 %p1, %ti, 4; @%p1 activemask.b32 %r2;", func(l uint32) uint32 {
			if l == 4 {
				return 16
			}
			return full
		}},
		{"mov.u32 %r2, %lanemask_lt; mov.u32 %r3, %lanemask_ge; xor.b32 %r2, %r2, %r3;", func(uint32) uint32 { return full }},
	} {
		got := run32(t, kernelOf("", "mov.u32 %r50, 7; add.u32 %r1, %ti, 100;\n"+c.code+"\nst.global.u32 [%out], %r2; ret;"), 1, 32)
		for l, v := range got {
			want := c.want(uint32(l))
			if strings.Contains(c.code, "bfly.b32 %r2, %r1, 5") {
				want = 100 + (uint32(l) ^ 5)
			}
			require.Equal(t, want, v, "%s lane %d", c.code, l)
		}
	}
}

func TestBarriers(t *testing.T) {
	// Threads that have ended do not count.
	got := run32(t, kernelOf(".shared .u32 s[256];", `
setp.ge.u32 %p1, %ti, 100;
@%p1 ret;
mov.u32 %r1, s; shl.b32 %r2, %ti, 2; add.u32 %r1, %r1, %r2;
mul.lo.u32 %r3, %ti, 3;
st.shared.u32 [%r1], %r3;
bar.sync 0;
xor.b32 %r4, %ti, 1; shl.b32 %r4, %r4, 2; mov.u32 %r5, s; add.u32 %r5, %r5, %r4;
ld.shared.u32 %r6, [%r5];
st.global.u32 [%out], %r6;
ret;`), 2, 200)
	for i := range 400 {
		want := uint32((i%200)^1) * 3
		if i%200 >= 100 {
			want = 0
		}
		require.Equal(t, want, got[i])
	}
	// Reductions over the block, in a loop, reached under divergence.
	got = run32(t, kernelOf("", `
and.b32 %r1, %ti, 1; setp.eq.u32 %p1, %r1, 0;
mov.u32 %r5, 0; mov.u32 %r6, 0;
L:
setp.lt.u32 %p5, %ti, 5;
@%p1 bra EVEN;
add.u32 %r7, %r7, 1;
EVEN:
bar.red.popc.u32 %r2, 1, %p1;
bar.red.or.pred %p2, 2, %p5;
barrier.cta.red.and.aligned.pred %p3, 3, !%p5;
selp.u32 %r3, 100, 0, %p2; selp.u32 %r4, 1000, 0, %p3;
add.u32 %r5, %r5, %r2; add.u32 %r5, %r5, %r3; add.u32 %r5, %r5, %r4;
add.u32 %r6, %r6, 1; setp.lt.u32 %p4, %r6, 3; @%p4 bra L;
st.global.u32 [%out], %r5; ret;`), 1, 96)
	for _, v := range got {
		require.Equal(t, uint32(3*(48+100)), v)
	}
	// Producers arrive, consumers wait: warp 0 waits for the warps 1 to 3.
	got = run32(t, kernelOf(".shared .u32 s[128];", `
mov.u32 %r1, s; mad.lo.u32 %r1, %ti, 4, %r1;
setp.lt.u32 %p1, %ti, 32; @%p1 bra CONSUME;
st.shared.u32 [%r1], %ti;
bar.arrive 5, 128;
st.global.u32 [%out], 1; ret;
CONSUME:
bar.sync 5, 128;
ld.shared.u32 %r2, [%r1+128]; ld.shared.u32 %r3, [%r1+256]; ld.shared.u32 %r4, [%r1+384];
add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4;
st.global.u32 [%out], %r2; ret;`), 1, 128)
	for i := range uint32(32) {
		require.Equal(t, 3*i+32+64+96, got[i])
	}
	// The same instruction, lanes at different barriers.
	got = run32(t, kernelOf("", `
and.b32 %r1, %ti, 1; add.u32 %r1, %r1, 3;
setp.eq.u32 %p1, %ti, %ti;
barrier.sync %r1, 64;
barrier.sync 7;
st.global.u32 [%out], %r1; ret;`), 1, 128)
	require.Equal(t, uint32(4), got[1])
}

func TestBarrierDeadlock(t *testing.T) {
	h := &gmem{}
	l := load(t, h, kernelOf("", "setp.lt.u32 %p1, %ti, 32; @%p1 bar.sync 1, 64; @!%p1 bar.sync 2, 96; ret;"))
	err := launch(t, l, h, "k", 1, 64, h.alloc(256))
	var f *Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, LaunchTimeout, f.Kind)
}

// TestCooperative: blocks wait for each other, more of them than workers.
func TestCooperative(t *testing.T) {
	waiting := kernelOf(".global .u32 count;", `
bar.sync 0;
setp.ne.u32 %p1, %ti, 0; @%p1 bra WAITED;
atom.add.release.gpu.global.u32 %r1, [count], 1;
SPIN: ld.acquire.gpu.global.u32 %r2, [count];
setp.lt.u32 %p2, %r2, 20; @%p2 bra SPIN;
WAITED: bar.sync 0;
st.global.u32 [%out], 1; ret;`)
	h := &gmem{}
	l := load(t, h, waiting)
	out := h.alloc(4 * 20 * 64)
	k := l.Entry("k")
	for range 3 {
		require.NoError(t, k.Launch(context.Background(), Launch{
			Grid: dim(20), Block: dim(64), Params: args(k, out), Memory: h, Workers: 3, Cooperative: true,
		}))
	}
	require.Equal(t, uint32(1), h.get32(out)[20*64-1])

	// Without, the first blocks wait for those that have not begun.
	h = &gmem{}
	k = load(t, h, waiting).Entry("k")
	err := k.Launch(context.Background(), Launch{
		Grid: dim(20), Block: dim(64), Params: args(k, h.alloc(4*20*64)), Memory: h, Workers: 3, MaxSteps: 1 << 16,
	})
	require.ErrorContains(t, err, " of 20 blocks have not begun: blocks that wait for each other need a cooperative launch")
}

func TestRunaway(t *testing.T) {
	h := &gmem{}
	l := load(t, h, kernelOf("", "L: add.u32 %r1, %r1, 1;\nbra L;\n"))
	k := l.Entry("k")
	p := args(k, uint64(0))
	var f *Fault
	require.ErrorAs(t, k.Launch(context.Background(), Launch{Grid: dim(8), Block: dim(64), Params: p, MaxSteps: 1 << 20}), &f)
	require.Equal(t, LaunchTimeout, f.Kind)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	require.ErrorAs(t, k.Launch(ctx, Launch{Grid: dim(8), Block: dim(64), Params: p}), &f)
	require.Equal(t, LaunchTimeout, f.Kind)
	require.Contains(t, f.Error(), "cancelled")
}

func TestMbarrier(t *testing.T) {
	// Every round each thread writes, all wait for the phase, each reads its neighbour.
	got := run32(t, kernelOf(".shared .align 8 .b64 mb; .shared .u32 s[128];", `
setp.ne.u32 %p1, %ti, 0; @%p1 bra READY; mbarrier.init.shared::cta.b64 [mb], 128; READY: bar.sync 0;
mov.u32 %r1, s; mad.lo.u32 %r2, %ti, 4, %r1; xor.b32 %r3, %ti, 127; mad.lo.u32 %r3, %r3, 4, %r1;
mov.u32 %r4, 0; mov.u32 %r5, 0;
L: mul.lo.u32 %r6, %ti, %r4; st.shared.u32 [%r2], %r6;
mbarrier.arrive.shared.b64 %rd1, [mb]; 
W: mbarrier.try_wait.shared.b64 %p2, [mb], %rd1; @!%p2 bra W;
ld.shared.u32 %r7, [%r3]; add.u32 %r5, %r5, %r7;
and.b32 %r8, %r4, 1; mbarrier.arrive.release.cta.shared::cta.b64 _, [mb], 1; mov.u32 %r9, 1;
V: mbarrier.test_wait.parity.shared.b64 %p3, [mb], %r9; @!%p3 bra V;
add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 5; @%p4 bra L;
st.global.u32 [%out], %r5; ret;`), 2, 128)
	for i, v := range got {
		require.Equal(t, uint32(10*((i&127)^127)), v)
	}
	// Bytes that are expected hold the phase back.
	got = run32(t, kernelOf(".shared .align 8 .b64 mb;", `
mbarrier.init.shared.b64 [mb], 1; mbarrier.arrive.expect_tx.shared.b64 %rd1, [mb], 48;
mbarrier.test_wait.shared.b64 %p1, [mb], %rd1; mbarrier.complete_tx.relaxed.cta.shared.b64 [mb], 48;
mbarrier.test_wait.shared.b64 %p2, [mb], %rd1; selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 2, 0, %p2;
cp.async.mbarrier.arrive.noinc.shared.b64 [mb]; mbarrier.test_wait.parity.shared.b64 %p3, [mb], 1; selp.u32 %r3, 4, 0, %p3;
add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; st.global.u32 [%out], %r1; ret;`), 1, 1)
	require.Equal(t, uint32(6), got[0])
}
