package runtime

import (
	"math"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/refs"
)

// Tiles are matrices on a device of which a kernel copies tiles by hardware: a tensor map of columns, rows and matrices. A kernel in Go takes a gpu.Tiles in its
// place, and one in CUDA C a const __grid_constant__ CUtensorMap. A launch with it uses the memory as one with the Ref does. It is
// safe for concurrent use, and has nothing to close.
type Tiles struct {
	core   *refs.Core
	tensor driver.TensorMap
	short  uint64 // elements that the memory has too few of for stores
}

// TilesShape is the shape of matrices and of their tiles. All numbers but that of the matrices count elements.
type TilesShape struct {
	Rows, Cols int
	Pitch      int // from a row to the next
	Matrices   int // of the same shape. 0: one
	Stride     int // from a matrix to the next, of any size: rows of several may lie beside each other
	Box        int // rows of a tile, 1 to 256
	BoxCols    int // columns of a tile. 0: as many as 128 bytes have, in the order of banks that CUDA calls the swizzle of 128 bytes
}

// tensorTypes are types of elements by their size. A copy has no use for more.
var tensorTypes = map[int]driver.TensorDataType{1: driver.TensorUint8, 2: driver.TensorUint16, 4: driver.TensorUint32, 8: driver.TensorUint64}

// NewTiles makes tiles of the memory of r, which begins at a multiple of 16 bytes, as what Alloc returns does. The bytes of a pitch
// and of a stride are a multiple of 16 too. An element has 1, 2, 4 or 8 bytes. It needs compute capability 9.0 and CUDA 12.0. What a tile
// has outside the matrix is zero.
func NewTiles[T any](c *Context, r *Ref[T], shape TilesShape) (*Tiles, error) {
	if c == nil || c.rt == nil {
		return nil, errNothing("context")
	}
	var zero T
	size := int(unsafe.Sizeof(zero))
	kind, ok := tensorTypes[size]
	invalid := func(format string, args ...any) (*Tiles, error) {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "tiles: "+format, args...)
	}
	box := shape.BoxCols
	if box == 0 && ok {
		box = 128 / size
	}
	at, err := r.Access()
	need := uint64(shape.Rows-1)*uint64(shape.Pitch) + uint64(shape.Cols)
	matrices, stride := max(1, shape.Matrices), shape.Pitch // that of one matrix says nothing
	if matrices > 1 {
		stride = shape.Stride
	}
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return invalid("an element has %d bytes: want 1, 2, 4 or 8", size)
	case min(shape.Rows, shape.Cols) < 1 || max(shape.Rows, shape.Cols) > math.MaxInt32:
		return invalid("%d x %d elements: want 1 to %d of each", shape.Rows, shape.Cols, math.MaxInt32)
	case shape.Pitch < shape.Cols || shape.Pitch > math.MaxInt32 || shape.Pitch*size%16 != 0:
		return invalid("the pitch is %d elements: want at least the %d columns, and a multiple of 16 bytes", shape.Pitch, shape.Cols)
	case uint64(r.Len()) < need:
		return invalid("the memory has %d elements, want %d for %d rows with a pitch of %d", r.Len(), need, shape.Rows, shape.Pitch)
	case shape.Matrices < 0 || matrices > math.MaxInt32 || stride < 1 || uint64(stride) >= 1<<40/uint64(size) || stride*size%16 != 0:
		return invalid("%d matrices with a stride of %d elements: want a multiple of 16 bytes, below 1<<40", shape.Matrices, stride)
	case matrices > 1 && (uint64(r.Len())-need)/uint64(matrices-1) < uint64(stride):
		return invalid("the memory has %d elements, too few for %d matrices of %d with a stride of %d", r.Len(), matrices, need, stride)
	case shape.Box < 1 || shape.Box > 256 || box < 1 || box > 256 || box*size%16 != 0:
		return invalid("a box of %d x %d elements: want 1 to 256 of each, and a multiple of 16 bytes in a row", shape.Box, box)
	case at%16 != 0:
		return invalid("the memory begins at address %#x, want a multiple of 16", uint64(at))
	case !c.device.TensorMaps:
		return nil, driver.Errorf(driver.ErrUnsupported, "tiles need compute capability 9.0, and the device has %v", c.device.Capability)
	}
	tiles := driver.TensorTiles{
		Type: kind, Base: at,
		Dims: []uint64{uint64(shape.Cols), uint64(shape.Rows), uint64(matrices)}, Strides: []uint64{uint64(shape.Pitch) * uint64(size), uint64(stride) * uint64(size)},
		Box: []uint32{uint32(box), uint32(shape.Box), 1}, ElementStrides: []uint32{1, 1, 1}, L2Promotion: driver.TensorL2Bytes128,
	}
	if shape.BoxCols == 0 {
		tiles.Swizzle = driver.TensorSwizzle128B
	}
	t := &Tiles{core: r.Core()}
	unit := 16 / uint64(size)
	if end := need + uint64(matrices-1)*uint64(stride) + -uint64(shape.Cols)%unit; end > uint64(r.Len()) {
		t.short = end - uint64(r.Len())
	}
	err = c.call(func() error {
		var res driver.Result
		t.tensor, res = c.api.TensorMapEncodeTiled(tiles)
		return c.bind.Failed("cuTensorMapEncodeTiled", res)
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// In is the tiles as an argument of a kernel that only reads them. See [In].
func (t *Tiles) In() Arg { return t.arg(readingTiles) }

// InOut is the tiles as an argument of a kernel that writes them. See [InOut]. The hardware stores 16 bytes at a time: where the columns are no
// multiple of that, elements behind a row change, up to the next multiple. The memory has to have them behind the last row too.
func (t *Tiles) InOut() Arg {
	if t != nil && t.short > 0 {
		return wrongArg(driver.Errorf(driver.ErrInvalidArgument, "tiles that a kernel writes: the hardware stores 16 bytes at a time, and the memory has %d elements too few behind the last row", t.short))
	}
	return t.arg(writingTiles)
}

func (t *Tiles) arg(kind argKind) Arg {
	if t == nil || t.core == nil {
		return wrongArg(driver.Errorf(driver.ErrInvalidArgument, "the tiles of an argument are nil"))
	}
	return Arg{of: unsafe.Pointer(t), size: uint32(unsafe.Sizeof(t.tensor)), kind: kind}
}
