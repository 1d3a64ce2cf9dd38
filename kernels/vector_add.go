package kernels

import "github.com/purecuda/purecuda/kernels/internal/source"

// VectorAddBlock is the block size of vector_add, in threads. Its grid is
// Grid(n, VectorAddBlock); any other gives the same result.
const VectorAddBlock = 256

// VectorAddCPU is the reference of vector_add: c[i] = a[i] + b[i], in float32. The GPU's
// result is the same bit for bit, except for the payload of NaNs. c may be a or b. It fails
// with driver.ErrInvalidArgument when the lengths differ.
func VectorAddCPU(a, b, c []float32) error {
	if len(a) != len(c) || len(b) != len(c) {
		return invalidArgument("vector_add: lengths %d, %d and %d differ", len(a), len(b), len(c))
	}
	return source.VectorAddCPU(onCPU(len(c), VectorAddBlock), a, b, c)
}
