package drivertest

import (
	"slices"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ptx/exec"
)

// tensorSizes are the bytes of the elements that a copy leaves as they are.
var tensorSizes = map[driver.TensorDataType]uint64{
	driver.TensorUint8: 1, driver.TensorUint16: 2, driver.TensorBFloat16: 2, driver.TensorFloat16: 2, driver.TensorUint32: 4,
	driver.TensorInt32: 4, driver.TensorFloat32: 4, driver.TensorUint64: 8, driver.TensorInt64: 8, driver.TensorFloat64: 8,
}

// TensorMapEncodeTiled implements [driver.API], for two and three dimensions, as many as the interpreter copies. The form is
// ours: that of CUDA is known to NVIDIA only.
func (d *simulated) TensorMapEncodeTiled(t driver.TensorTiles) (tensor driver.TensorMap, r driver.Result) {
	if _, r := d.enter("cuTensorMapEncodeTiled"); r != driver.Success {
		return tensor, r
	}
	defer d.mu.Unlock()
	rank := len(t.Dims)
	if rank < 2 || rank > 3 || len(t.Strides) != rank-1 || len(t.Box) != rank || len(t.ElementStrides) != rank {
		return tensor, driver.ResultInvalidValue
	}
	size := tensorSizes[t.Type]
	wide := uint64(t.Box[0]) * size
	if size == 0 || t.Base == 0 || t.Base%16 != 0 || wide%16 != 0 ||
		slices.ContainsFunc(t.Strides, func(n uint64) bool { return n%16 != 0 || n >= 1<<40 }) ||
		slices.ContainsFunc(t.Dims, func(n uint64) bool { return n == 0 || n > 1<<32 }) ||
		slices.ContainsFunc(t.Box, func(n uint32) bool { return n == 0 || n > 256 }) ||
		t.Swizzle != driver.TensorSwizzleNone && (t.Swizzle != driver.TensorSwizzle128B || wide > 128) {
		return tensor, driver.ResultInvalidValue
	}
	tensor = driver.TensorMap{exec.TensorMagic, uint64(t.Base), uint64(t.Swizzle), size, uint64(rank)}
	for i := range rank {
		tensor[5+i], tensor[8+i], tensor[11+i] = t.Dims[i], uint64(t.Box[i]), size
		if i > 0 {
			tensor[11+i] = t.Strides[i-1]
		}
	}
	return tensor, driver.Success
}
