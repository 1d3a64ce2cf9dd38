package exec

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkGroups measures a loop of one instruction each, on one core.
func BenchmarkGroups(b *testing.B) {
	for name, code := range map[string]string{
		"add.u32":     "add.u32 %r1, %r1, %r2;",
		"mad.lo.u32":  "mad.lo.u32 %r1, %r1, %r2, %r3;",
		"fma.f32":     "fma.rn.f32 %r1, %r1, %r2, %r3;",
		"add.f64":     "add.f64 %rd1, %rd1, %rd2;",
		"fma.ftz.f32": "fma.rn.ftz.f32 %r1, %r1, %r2, %r3;",
		"fma.f16x2":   "fma.rn.f16x2 %r1, %r1, %r2, %r3;",
		"ex2":         "ex2.approx.f32 %r1, %r2;",
		"ld.global":   "ld.global.u32 %r1, [%out];",
		"ld.shared":   "ld.shared.u32 %r1, [%r30];",
		"atom.shared": "atom.shared.add.u32 %r1, [%r30], 1;",
		"shfl":        "shfl.sync.bfly.b32 %r1, %r1, 1, 31, -1;",
		"setp+selp":   "setp.lt.u32 %p1, %r1, %r2; selp.b32 %r1, %r3, %r2, %p1;",
		"bar":         "bar.sync 0;",
		"mma":         "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1,%r2,%r3,%r4}, {%r5,%r6,%r7,%r8}, {%r9,%r10}, {%r1,%r2,%r3,%r4};",
	} {
		b.Run(name, func(b *testing.B) {
			h := &gmem{}
			body := "mov.u32 %r30, s; mad.lo.u32 %r30, %ti, 4, %r30; mov.u32 %r29, 0;\n"
			for i := 1; i < 11; i++ {
				body += fmt.Sprintf("mov.b32 %%r%d, 0; mov.b64 %%rd%d, 0;\n", i, i)
			}
			body += "L:\n"
			for range 16 {
				body += code + "\n"
			}
			l := load(b, h, kernelOf(".shared .u32 s[128];", body+
				"add.u32 %r29, %r29, 1; setp.lt.u32 %p2, %r29, 100; @%p2 bra L;\nst.global.u32 [%out], %r1; st.global.u64 [%base], %rd1; ret;"))
			out := h.alloc(4 * 128)
			k := l.Entry("k")
			var steps, total uint64
			launch := Launch{Grid: dim(1), Block: dim(128), Params: args(k, out), Memory: h, Workers: 1, Steps: &steps}
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, k.Launch(context.Background(), launch))
				total += steps
			}
			b.ReportMetric(float64(total)*32/b.Elapsed().Seconds()/1e6, "Minstr/s")
		})
	}
}
