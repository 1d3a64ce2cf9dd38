// Package hopper has the kernels of package kernels for compute capability 9.0: products of four warps, and copies of tiles.
package hopper

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/kernels/internal/gemm"
)

//go:generate go run -C ../../../gpuc . -arch sm_90a -checks off -launch=false ../kernels/internal/hopper

const (
	// Rows is how many rows of C a block computes, and Threads how many threads it has: four warps that copy, and twice four that
	// compute 64 rows each.
	Rows    = 128
	Threads = 384

	// StoreRows is how many rows of C a warp stores at once, and in a box of its tiles.
	StoreRows = 16

	consumers = 8  // warps that compute
	group     = 16 // rows of tiles that run at once, so that they share what they read
)

// stages is how many stages there are: as many rows of tiles for each width.
func stages(cols int) int { return 1536 / (Rows + cols) }

// SharedBytes is the dynamic shared memory of a block: the stages, two tiles to store for each warp, and barriers.
func SharedBytes(cols int) int {
	return (stages(cols)*(Rows+cols)+consumers*2*StoreRows)*128 + stages(cols)*2*8
}

// ProductWide computes C = A * transposed B, of A with m rows and k columns, and B with n rows and k columns. A block computes tiles of
// 128 x 256, one after another: the grid has any number of blocks along x. The boxes of a have Rows rows, those of b 256, and those
// of c StoreRows.
//
//purecuda:kernel block=384 registers=168 T=gpu.BFloat16
func ProductWide[T gpu.Half](t *gpu.Thread, a, b, c gpu.Tiles[T], m, n, k int32) {
	Multiply[T, [128]float32](t, gemm.Plain{}, false, nil, 256, a, b, c, m, n, k)
}

// ProductMiddle has tiles of 128 x 128.
//
//purecuda:kernel block=384 registers=168 T=gpu.BFloat16
func ProductMiddle[T gpu.Half](t *gpu.Thread, a, b, c gpu.Tiles[T], m, n, k int32) {
	Multiply[T, [64]float32](t, gemm.Plain{}, false, nil, 128, a, b, c, m, n, k)
}

// ProductNarrow has tiles of 128 x 64.
//
//purecuda:kernel block=384 registers=168 T=gpu.BFloat16
func ProductNarrow[T gpu.Half](t *gpu.Thread, a, b, c gpu.Tiles[T], m, n, k int32) {
	Multiply[T, [32]float32](t, gemm.Plain{}, false, nil, 64, a, b, c, m, n, k)
}

// Multiply is the body of the kernels: a warp loads, and others compute. Where active is set, f changes each sum, with the bias of
// its column.
func Multiply[T gpu.Half, A gpu.Accumulator[float32], F gemm.Activation](t *gpu.Thread, f F, active bool, bias []float32, cols int, a, b, c gpu.Tiles[T], m, n, k int32) {
	rows, line, p, steps := begin[T](t, cols, m, n, k)
	if t.Warp() < 4 {
		if cols == 256 { // else there are enough
			gpu.FewerRegisters(t, 40)
		}
		if t.Rank() == 0 {
			load(t, &p, &line, cols, rows, a, b, steps)
		}
		return
	}
	if cols == 256 {
		gpu.MoreRegisters(t, 232)
	}
	warp, lane := t.Warp()-4, t.Lane()
	half := warp / 4 * 64 // of A
	out := rows[stages(cols)*(Rows+cols)+warp*2*StoreRows:]
	for tile := int32(t.BlockX()); tile < p.rows*p.cols; tile += int32(t.GridDimX()) {
		var acc A
		accumulate[float32](t, &acc, &line, cols, rows, half, steps)
		row, col := p.at(tile)
		if active {
			for i := range cols / 2 {
				acc[i] = f.Apply(acc[i], gemm.Bias(bias, col*int32(cols)+int32(i>>2*8+lane&3*2+i&1)))
			}
		}
		for j := range cols / 64 {
			to := out[j&1*StoreRows:]
			if lane == 0 {
				gpu.StoreWait(t, min(cols/64-1, 1))
			}
			gpu.WarpBarrier(t)
			for i := range 4 {
				gpu.StoreMatrix[T](t, to.Quad(lane&15, 2*i+lane>>4), &acc, 64*j+16*i)
			}
			gpu.FenceShared(t)
			gpu.WarpBarrier(t)
			if lane == 0 {
				gpu.StoreTile(t, c, col*int32(cols)+int32(64*j), row*Rows+int32(warp*StoreRows), to)
			}
		}
	}
	if lane == 0 {
		gpu.StoreWait(t, 0)
	}
}

