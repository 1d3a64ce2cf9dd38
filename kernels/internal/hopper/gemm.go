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

	// DepthBytes is how many bytes of a row of A and of B a stage has: a row of a tile.
	DepthBytes = 128

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

// Size is what a launch computes: products of one size, in parts.
type Size struct {
	M, N, K int32
	Batch   int32
	A, B    int32 // from the matrix of a product to that of the next: 1, or 0 where all have the same
	PitchC  int32 // of MultiplyTo, in pairs of elements
	Part    int32 // columns of A and B in a part, a multiple of 128 bytes, or all
	StrideC int   // of MultiplyTo, in pairs of elements
}

// sums is where those of a product begin, in pairs.
func (s *Size) sums(product, part int32) int {
	return int(part*s.Batch+product) * int(s.M) * int((s.N+1)/2)
}

// ProductWide computes C = A * transposed B, of A with M rows and K columns, and B with N rows and K columns. A block computes tiles of
// 128 x 256, one after another: the grid has any number of blocks along x. The boxes of a have Rows rows, those of b 256, and those
// of c StoreRows. Where there are sums, they get those of all parts in place of C, as [gemm.Product] writes them.
//
//purecuda:kernel block=384 registers=168 T=gpu.BFloat16
func ProductWide[T gpu.Half](t *gpu.Thread, a, b, c gpu.Tiles[T], of Size, sums [][2]float32) {
	Multiply[T, [128]float32](t, gemm.Plain{}, false, nil, 256, a, b, c, of, sums)
}

// ProductMiddle has tiles of 128 x 128.
//
//purecuda:kernel block=384 registers=168 T=gpu.BFloat16
func ProductMiddle[T gpu.Half](t *gpu.Thread, a, b, c gpu.Tiles[T], of Size, sums [][2]float32) {
	Multiply[T, [64]float32](t, gemm.Plain{}, false, nil, 128, a, b, c, of, sums)
}

// ProductNarrow has tiles of 128 x 64.
//
//purecuda:kernel block=384 registers=168 T=gpu.BFloat16
func ProductNarrow[T gpu.Half](t *gpu.Thread, a, b, c gpu.Tiles[T], of Size, sums [][2]float32) {
	Multiply[T, [32]float32](t, gemm.Plain{}, false, nil, 64, a, b, c, of, sums)
}

// Multiply is the body of the kernels: a warp loads, and others compute. Where active is set, f changes each sum, with the bias of
// its column.
func Multiply[T gpu.Half, A gpu.Accumulator[float32], F gemm.Activation](t *gpu.Thread, f F, active bool, bias []float32, cols int, a, b, c gpu.Tiles[T], of Size, sums [][2]float32) {
	rows, line, p := begin[T](t, cols, of)
	if t.Warp() < 4 {
		if cols == 256 { // else there are enough
			gpu.FewerRegisters(t, 40)
		}
		if t.Rank() == 0 {
			load(t, &p, &line, cols, rows, a, b, of)
		}
		return
	}
	if cols == 256 {
		gpu.MoreRegisters(t, 232)
	}
	warp, lane := t.Warp()-4, t.Lane()
	half := warp / 4 * 64 // of A
	out := rows[stages(cols)*(Rows+cols)+warp*2*StoreRows:]
	for tile := int32(t.BlockX()); tile < p.all; tile += int32(t.GridDimX()) {
		var acc A
		row, col, product, part := p.at(tile) // while the stages come
		accumulate[float32](t, &acc, &line, cols, rows, half, p.steps(part))
		if InParts(cols) && len(sums) > 0 {
			store(t, gemm.Sums[float32]{}, &acc, cols, sums, of.sums(product, part), (of.N+1)/2, row, col, of)
			continue
		}
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
				gpu.StoreTile(t, c, col*int32(cols)+int32(64*j), row*Rows+int32(warp*StoreRows), product, to)
			}
		}
	}
	if lane == 0 {
		gpu.StoreWait(t, 0)
	}
}

// InParts reports whether a product in parts may have tiles of so many columns: it has few of them.
func InParts(cols int) bool { return cols < 256 }

