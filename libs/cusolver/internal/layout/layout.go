// Package layout has the kernels that make operands of cuSOLVER: it counts by columns, and takes addresses of many small matrices.
package layout

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/runtime"
)

//go:generate go run -C ../../../../gpuc . -checks off ../libs/cusolver/internal/layout

// tile is the side of the square that a block turns around.
const tile = 32

// Transpose writes row i of each matrix of in to column i of one of out. Those of in have rows rows of cols elements, from elements
// apart, and are fromStep apart. Those of out are to and toStep apart. A block has one tile, of which it reads rows and writes rows.
//
//purecuda:kernel block=32x8 T=float32,float64
func Transpose[T float32 | float64](t *gpu.Thread, out, in []T, rows, cols, from, fromStep, to, toStep int) {
	cells := gpu.Shared[[tile][tile + 1]T](t) // one more, so that the threads of a warp take different banks
	across, down := (cols+tile-1)/tile, (rows+tile-1)/tile
	matrix, part := t.BlockX()/(across*down), t.BlockX()%(across*down)
	row, col := part/across*tile, part%across*tile
	x, y := t.ThreadX(), t.ThreadY()
	for j := y; j < tile; j += 8 {
		if row+j < rows && col+x < cols {
			cells[j][x] = in[matrix*fromStep+(row+j)*from+col+x]
		}
	}
	t.Barrier()
	for j := y; j < tile; j += 8 {
		if col+j < cols && row+x < rows {
			out[matrix*toStep+(col+j)*to+row+x] = cells[x][j]
		}
	}
}

// Shape is the launch for so many matrices.
func Shape(rows, cols, count int) runtime.Shape {
	return runtime.Shape{Grid: runtime.Dim3{X: uint32((rows + tile - 1) / tile * ((cols + tile - 1) / tile) * count)}}
}

// Addresses writes where n matrices a and the k columns of each of n matrices b begin. The addresses of a come first, each k times, and
// behind them those of the columns. If out has no room for the columns they are left out.
//
//purecuda:kernel block=256
func Addresses(t *gpu.Thread, out []uint64, a, stepA, b, stepB, column uint64, n, k int) {
	for i := t.GlobalX(); i < n*k; i += t.GlobalDimX() {
		out[i] = a + uint64(i/k)*stepA
		if len(out) > n*k {
			out[n*k+i] = b + uint64(i/k)*stepB + uint64(i%k)*column
		}
	}
}
