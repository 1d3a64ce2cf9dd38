package compile_test

import (
	"math/rand/v2"
	"testing"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	lang "github.com/purecuda/purecuda/gpuc/internal/testdata/language"
)

// TestEveryday compares what Go authors write every day with Go's own.
func TestEveryday(t *testing.T) {
	inModes(t, langFolder, func(t *testing.T, d *device.Device) {
		r := rand.New(rand.NewPCG(9, 15))
		bytes := func(n int) []byte { return many(n, func() byte { return byte(r.Uint32()) }) }
		small := func() int32 { return r.Int32N(50) }
		d.Same(t, "Words", gpu.Shape1D(40, 32), func(t *gpu.Thread, a []any) {
			lang.Words(t, as[[]uint32](a, 0), as[[]byte](a, 1), as[f32](a, 2))
		}, make([]uint32, 120), bytes(163), floats(161, 3))
		d.Same(t, "Bytes", gpu.Shape1D(40, 32), func(t *gpu.Thread, a []any) { lang.Bytes(t, as[[]byte](a, 0), as[[]byte](a, 1)) },
			bytes(323), bytes(322))
		d.Same(t, "LoopVariables", gpu.Shape1D(40, 32), func(t *gpu.Thread, a []any) {
			lang.LoopVariables(t, as[[]int32](a, 0), as[[]int32](a, 1))
		}, make([]int32, 40), many(40, small))
		d.Same(t, "Moves", gpu.Shape1D(40, 32), func(t *gpu.Thread, a []any) {
			lang.Moves(t, as[[]int32](a, 0), as[[]int32](a, 1), as[[]byte](a, 2))
		}, make([]int32, 640), many(640, r.Int32), bytes(256))
		pairs := func() []lang.Sample {
			return many(200, func() (p lang.Sample) {
				p.A, p.B, p.C = r.Int32N(2)*3, float32(r.IntN(2)), [2]uint8{0, uint8(r.IntN(2))}
				return p
			})
		}
		d.Same(t, "Equal", gpu.Shape1D(200, 32), func(t *gpu.Thread, a []any) {
			lang.Equal(t, as[[]int32](a, 0), as[[]lang.Sample](a, 1), as[[]lang.Sample](a, 2))
		}, make([]int32, 200), pairs(), pairs())
		d.Same(t, "Nils", gpu.Shape1D(64, 32), func(t *gpu.Thread, a []any) { lang.Nils(t, as[[]int32](a, 0), as[[]int32](a, 1)) },
			make([]int32, 64), many(64, small))
		d.Same(t, "Guarded", gpu.Shape1D(64, 32), func(t *gpu.Thread, a []any) { lang.Guarded(t, as[[]int32](a, 0), as[[]int32](a, 1)) },
			make([]int32, 64), many(64, small))
		d.Same(t, "Texts", gpu.Shape1D(40, 32), func(t *gpu.Thread, a []any) { lang.Texts(t, as[[]byte](a, 0), as[[]uint32](a, 1)) },
			make([]byte, 320), many(40, r.Uint32))
		d.Same(t, "FunctionValues", gpu.Shape1D(40, 32), func(t *gpu.Thread, a []any) {
			lang.FunctionValues(t, as[[]int32](a, 0), as[[]int32](a, 1))
		}, make([]int32, 40), many(40, small))
		d.Same(t, "Closures", gpu.Shape1D(40, 32), func(t *gpu.Thread, a []any) { lang.Closures(t, as[[]int32](a, 0), as[[]int32](a, 1)) },
			make([]int32, 40), many(40, small))
		d.Same(t, "Visits", gpu.Shape1D(40, 32), func(t *gpu.Thread, a []any) { lang.Visits(t, as[[]int32](a, 0), as[[]int32](a, 1)) },
			make([]int32, 40), many(40, small))
		d.Same(t, "Sorts", gpu.Shape1D(32, 32), func(t *gpu.Thread, a []any) { lang.Sorts(t, as[[]int32](a, 0)) }, many(256, small))
	})
}
