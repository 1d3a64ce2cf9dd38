package exec

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/internal/ptx"
)

// TestFloat8AsOnTheCPU compares cvt.rn.satfinite with package gpu, for all float32 whose last bits are near a middle or an end.
func TestFloat8AsOnTheCPU(t *testing.T) {
	e4m3, e5m2 := cvtMode{round: rn, satFinite: true}.floatWriter(ptx.E4M3), cvtMode{round: rn, satFinite: true}.floatWriter(ptx.E5M2)
	for high := range uint64(1 << 20) {
		for _, low := range []uint64{0, 1, 0xfff} {
			v := high<<12 | low
			x := math.Float32frombits(uint32(v))
			if got := e4m3(f32(v)); got != uint64(gpu.ToFloat8E4M3(x).Bits()) {
				require.Equal(t, gpu.ToFloat8E4M3(x).Bits(), uint8(got), "%x", v)
			}
			if got := e5m2(f32(v)); got != uint64(gpu.ToFloat8E5M2(x).Bits()) {
				require.Equal(t, gpu.ToFloat8E5M2(x).Bits(), uint8(got), "%x", v)
			}
		}
	}
}

// TestExp2AsOnTheCPU compares ex2.approx.ftz with package gpu, around the ends of its range.
func TestExp2AsOnTheCPU(t *testing.T) {
	ex2 := floatMode{round: rn, ftz: true}
	compare := func(bits uint32) {
		x := math.Float32frombits(bits)
		if got, want := uint32(ex2.out32(ex2Op(ex2.in32(uint64(bits)), 0, 0))), math.Float32bits(gpu.FastExp2(x)); got != want && !(x != x && math.Float32frombits(want) != math.Float32frombits(want)) {
			require.Equal(t, want, got, "%v %x", x, bits)
		}
	}
	for high := range uint32(1 << 16) {
		for _, low := range []uint32{0, 1, 0x8000, 0xffff} {
			compare(high<<16 | low)
		}
	}
	for _, middle := range []float32{-126, -127, -149, -150, 128, 127, 0x1p-126} {
		for i := range uint32(1 << 15) {
			compare(math.Float32bits(middle) + i - 1<<14)
		}
	}
}
