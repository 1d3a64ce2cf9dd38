package exec

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTritonStyle(t *testing.T) {
	h := &gmem{}
	l := loadFile(t, h, "triton_style.ptx")
	const rows, n = 5, 300
	x := randomFloats(31, rows*n)
	in := putFloats(h, x)
	out := h.alloc(4 * rows * n)
	k := l.Entry("softmax_kernel")
	require.NoError(t, k.Launch(context.Background(), Launch{
		Grid: dim(rows), Block: dim(128), SharedBytes: 16, Params: args(k, in, out, uint32(n)), Memory: h,
	}))
	got := h.get32(out)
	for r := range rows {
		row := x[r*n : (r+1)*n]
		var sum float64
		for _, v := range row {
			sum += math.Exp(float64(v))
		}
		for i, v := range row {
			require.InEpsilon(t, math.Exp(float64(v))/sum, math.Float32frombits(got[r*n+i]), 1e-5)
		}
	}
}

func TestNvccStyle(t *testing.T) {
	h := &gmem{}
	l := loadFile(t, h, "nvcc_style.ptx")
	const n = 700
	x := randomFloats(32, n)
	in, out := putFloats(h, x), h.alloc(4*n)
	extra := make([]byte, 16)
	binary.LittleEndian.PutUint32(extra[4:], math.Float32bits(3))
	binary.LittleEndian.PutUint64(extra[8:], math.Float64bits(0.25))
	k := l.Entry("_Z4mainPfPKfiPPFffE")
	var text bytes.Buffer
	require.NoError(t, k.Launch(context.Background(), Launch{
		Grid: dim(3), Block: dim(256), Params: args(k, out, in, uint32(n), extra), Memory: h, Printf: &text,
	}))
	fma := func(a, b, c float32) float32 { return fma32(float64(a), float64(b), float64(c)) }
	half := func(v float64) float64 { return fmtF16.unpack(fmtF16.pack(v, rn)) }
	got := h.get32(out)
	for i, v := range x {
		p := fma(fma(fma(4, v, 3), v, 2), v, 1)
		y := float32(half(half(half(float64(p))+1) * 2))
		if i&1 == 0 {
			y *= 0.5
		} else {
			y *= y
		}
		require.Equal(t, math.Float32bits(fma(y, 3, 0.25)), got[i], "element %d", i)
		if i == 1 {
			require.Contains(t, text.String(), "x=")
		}
	}
	var count uint64
	for i, g := range l.Program.Globals() {
		if g.Name == "counter" {
			count = uint64(h.get32(heapBase + uint64(i)*heapStep)[0])
		}
	}
	require.Equal(t, uint64(16+n), count)
}
