package compile_test

import (
	"math/rand/v2"
	"testing"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	lang "github.com/purecuda/purecuda/gpuc/internal/testdata/language"
)

// TestBlocks runs block primitives that are generic over elements and operations, as users of CUB write them.
func TestBlocks(t *testing.T) {
	inModes(t, langFolder, func(t *testing.T, d *device.Device) {
		r := rand.New(rand.NewPCG(9, 17))
		for range 2 { // conditions of the whole block go both ways
			const n = 192
			x := many(4*n, func() int32 { return r.Int32N(1000) })
			x[0], x[1] = r.Int32(), r.Int32()
			d.Same(t, "Blocks", gpu.Shape1D(n, 64), func(t *gpu.Thread, a []any) {
				lang.Blocks(t, as[[]int32](a, 0), as[[]lang.Extent](a, 1), as[[]lang.Affine](a, 2), as[[]int32](a, 3), as[[]bool](a, 4))
			}, make([]int32, 16*n), many(n, func() lang.Extent {
				return lang.Extent{Min: r.Float64(), Max: r.Float64(), N: 1, Odd: r.IntN(2) == 0}
			}), many(2*n, func() lang.Affine { return lang.Affine{A: r.Uint32(), B: r.Uint32()} }), x, many(n, func() bool { return r.IntN(4) == 0 }))
		}
	})
}
