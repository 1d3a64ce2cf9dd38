package exec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// litmus are two blocks that talk through x and y. Each writes what it has read to out. The names are those of the literature.
var litmus = []struct {
	name          string
	first, second string
	want          []string // what can come out, of all seeds
}{
	{"message passing, relaxed", "st.relaxed.gpu.u32 [%x], 1; st.relaxed.gpu.u32 [%y], 1;", "ld.relaxed.gpu.u32 %a, [%y]; ld.relaxed.gpu.u32 %b, [%x];",
		[]string{"0 0", "0 1", "1 0", "1 1"}},
	{"message passing, release alone", "st.u32 [%x], 1; st.release.gpu.u32 [%y], 1;", "ld.relaxed.gpu.u32 %a, [%y]; ld.u32 %b, [%x];",
		[]string{"0 0", "0 1", "1 0", "1 1"}},
	{"message passing, acquire alone", "st.u32 [%x], 1; st.relaxed.gpu.u32 [%y], 1;", "ld.acquire.gpu.u32 %a, [%y]; ld.u32 %b, [%x];",
		[]string{"0 0", "0 1", "1 0", "1 1"}},
	{"message passing, of the block", "st.u32 [%x], 1; st.release.cta.u32 [%y], 1;", "ld.acquire.cta.u32 %a, [%y]; ld.u32 %b, [%x];",
		[]string{"0 0", "0 1", "1 0", "1 1"}},
	{"message passing", "st.u32 [%x], 1; st.release.gpu.u32 [%y], 1;", "ld.acquire.gpu.u32 %a, [%y]; ld.u32 %b, [%x];",
		[]string{"0 0", "0 1", "1 1"}},
	{"message passing, fences", "st.u32 [%x], 1; fence.acq_rel.gpu; st.relaxed.gpu.u32 [%y], 1;", "ld.relaxed.gpu.u32 %a, [%y]; fence.acq_rel.gpu; ld.u32 %b, [%x];",
		[]string{"0 0", "0 1", "1 1"}},
	{"message passing, membar", "st.u32 [%x], 1; membar.gl; st.volatile.u32 [%y], 1;", "ld.volatile.u32 %a, [%y]; membar.gl; ld.u32 %b, [%x];",
		[]string{"0 0", "0 1", "1 1"}},
	{"message passing, atomics", "st.u32 [%x], 1; atom.release.gpu.exch.b32 %c, [%y], 1;", "atom.acquire.gpu.add.u32 %a, [%y], 0; ld.u32 %b, [%x];",
		[]string{"0 0", "0 1", "1 1"}},
	{"message passing, relaxed atomics", "st.u32 [%x], 1; atom.exch.b32 %c, [%y], 1;", "atom.add.u32 %a, [%y], 0; ld.u32 %b, [%x];",
		[]string{"0 0", "0 1", "1 0", "1 1"}},
	{"store buffering", "st.relaxed.gpu.u32 [%x], 1; ld.relaxed.gpu.u32 %a, [%y];", "st.relaxed.gpu.u32 [%y], 1; ld.relaxed.gpu.u32 %b, [%x];",
		[]string{"0 0", "0 1", "1 0", "1 1"}},
	{"store buffering, fences", "st.relaxed.gpu.u32 [%x], 1; fence.sc.gpu; ld.relaxed.gpu.u32 %a, [%y];", "st.relaxed.gpu.u32 [%y], 1; fence.sc.gpu; ld.relaxed.gpu.u32 %b, [%x];",
		[]string{"0 1", "1 0", "1 1"}},
	{"own writes are seen", "st.u32 [%x], 1; ld.u32 %a, [%x];", "st.u32 [%y], 1; ld.relaxed.gpu.u32 %b, [%y];", []string{"1 1"}},
	{"parts of a word", "st.u8 [%x+1], 1; ld.u16 %a, [%x];", "st.v2.u32 [%y], {%one, %one}; ld.u64 %l, [%y]; cvt.u32.u64 %b, %l;", []string{"256 1"}},
}

// litmusKernel lets another block run between two instructions. A register that nobody sets stays out of the result.
func litmusKernel(first, second string) string {
	apart := strings.NewReplacer(";", "; nanosleep.u32 1;")
	return header + `
.visible .entry k(.param .u64 px, .param .u64 py, .param .u64 pout) {
.reg .pred %p, %q;
.reg .b32 %a, %b, %c, %block, %one;
.reg .b64 %x, %y, %out, %l;
ld.param.u64 %x, [px]; ld.param.u64 %y, [py]; ld.param.u64 %out, [pout];
mov.u32 %block, %ctaid.x; mov.u32 %one, 1; mov.u32 %a, 99; mov.u32 %b, 99;
setp.ne.u32 %p, %block, 0;
@%p bra second;
` + apart.Replace(first) + `
bra.uni end;
second:
` + apart.Replace(second) + `
end:
setp.ne.u32 %q, %a, 99;
@%q st.u32 [%out], %a;
setp.ne.u32 %q, %b, 99;
@%q st.u32 [%out+4], %b;
}
`
}

