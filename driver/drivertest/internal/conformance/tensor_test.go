package conformance

import (
	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
)

var tensorTests = []test{
	{"what can be encoded", func(e *env) {
		e.needsAttribute(driver.DeviceAttributeTensorMapAccessSupported, "tensor maps")
		good := driver.TensorTiles{Type: driver.TensorBFloat16, Base: e.alloc(1 << 16), Dims: []uint64{100, 50}, Strides: []uint64{256},
			Box: []uint32{64, 32}, ElementStrides: []uint32{1, 1}, Swizzle: driver.TensorSwizzle128B}
		tensor, r := e.api.TensorMapEncodeTiled(good)
		e.ok(r)
		assert.NotZero(e, tensor)
		for of, cols := range map[driver.TensorDataType]uint32{driver.TensorUint8: 128, driver.TensorFloat32: 32, driver.TensorUint64: 16} {
			other := good
			other.Type, other.Box, other.Dims = of, []uint32{cols, 32}, []uint64{30, 50}
			_, r := e.api.TensorMapEncodeTiled(other)
			e.ok(r)
		}
		three := good
		three.Dims, three.Box, three.ElementStrides = []uint64{100, 50, 4}, []uint32{64, 32, 1}, []uint32{1, 1, 1}
		for _, stride := range []uint64{256 * 50, 256*50 + 16, 208} { // the last has rows of all beside each other
			three.Strides = []uint64{1024, stride}
			tensor, r := e.api.TensorMapEncodeTiled(three)
			e.ok(r)
			assert.NotZero(e, tensor)
		}
		three.Strides = []uint64{256, 12808}
		_, r = e.api.TensorMapEncodeTiled(three)
		assert.Equal(e, driver.ResultInvalidValue, r)
		for what, change := range map[string]func(t *driver.TensorTiles){
			"an address":    func(t *driver.TensorTiles) { t.Base += 8 },
			"a stride":      func(t *driver.TensorTiles) { t.Strides = []uint64{200} },
			"a dimension":   func(t *driver.TensorTiles) { t.Dims = []uint64{0, 50} },
			"a box":         func(t *driver.TensorTiles) { t.Box = []uint32{64, 257} },
			"a wide box":    func(t *driver.TensorTiles) { t.Box = []uint32{72, 32} },
			"a narrow box":  func(t *driver.TensorTiles) { t.Box = []uint32{4, 32} },
			"no dimensions": func(t *driver.TensorTiles) { t.Dims, t.Strides, t.Box, t.ElementStrides = nil, nil, nil, nil },
		} {
			bad := good
			change(&bad)
			_, r := e.api.TensorMapEncodeTiled(bad)
			assert.Equal(e, driver.ResultInvalidValue, r, what)
		}
	}},
}
