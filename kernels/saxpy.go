package kernels

import (
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/source"
)

// saxpyThreads is the block size of saxpy, in threads. Its grid is linearGrid(n, saxpyThreads); any
// other gives the same result.
const saxpyThreads = 256

// SaxpyCPU is the reference of saxpy: y[i] = a*x[i] + y[i] in float32, rounded once. The
// GPU's result is the same bit for bit, except for the payload of NaNs. x may be y. It fails
// with driver.ErrInvalidArgument when the lengths differ, or x overlaps y otherwise.
func SaxpyCPU(a float32, x, y []float32) error {
	if len(x) != len(y) {
		return invalidArgument("saxpy: lengths %d and %d differ", len(x), len(y))
	}
	if err := launch.Apart("saxpy", operandOnCPU("x", x, y), launch.Host("y", y, true)); err != nil {
		return err
	}
	return source.SaxpyCPU(onCPU(len(y), saxpyThreads), a, x, y)
}