// MultiplyTo is Multiply for elements of any size. f makes what C has of the sums of two columns side by side. A row of C is pitchC
// times 2 elements. Each lane stores its sums.
func MultiplyTo[T gpu.Element, S gpu.Sum, A gpu.Accumulator[S], P any, F gemm.Pairs[S, P]](t *gpu.Thread, f F, cols int, a, b gpu.Tiles[T], c []P, m, n, k, pitchC int32) {
	rows, line, p, steps := begin[T](t, cols, m, n, k)
	if t.Warp() < 4 {
		if cols == 256 { // else there are enough
			gpu.FewerRegisters(t, 40)
		}
		if t.Rank() == 0 {
			load(t, &p, &line, cols, rows, a, b, steps)
		}
		return
	}
	if cols == 256 {
		gpu.MoreRegisters(t, 232)
	}
	warp, lane := t.Warp()-4, int32(t.Lane())
	half := warp / 4 * 64 // of A
	for tile := int32(t.BlockX()); tile < p.rows*p.cols; tile += int32(t.GridDimX()) {
		var acc A
		if Parted[T, S]() {
			addUp[S](t, &acc, &line, cols, rows, half, steps)
		} else {
			accumulate[S](t, &acc, &line, cols, rows, half, steps)
		}
		row, col := p.at(tile)
		col = col*int32(cols) + lane&3*2
		left := n - col
		for high := range 2 {
			if y := row*Rows + int32(16*warp+8*high) + lane>>2; y < m {
				first := int(y)*int(pitchC) + int(col/2)
				for j := range cols / 8 {
					if int32(8*j) < left {
						c[first+4*j] = f.Pair(acc[4*j+2*high], acc[4*j+2*high+1], col+int32(8*j))
					}
				}
			}
		}
	}
}

// Parted reports whether T is a float of 8 bits. Sums of those lose bits on tensor cores, so each stage has sums of its own, which are added up
// in float32. There is no room for that in tiles of 256 columns. gpuc folds the quotients: a half for those, and 0 for integers and what
// is wider.
func Parted[T gpu.Element, S gpu.Sum]() bool { return S(1/gemm.SizeOf[T]())/2 != 0 }

// begin makes what all warps of a block need: the stages, a pipeline of them, the tiles of C, and how many stages a tile has.
func begin[T gpu.Element](t *gpu.Thread, cols int, m, n, k int32) (rows gpu.SharedTile[T], line gpu.Pipeline, p places, steps int32) {
	height := Rows + cols // of a stage
	rows = gpu.SharedTile[T](gpu.DynamicShared[gpu.TileRow[T]](t))
	bars := gpu.DynamicShared[gpu.TxBarrier](t)[(stages(cols)*height+consumers*2*StoreRows)*16:]
	line = gpu.NewPipeline(t, bars[:stages(cols)], bars[stages(cols):2*stages(cols)], consumers)
	p = places{rows: (m + Rows - 1) / Rows, cols: (n + int32(cols) - 1) / int32(cols)}
	return rows, line, p, (k + depth[T]() - 1) / depth[T]()
}

// depth is how many columns of A and of B a stage has: a row of a tile.
func depth[T gpu.Element]() int32 { return 128 / gemm.SizeOf[T]() }

// accumulate adds up the products of all stages of a tile.
func accumulate[S gpu.Sum, A gpu.Accumulator[S], T gpu.Element](t *gpu.Thread, acc *A, line *gpu.Pipeline, cols int, rows gpu.SharedTile[T], half int, steps int32) {
	height, lane := Rows+cols, t.Lane()
	before := line.Consume(t)
	from := rows[before*height:]
	gpu.WGMMAFence(t)
	gpu.WGMMA[S](t, acc, from[half:], from[Rows:], false)
	gpu.WGMMACommit(t)
	for range steps - 1 {
		slot := line.Consume(t)
		from := rows[slot*height:]
		gpu.WGMMAFence(t)
		gpu.WGMMA[S](t, acc, from[half:], from[Rows:], true)
		gpu.WGMMACommit(t)
		gpu.WGMMAWait(t, 1)
		if lane == 0 {
			line.Release(t, before)
		}
		before = slot
	}
	gpu.WGMMAWait(t, 0)
	if lane == 0 {
		line.Release(t, before)
	}
}

// addUp is accumulate with sums of its own for each stage.
func addUp[S gpu.Sum, A gpu.Accumulator[S], T gpu.Element](t *gpu.Thread, acc *A, line *gpu.Pipeline, cols int, rows gpu.SharedTile[T], half int, steps int32) {
	height := Rows + cols
	for range steps {
		var some A
		slot := line.Consume(t)
		from := rows[slot*height:]
		gpu.WGMMAFence(t)
		gpu.WGMMA[S](t, &some, from[half:], from[Rows:], false)
		gpu.WGMMACommit(t)
		gpu.WGMMAWait(t, 0)
		if t.Lane() == 0 {
			line.Release(t, slot)
		}
		for i := range cols / 2 {
			(*acc)[i] += some[i]
		}
	}
}

// load copies the stages of all tiles of the block. What lies outside the matrices is zero.
func load[T gpu.Element](t *gpu.Thread, p *places, line *gpu.Pipeline, cols int, rows gpu.SharedTile[T], a, b gpu.Tiles[T], steps int32) {
	height := Rows + cols
	for tile := int32(t.BlockX()); tile < p.rows*p.cols; tile += int32(t.GridDimX()) {
		row, col := p.at(tile)
		for step := range steps {
			slot, full := line.Produce(t, height*128)
			gpu.CopyTile(t, rows[slot*height:], a, step*depth[T](), row*Rows, full)
			gpu.CopyTile(t, rows[slot*height+Rows:], b, step*depth[T](), col*int32(cols), full)
		}
	}
}

// places are the tiles of C.
type places struct{ rows, cols int32 }

// at is the place of a tile: group tiles along m, then the next along n.
func (p *places) at(tile int32) (row, col int32) {
	g := tile / (group * p.cols) * group
	high := min(group, p.rows-g)
	tile -= g * p.cols
	return g + tile%high, tile / high
}