// All that PTX allows comes out of a thousand seeds, and nothing else.
func TestLitmus(t *testing.T) {
	for _, c := range litmus {
		t.Run(c.name, func(t *testing.T) {
			seen := map[string]int{}
			h := &gmem{}
			k := load(t, h, litmusKernel(c.first, c.second)).Entry("k")
			for seed := range uint64(1000) {
				x, y, out := h.alloc(8), h.alloc(8), h.alloc(8)
				l := Launch{Grid: dim(2), Block: dim(1), Params: args(k, x, y, out), Memory: h, Chance: seed + 1, MaxSteps: 1 << 20}
				require.NoError(t, k.Launch(context.Background(), l))
				v := h.get32(out)
				seen[fmt.Sprint(v[0], " ", v[1])]++
				require.NotZero(t, h.get64(x)[0]|h.get64(y)[0], "what is written arrives")
			}
			assert.Equal(t, c.want, slices.Sorted(maps.Keys(seen)), "%v", seen)
		})
	}
}

// A seed gives the same run each time: the same steps, in the same order of blocks.
func TestChanceHasOneRunForASeed(t *testing.T) {
	run := func(seed uint64) (order []uint32) {
		h := &gmem{}
		k := load(t, h, kernelOf("", "atom.global.add.u32 %r0, [%base], 1; st.global.u32 [%out+4], %r0;")).Entry("k")
		out := h.alloc(4 * 101)
		require.NoError(t, k.Launch(context.Background(), Launch{Grid: dim(100), Block: dim(1), Params: args(k, out), Memory: h, Chance: seed, Workers: 4}))
		return h.get32(out)[1:]
	}
	assert.Equal(t, run(1), run(1))
	assert.NotEqual(t, run(1), run(2))
	assert.NotEqual(t, slices.Sorted(slices.Values(run(1))), run(1), "blocks begin in another order")
}

// Blocks that wait for the one before them by its number can wait for ever: the launch ends, and says so.
func TestChanceFindsBlocksThatWaitForLaterOnes(t *testing.T) {
	h := &gmem{}
	k := load(t, h, kernelOf("", `
setp.eq.u32 %p1, %gid, 0;
@%p1 bra done;
again: ld.acquire.gpu.u32 %r1, [%out+-4];
setp.eq.u32 %p2, %r1, 0;
@%p2 bra again;
done: st.release.gpu.u32 [%out], 1;`)).Entry("k")
	out := h.alloc(4 * 2000)
	// With several workers the scheduler may keep one away from its core while the next block spins its steps away.
	l := Launch{Grid: dim(2000), Block: dim(1), Params: args(k, out), Memory: h, MaxSteps: 1 << 22, Workers: 1}
	require.NoError(t, k.Launch(context.Background(), l))
	clear(h.bytes(out))
	l.Chance = 1
	assert.ErrorContains(t, k.Launch(context.Background(), l), "blocks that wait for each other need a cooperative launch")
}

func TestTraffic(t *testing.T) {
	h := &gmem{}
	k := load(t, h, kernelOf("", `
ld.global.u32 %r1, [%out];
ld.global.v2.u32 {%r1, %r2}, [%base];
ld.param.u64 %rd1, [out];
atom.global.add.u32 %r3, [%base], 1;
ld.relaxed.gpu.u32 %r4, [%out];
setp.eq.u32 %p1, %ti, 3;
@%p1 st.global.u64 [%base+8], %rd1;`)).Entry("k")
	for _, seed := range []uint64{0, 1} {
		out := h.alloc(4 * 80)
		var read, written, atomics uint64
		l := Launch{Grid: dim(2), Block: dim(40), Params: args(k, out), Memory: h, Chance: seed, Traffic: func(r, w, a uint64) { read, written, atomics = r, w, a }}
		require.NoError(t, k.Launch(context.Background(), l))
		assert.EqualValues(t, 80*(4+8), read)
		assert.EqualValues(t, 2*8, written)
		assert.EqualValues(t, 80*(4+4), atomics)
	}
}
