package exec

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGridSync runs the barrier of cooperative groups:
//
//	clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_75 --cuda-feature=+ptx78 \
//		-nocudainc -nocudalib -O2 -S gridsync.cu
func TestGridSync(t *testing.T) {
	const blocks, threads, n = 20, 64, 20 * 64
	h := &gmem{}
	k := loadFile(t, h, "gridsync.ptx").Entry("rotate")
	x, out := h.alloc(4*n), h.alloc(4*n)
	for i := range n {
		*(*uint32)(alignedAt(h.bytes(x), 4*i)) = uint32(i)
	}
	l := Launch{Grid: dim(blocks), Block: dim(threads), Params: args(k, x, out, uint32(7)), Memory: h, Workers: 3, Cooperative: true}
	for range 2 { // each launch has a workspace of its own
		require.NoError(t, k.Launch(context.Background(), l))
	}
	// An odd number of rounds leaves its result in out, the round before it in x.
	for i, v := range h.get32(out) {
		require.Equal(t, uint32((i+13*threads)%n), v, "element %d", i)
	}
}

func TestGridSyncOfOtherLaunches(t *testing.T) {
	const address = "mov.b32 %r1, %envreg1; mov.b32 %r2, %envreg2; mov.b64 %rd1, {%r2, %r1};\n"
	const hint = "the launch is not cooperative, and this kernel synchronises the whole grid"
	for _, c := range []struct {
		name, body string
		kind       FaultKind
		hint       bool
	}{
		{"trap", address + "trap;", LaunchFailed, true},
		{"no look at the address", address + "atom.add.u32 %r3, [%rd1+4], 1; ret;", IllegalAddress, true},
		{"another address", address + "ld.global.u32 %r3, [%out+0x10000]; ret;", IllegalAddress, false},
		{"another trap", "trap;", LaunchFailed, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &gmem{}
			err := launch(t, load(t, h, kernelOf("", c.body)), h, "k", 1, 1, h.alloc(4))
			var f *Fault
			require.ErrorAs(t, err, &f)
			require.Equal(t, c.kind, f.Kind)
			if c.hint {
				require.Contains(t, f.Msg, hint)
			} else {
				require.NotContains(t, f.Msg, hint)
			}
		})
	}
}
