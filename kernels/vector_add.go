package kernels

import (
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/source"
)

// vectorAddThreads is the block size of vector_add, in threads. Its grid is
// linearGrid(n, vectorAddThreads); any other gives the same result.
const vectorAddThreads = 256

// VectorAddCPU is the reference of vector_add: c[i] = a[i] + b[i], in float32. The GPU's
// result is the same bit for bit, except for the payload of NaNs. c may be a or b. It fails
// with driver.ErrInvalidArgument when the lengths differ, or c overlaps a or b otherwise.
func VectorAddCPU(a, b, c []float32) error {
	if len(a) != len(c) || len(b) != len(c) {
		return invalidArgument("vector_add: lengths %d, %d and %d differ", len(a), len(b), len(c))
	}
	if err := launch.Apart("vector_add", operandOnCPU("a", a, c), operandOnCPU("b", b, c), launch.Host("c", c, true)); err != nil {
		return err
	}
	return source.VectorAddCPU(onCPU(len(c), vectorAddThreads), a, b, c)
}
