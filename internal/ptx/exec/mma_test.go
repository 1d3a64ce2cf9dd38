package exec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMMA multiplies matrices of small integers, which every format holds exactly. The
// fragments are filled by the element formulas of PTX ISA, one shape at a time.
func TestMMA(t *testing.T) {
	enc := map[string]func(v int) uint64{
		"f16":  func(v int) uint64 { return fmtF16.pack(float64(v), rn) },
		"bf16": func(v int) uint64 { return fmtBF16.pack(float64(v), rn) },
		"tf32": func(v int) uint64 { return uint64(math.Float32bits(float32(v))) },
		"f64":  func(v int) uint64 { return math.Float64bits(float64(v)) },
		"e4m3": func(v int) uint64 { return fmtE4M3.pack(float64(v), rn) },
		"e5m2": func(v int) uint64 { return fmtE5M2.pack(float64(v), rn) },
		"s8":   func(v int) uint64 { return uint64(uint8(v)) },
		"u8":   func(v int) uint64 { return uint64(uint8(v)) },
	}
	width := map[string]int{"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
	for _, c := range []struct {
		m, k   int
		d, a   string
		rowA   func(i, g int) int // of element i of the lane's A fragment
		colA   func(i, t int) int
		rowB   func(i, t int) int
		na, nb int
	}{
		{16, 16, "f32", "f16", func(i, g int) int { return g + 8*b2i(!(i < 2 || i >= 4 && i < 6)) }, func(i, t int) int { return t*2 + i&1 + 8*b2i(i >= 4) },
			func(i, t int) int { return t*2 + i&1 + 8*b2i(i >= 2) }, 8, 4},
		{16, 8, "f16", "f16", func(i, g int) int { return g + 8*b2i(i >= 2) }, func(i, t int) int { return t*2 + i&1 },
			func(i, t int) int { return t*2 + i }, 4, 2},
		{16, 16, "f16", "f16", func(i, g int) int { return g + 8*b2i(!(i < 2 || i >= 4 && i < 6)) }, func(i, t int) int { return t*2 + i&1 + 8*b2i(i >= 4) },
			func(i, t int) int { return t*2 + i&1 + 8*b2i(i >= 2) }, 8, 4},
		{16, 16, "f32", "bf16", func(i, g int) int { return g + 8*b2i(!(i < 2 || i >= 4 && i < 6)) }, func(i, t int) int { return t*2 + i&1 + 8*b2i(i >= 4) },
			func(i, t int) int { return t*2 + i&1 + 8*b2i(i >= 2) }, 8, 4},
		{16, 8, "f32", "tf32", func(i, g int) int { return g + 8*(i&1) }, func(i, t int) int { return t + 4*b2i(i >= 2) },
			func(i, t int) int { return t + 4*i }, 4, 2},
		{16, 4, "f32", "tf32", func(i, g int) int { return g + 8*i }, func(_, t int) int { return t }, func(_, t int) int { return t }, 2, 1},
		{8, 4, "f64", "f64", func(_, g int) int { return g }, func(_, t int) int { return t }, func(_, t int) int { return t }, 1, 1},
		{16, 4, "f64", "f64", func(i, g int) int { return g + 8*i }, func(_, t int) int { return t }, func(_, t int) int { return t }, 2, 1},
		{16, 32, "s32", "s8", func(i, g int) int { return g + 8*b2i(!(i < 4 || i >= 8 && i < 12)) }, func(i, t int) int { return t*4 + i&3 + 16*b2i(i >= 8) },
			func(i, t int) int { return t*4 + i&3 + 16*b2i(i >= 4) }, 16, 8},
		{16, 16, "s32", "u8", func(i, g int) int { return g + 8*b2i(i >= 4) }, func(i, t int) int { return t*4 + i&3 },
			func(i, t int) int { return t*4 + i }, 8, 4},
		{16, 32, "f32", "e4m3", func(i, g int) int { return g + 8*b2i(!(i < 4 || i >= 8 && i < 12)) }, func(i, t int) int { return t*4 + i&3 + 16*b2i(i >= 8) },
			func(i, t int) int { return t*4 + i&3 + 16*b2i(i >= 4) }, 16, 8},
	} {
		name := fmt.Sprintf("m%dn8k%d.row.col.%s.%s.%s.%s", c.m, c.k, c.d, c.a, c.a, c.d)
		r := rand.New(rand.NewPCG(21, 21))
		value := func() int {
			if c.a[0] == 'u' {
				return r.IntN(9)
			}
			return r.IntN(9) - 4
		}
		matrix := func(rows, cols int) [][]int {
			x := make([][]int, rows)
			for i := range x {
				x[i] = make([]int, cols)
				for j := range x[i] {
					x[i][j] = value()
				}
			}
			return x
		}
		A, B, C := matrix(c.m, c.k), matrix(c.k, 8), matrix(c.m, 8)
		w := width[c.a]
		reg := max(w, 32)
		per := reg / w
		dw := map[string]int{"f32": 32, "s32": 32, "f64": 64, "f16": 16}[c.d]
		dreg := max(dw, 32)
		dper := dreg / dw
		encD := func(v int) uint64 {
			switch c.d {
			case "f32":
				return uint64(math.Float32bits(float32(v)))
			case "f64":
				return math.Float64bits(float64(v))
			case "f16":
				return fmtF16.pack(float64(v), rn)
			}
			return uint64(uint32(v))
		}
		nc := c.m * 8 / 32
		var in []uint64 // 64-bit words: A, B, C registers of each lane
		var want []uint64
		for lane := range 32 {
			g, t := lane/4, lane%4
			frag := func(n, per, w int, get func(i int) uint64) {
				for i := 0; i < n; i += per {
					var v uint64
					for j := range per {
						v |= get(i+j) << (w * j)
					}
					in = append(in, v)
				}
			}
			frag(c.na, per, w, func(i int) uint64 { return enc[c.a](A[c.rowA(i, g)][c.colA(i, t)]) })
			frag(c.nb, per, w, func(i int) uint64 { return enc[c.a](B[c.rowB(i, t)][g]) })
			frag(nc, dper, dw, func(i int) uint64 { return encD(C[g+8*(i/2)][t*2+i%2]) })
			for i := 0; i < nc; i += dper {
				var v uint64
				for j := range dper {
					row, col := g+8*((i+j)/2), t*2+(i+j)%2
					sum := C[row][col]
					for k := range c.k {
						sum += A[row][k] * B[k][col]
					}
					v |= encD(sum) << (dw * j)
				}
				want = append(want, v)
			}
		}
		ra, rb, rc := c.na/per, c.nb/per, nc/dper
		total := ra + rb + rc
		var body strings.Builder
		fmt.Fprintf(&body, ".reg .b%d %%m<%d>; .reg .b%d %%c<%d>;\nmul.lo.u32 %%r1, %%ti, %d; mad.wide.u32 %%rd1, %%r1, 8, %%base;\n", reg, ra+rb, dreg, rc, total)
		for i := range ra + rb {
			fmt.Fprintf(&body, "ld.global.b%d %%m%d, [%%rd1+%d];\n", reg, i, 8*i)
		}
		for i := range rc {
			fmt.Fprintf(&body, "ld.global.b%d %%c%d, [%%rd1+%d];\n", dreg, i, 8*(ra+rb+i))
		}
		list := func(p string, lo, n int) string {
			var s []string
			for i := range n {
				s = append(s, fmt.Sprintf("%s%d", p, lo+i))
			}
			return "{" + strings.Join(s, ", ") + "}"
		}
		fmt.Fprintf(&body, "mma.sync.aligned.%s %s, %s, %s, %s;\n", name, list("%c", 0, rc), list("%m", 0, ra), list("%m", ra, rb), list("%c", 0, rc))
		for i := range rc {
			fmt.Fprintf(&body, "st.global.b%d [%%rd1+%d], %%c%d;\n", dreg, 8*i, i)
		}
		body.WriteString("ret;")
		h := &gmem{}
		l := load(t, h, kernelOf("", body.String()))
		buf := h.put64(in...)
		require.NoError(t, launch(t, l, h, "k", 1, 32, buf), name)
		got := h.get64(buf)
		for lane := range 32 {
			for i := range rc {
				require.Equal(t, want[lane*rc+i], got[lane*total+i]&widthMask(dreg), "%s lane %d register %d", name, lane, i)
			}
		}
	}
}

func TestLdMatrix(t *testing.T) {
	for _, trans := range []string{"", ".trans"} {
		got := run32(t, kernelOf(".shared .align 16 .b16 s[512]; .shared .align 16 .b16 u[256];", `
mov.u32 %r1, s; mov.u32 %r20, 0;
FILL: mad.lo.u32 %r2, %r20, 32, %ti; mad.lo.u32 %r3, %r2, 2, %r1; st.shared.u16 [%r3], %r2;
add.u32 %r20, %r20, 1; setp.lt.u32 %p1, %r20, 16; @%p1 bra FILL;
bar.sync 0;
mad.lo.u32 %r4, %ti, 32, %r1;
ldmatrix.sync.aligned.m8n8.x4`+trans+`.shared.b16 {%r5, %r6, %r7, %r8}, [%r4];
mov.u32 %r9, u; mad.lo.u32 %r10, %ti, 16, %r9; and.b32 %r11, %ti, 7; mad.lo.u32 %r12, %r11, 16, %r9;
stmatrix.sync.aligned.m8n8.x1`+trans+`.shared.b16 [%r12], {%r6};
bar.sync 0; mad.lo.u32 %r13, %ti, 4, %r9; ld.shared.u32 %r14, [%r13];
movmatrix.sync.aligned.m8n8.trans.b16 %r15, %r7; movmatrix.sync.aligned.m8n8.trans.b16 %r15, %r15; xor.b32 %r15, %r15, %r7;
add.u32 %r8, %r8, %r15; add.u32 %r14, %r14, %r15;
setp.eq.u32 %p1, %gid, %ti; @%p1 st.global.u32 [%out], %r8; @!%p1 st.global.u32 [%out], %r14; ret;`), 2, 32)
		// Row i of matrix j is at s + 32 bytes * (8j+i): elements 16*(8j+i) + 0..7.
		at := func(j, row, col int) uint32 { return uint32(16*(8*j+row) + col) }
		for lane := range 32 {
			g, c := lane/4, lane%4*2
			lo, hi := at(3, g, c), at(3, g, c+1)
			if trans != "" {
				lo, hi = at(3, c, g), at(3, c+1, g)
			}
			require.Equal(t, lo|hi<<16, got[lane])
			require.Equal(t, at(1, g, c)|at(1, g, c+1)<<16, got[32+lane])
		}
	}
}

// TestWMMA goes through memory both ways: a fragment's layout is not specified.
func TestWMMA(t *testing.T) {
	for _, c := range []struct {
		shape    string
		m, n, k  int
		typ, acc string
		na, nb   int // registers
		nc       int
	}{
		{"m16n16k16", 16, 16, 16, "f16", "f32", 8, 8, 8},
		{"m32n8k16", 32, 8, 16, "f16", "f16", 8, 8, 4},
		{"m8n32k16", 8, 32, 16, "bf16", "f32", 2, 8, 8},
		{"m16n16k8", 16, 16, 8, "tf32", "f32", 4, 4, 8},
		{"m16n16k16", 16, 16, 16, "s8", "s32", 2, 2, 8},
		{"m8n8k4", 8, 8, 4, "f64", "f64", 1, 1, 2},
	} {
		enc := func(typ string, v int) (uint64, int) {
			switch typ {
			case "f16":
				return fmtF16.pack(float64(v), rn), 2
			case "bf16":
				return fmtBF16.pack(float64(v), rn), 2
			case "s8":
				return uint64(uint8(v)), 1
			case "s32":
				return uint64(uint32(v)), 4
			case "f64":
				return math.Float64bits(float64(v)), 8
			}
			return uint64(math.Float32bits(float32(v))), 4
		}
		r := rand.New(rand.NewPCG(3, 3))
		h := &gmem{}
		matrix := func(rows, cols, ld int, typ string, byCol bool) ([][]int, uint64) {
			x := make([][]int, rows)
			_, size := enc(typ, 0)
			buf := make([]byte, 64*64*8)
			for i := range x {
				x[i] = make([]int, cols)
				for j := range x[i] {
					x[i][j] = r.IntN(9) - 4
					v, _ := enc(typ, x[i][j])
					at := i*ld + j
					if byCol {
						at = j*ld + i
					}
					for b := range size {
						buf[at*size+b] = byte(v >> (8 * b))
					}
				}
			}
			return x, h.put(buf)
		}
		A, pa := matrix(c.m, c.k, 40, c.typ, false)
		B, pb := matrix(c.k, c.n, 48, c.typ, true)
		C, pc := matrix(c.m, c.n, c.n, c.acc, false)
		list := func(p string, n int) string {
			var s []string
			for i := range n {
				s = append(s, fmt.Sprintf("%%%s%d", p, i))
			}
			return "{" + strings.Join(s, ", ") + "}"
		}
		types := c.acc + "." + c.typ + "." + c.typ + "." + c.acc
		if c.typ == "f16" {
			types = c.acc + "." + c.acc
		}
		width := func(typ string) int {
			if typ == "f64" {
				return 64
			}
			return 32
		}
		src := header + fmt.Sprintf(`.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {
.reg .b64 %%p<4>; .reg .b%d %%a<9>, %%b<9>; .reg .b%d %%c<9>; .reg .b32 %%s;
ld.param.u64 %%p1, [a]; ld.param.u64 %%p2, [b]; ld.param.u64 %%p3, [c]; mov.u32 %%s, 40;
wmma.load.a.sync.aligned.row.%s.global.%s %s, [%%p1], %%s;
wmma.load.b.sync.aligned.col.%s.%s %s, [%%p2], 48;
wmma.load.c.sync.aligned.row.%s.global.%s %s, [%%p3];
wmma.mma.sync.aligned.row.col.%s.%s %s, %s, %s, %s;
wmma.store.d.sync.aligned.row.%s.global.%s [%%p3], %s;
ret; }`, width(c.typ), width(c.acc), c.shape, c.typ, list("a", c.na), c.shape, c.typ, list("b", c.nb), c.shape, c.acc, list("c", c.nc),
			c.shape, types, list("c", c.nc), list("a", c.na), list("b", c.nb), list("c", c.nc), c.shape, c.acc, list("c", c.nc))
		l := load(t, h, src)
		require.NoError(t, launch(t, l, h, "k", 1, 32, pa, pb, pc))
		for i := range c.m {
			for j := range c.n {
				sum := C[i][j]
				for k := range c.k {
					sum += A[i][k] * B[k][j]
				}
				want, size := enc(c.acc, sum)
				var got uint64
				for b := range size {
					got |= uint64(h.bytes(pc)[(i*c.n+j)*size+b]) << (8 * b)
				}
				require.Equal(t, want, got, "%s.%s %d,%d", c.shape, c.typ, i, j)
			}
		}
	}
}
