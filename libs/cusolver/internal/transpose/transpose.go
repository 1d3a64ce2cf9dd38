// Package transpose has the kernel that turns matrices around: cuSOLVER counts by columns.
package transpose

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/runtime"
)

//go:generate go run -C ../../../../gpuc . -checks off ../libs/cusolver/internal/transpose

// tile is the side of the square that a block turns around.
const tile = 32

// Transpose writes row i of in to column i of out: in has rows rows of cols elements, from elements apart. Those of out are to
// apart. A block has one tile, of which it reads rows and writes rows.
//
//purecuda:kernel block=32x8 T=float32,float64
func Transpose[T float32 | float64](t *gpu.Thread, out, in []T, rows, cols, from, to int) {
	cells := gpu.Shared[[tile][tile + 1]T](t) // one more, so that the threads of a warp take different banks
	across := (cols + tile - 1) / tile
	row, col := t.BlockX()/across*tile, t.BlockX()%across*tile
	x, y := t.ThreadX(), t.ThreadY()
	for j := y; j < tile; j += 8 {
		if row+j < rows && col+x < cols {
			cells[j][x] = in[(row+j)*from+col+x]
		}
	}
	t.Barrier()
	for j := y; j < tile; j += 8 {
		if col+j < cols && row+x < rows {
			out[(col+j)*to+row+x] = cells[x][j]
		}
	}
}

// Shape is the launch for a matrix.
func Shape(rows, cols int) runtime.Shape {
	return runtime.Shape{Grid: runtime.Dim3{X: uint32((rows + tile - 1) / tile * ((cols + tile - 1) / tile))}}
}
