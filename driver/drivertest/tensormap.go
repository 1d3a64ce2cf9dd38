package drivertest

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ptx/exec"
)

// tensorSizes are the bytes of the elements that a copy leaves as they are.
var tensorSizes = map[driver.TensorDataType]uint64{
	driver.TensorUint8: 1, driver.TensorUint16: 2, driver.TensorBFloat16: 2, driver.TensorFloat16: 2, driver.TensorUint32: 4,
	driver.TensorInt32: 4, driver.TensorFloat32: 4, driver.TensorUint64: 8, driver.TensorInt64: 8, driver.TensorFloat64: 8,
}

// TensorMapEncodeTiled implements [driver.API], for two dimensions, as many as the interpreter copies. The form is
// ours: that of CUDA is known to NVIDIA only.
func (d *simulated) TensorMapEncodeTiled(t driver.TensorTiles) (tensor driver.TensorMap, r driver.Result) {
	if _, r := d.enter("cuTensorMapEncodeTiled"); r != driver.Success {
		return tensor, r
	}
	defer d.mu.Unlock()
	if len(t.Dims) != 2 || len(t.Strides) != 1 || len(t.Box) != 2 || len(t.ElementStrides) != 2 {
		return tensor, driver.ResultInvalidValue
	}
	size := tensorSizes[t.Type]
	wide := uint64(t.Box[0]) * size
	if size == 0 || t.Base == 0 || t.Base%16 != 0 || t.Strides[0]%16 != 0 || t.Strides[0] >= 1<<40 || t.Dims[0] == 0 || t.Dims[0] > 1<<32 || t.Dims[1] == 0 || t.Dims[1] > 1<<32 ||
		t.Box[0] == 0 || t.Box[0] > 256 || t.Box[1] == 0 || t.Box[1] > 256 || wide%16 != 0 ||
		t.Swizzle != driver.TensorSwizzleNone && (t.Swizzle != driver.TensorSwizzle128B || wide > 128) {
		return tensor, driver.ResultInvalidValue
	}
	return driver.TensorMap{exec.TensorMagic, uint64(t.Base), t.Dims[0], t.Dims[1], t.Strides[0], uint64(t.Box[0]), uint64(t.Box[1]), uint64(t.Swizzle), size}, driver.Success
}
