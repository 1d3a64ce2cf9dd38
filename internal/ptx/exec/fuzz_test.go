package exec

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/purecuda/purecuda/internal/ptx"
)

// FuzzExec compiles and runs whatever parses, on a small grid with few steps: any
// outcome is right but a panic or a hang.
func FuzzExec(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.ptx")
	for _, name := range files {
		if src, err := os.ReadFile(name); err == nil && len(src) < 20_000 {
			f.Add(src)
		}
	}
	f.Add([]byte(kernelOf(".shared .u32 s[256];", `
atom.global.add.u32 %r1, [%base], 1; bar.sync 0; shfl.sync.down.b32 %r2|%p1, %r1, 1, 31, -1;
setp.lt.f32 %p2|%p3, 0f3F800000, 1.5; @%p2 bra L; mov.u32 %r4, s; st.shared.v2.u32 [%r4+8], {%r1, %r2};
L: fma.rn.ftz.f32 %r5, %r1, %r2, %r3; cvt.rzi.s32.f32 %r6, %r5; cvt.rn.f16.f32 %h1, %r5; lop3.b32 %r7, %r1, %r2, %r3, 0x96;
vote.sync.ballot.b32 %r8, %p1, -1; match.any.sync.b32 %r9, %r1, -1; redux.sync.add.s32 %r10, %r2, -1;
bfe.s32 %r11, %r1, 4, 9; bfi.b32 %r12, %r1, %r2, 3, 4; prmt.b32 %r13, %r1, %r2, 0x3210; ld.shared.v4.u8 {%r1, %r2, %r3, %r4}, [s];
st.global.u32 [%out], %r5; ret;`)))
	f.Add([]byte(header + `.func (.param .b32 r) f(.param .b32 a) { .reg .b32 %r<4>; .reg .pred %p; .local .align 8 .b8 x[16];
.param .b32 q; ld.param.u32 %r1, [a]; setp.eq.u32 %p, %r1, 0; @%p ret; sub.u32 %r1, %r1, 1; st.param.b32 [q], %r1;
call (r), f, (q); st.local.u32 [x], %r1; ret; }
.visible .entry k() { .reg .b64 %rd<4>; .reg .b32 %r<4>; .param .b32 a; .param .b32 b; st.param.b32 [a], 5;
call (b), f, (a); ld.param.b32 %r1, [b]; mov.u64 %rd1, f; p: .callprototype (.param .b32 _) _ (.param .b32 _);
call (b), %rd1, (a), p; T: .branchtargets A, B; brx.idx %r1, T; A: nanosleep.u32 100; B: exit; }`))
	f.Fuzz(func(t *testing.T, src []byte) {
		m, err := ptx.Parse(src)
		if err != nil {
			return
		}
		p, err := compileAll(m)
		if err != nil {
			return
		}
		h := &gmem{}
		var addrs []uint64
		for _, g := range p.Globals() {
			if g.Size > 1<<20 || len(addrs) > 100 {
				return
			}
			addrs = append(addrs, h.alloc(int(g.Size)+64))
		}
		for i := range addrs {
			data, err := p.Initial(i, addrs)
			if err != nil {
				continue
			}
			copy(h.bytes(addrs[i]), data)
		}
		l, err := p.Link(addrs)
		if err != nil {
			t.Fatal(err)
		}
		buffer := h.alloc(4096)
		for _, e := range m.Entries {
			k := l.Entry(e.Name)
			if k == nil || k.ParamBytes() > 1<<16 {
				continue
			}
			params := make([]byte, k.ParamBytes())
			for i := 0; i+8 <= len(params); i += 8 {
				*(*uint64)(alignedAt(params, i)) = buffer
			}
			block := [3]uint32{40, 1, 1}
			if e.ReqNTID[0] != 0 {
				block = e.ReqNTID
			}
			_ = k.Launch(context.Background(), Launch{
				Grid: dim(2), Block: block, Params: params, Memory: h, Workers: 1, MaxSteps: 3000, SharedBytes: 64,
			})
		}
	})
}