// MultiplyTo is Multiply for elements of any size. f makes what C has of the sums of two columns side by side. Each lane stores its sums.
func MultiplyTo[T gpu.Element, S gpu.Sum, A gpu.Accumulator[S], P any, F gemm.Pairs[S, P]](t *gpu.Thread, f F, cols int, a, b gpu.Tiles[T], c []P, of Size, sums [][2]S) {
	rows, line, p := begin[T](t, cols, of)
	if t.Warp() < 4 {
		if cols == 256 { // else there are enough
			gpu.FewerRegisters(t, 40)
		}
		if t.Rank() == 0 {
			load(t, &p, &line, cols, rows, a, b, of)
		}
		return
	}
	if cols == 256 {
		gpu.MoreRegisters(t, 232)
	}
	half := (t.Warp() - 4) / 4 * 64 // of A
	for tile := int32(t.BlockX()); tile < p.all; tile += int32(t.GridDimX()) {
		var acc A
		row, col, product, part := p.at(tile) // while the stages come
		if Parted[T, S]() {
			addUp[S](t, &acc, &line, cols, rows, half, p.steps(part))
			row, col, product, part = p.at(tile) // once more: there is no room for them
		} else {
			accumulate[S](t, &acc, &line, cols, rows, half, p.steps(part))
		}
		if InParts(cols) && len(sums) > 0 {
			store(t, gemm.Sums[S]{}, &acc, cols, sums, of.sums(product, part), (of.N+1)/2, row, col, of)
		} else {
			store(t, f, &acc, cols, c, int(product)*of.StrideC, of.PitchC, row, col, of)
		}
	}
}

// store writes pairs of a tile of c, of which the product begins at pair first.
func store[S gpu.Sum, A gpu.Accumulator[S], P any, F gemm.Pairs[S, P]](t *gpu.Thread, f F, acc *A, cols int, c []P, first int, pitch, row, col int32, of Size) {
	warp, lane := t.Warp()-4, int32(t.Lane())
	col = col*int32(cols) + lane&3*2
	left := of.N - col
	for high := range 2 {
		if y := row*Rows + int32(16*warp+8*high) + lane>>2; y < of.M {
			to := c[min(len(c), first+int(y)*int(pitch)+int(col/2)):]
			for j := range cols / 8 {
				if int32(8*j) < left {
					to[4*j] = f.Pair((*acc)[4*j+2*high], (*acc)[4*j+2*high+1], col+int32(8*j))
				}
			}
		}
	}
}

// Parted reports whether T is a float of 8 bits. Sums of those lose bits on tensor cores, so each stage has sums of its own, which are added up
// in float32. There is no room for that in tiles of 256 columns. gpuc folds the quotients: a half for those, and 0 for integers and what
// is wider.
func Parted[T gpu.Element, S gpu.Sum]() bool { return S(1/gemm.SizeOf[T]())/2 != 0 }

// begin makes what all warps of a block need: the stages, a pipeline of them, and the tiles of all products.
func begin[T gpu.Element](t *gpu.Thread, cols int, of Size) (rows gpu.SharedTile[T], line gpu.Pipeline, p places) {
	height := Rows + cols // of a stage
	rows = gpu.SharedTile[T](gpu.DynamicShared[gpu.TileRow[T]](t))
	bars := gpu.DynamicShared[gpu.TxBarrier](t)[(stages(cols)*height+consumers*2*StoreRows)*16:]
	line = gpu.NewPipeline(t, bars[:stages(cols)], bars[stages(cols):2*stages(cols)], consumers)
	p = places{rows: ceil(of.M, Rows), cols: ceil(of.N, int32(cols)), batch: of.Batch, deep: ceil(of.K, depth[T]()), part: ceil(of.Part, depth[T]())}
	p.all = p.rows * p.cols * p.batch * ceil(p.deep, p.part)
	return rows, line, p
}

// depth is how many columns of A and of B a stage has.
func depth[T gpu.Element]() int32 { return DepthBytes / gemm.SizeOf[T]() }

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
func load[T gpu.Element](t *gpu.Thread, p *places, line *gpu.Pipeline, cols int, rows gpu.SharedTile[T], a, b gpu.Tiles[T], of Size) {
	height := Rows + cols
	for tile := int32(t.BlockX()); tile < p.all; tile += int32(t.GridDimX()) {
		row, col, product, part := p.at(tile)
		at := part * of.Part
		for range p.steps(part) {
			slot, full := line.Produce(t, height*128)
			gpu.CopyTile(t, rows[slot*height:], a, at, row*Rows, product*of.A, full)
			gpu.CopyTile(t, rows[slot*height+Rows:], b, at, col*int32(cols), product*of.B, full)
			at += depth[T]()
		}
	}
}

// ceil is n/by, rounded up.
func ceil(n, by int32) int32 { return (n + by - 1) / by }

// places are the tiles of all products: those of all first parts, then those of the next.
type places struct {
	rows, cols, batch, all int32
	deep, part             int32 // stages of a product, and of a part
}

// steps is how many stages a part has.
func (p *places) steps(part int32) int32 { return min(p.part, p.deep-part*p.part) }

// at is the place of a tile: group tiles along m, then the next along n.
func (p *places) at(tile int32) (row, col, product, part int32) {
	all := tile / (p.rows * p.cols)
	tile -= all * p.rows * p.cols
	g := tile / (group * p.cols) * group
	high := min(group, p.rows-g)
	tile -= g * p.cols
	return g + tile%high, tile / high, all % p.batch, all / p.batch
}
