// Package hopper has the kernels of package kernels for compute capability 9.0: products of four warps, and copies of tiles.
package hopper

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/kernels/internal/gemm"
)

//go:generate go run -C ../../../gpuc . -arch sm_90a -checks off -launch=false ../kernels/internal/hopper

const (
	// Rows is how many rows of C the tile of a block has at most. Threads are those of a block: four warps that copy, and two teams of four that
	// compute 64 rows each.
	Rows    = 128
	Threads = 384

	// DepthBytes is how many bytes of a row of A and of B a stage has: a row of a tile.
	DepthBytes = 128

	// Turn is how many rows and columns a box has of a matrix that lies as its transpose.
	Turn = 64

	// StoreRows is how many rows of C a warp stores at once, and in a box of its tiles.
	StoreRows = 16

	consumers = 8  // warps that compute
	group     = 16 // rows of tiles that run at once, so that they share what they read
)

// slabs is how many tiles of A and of B a stage has: two where a product of one would take less time than waiting for it.
func slabs(cols int) int { return 2 - min(cols/128, 1) }

// stages is how many stages there are: as many rows of tiles for each width.
func stages(cols int) int { return 1536 / (Rows + cols) / slabs(cols) }

// SharedBytes is the dynamic shared memory of a block: the stages, two tiles to store for each warp, and barriers.
func SharedBytes(cols int) int {
	return (stages(cols)*slabs(cols)*(Rows+cols)+consumers*2*StoreRows)*128 + (stages(cols)*2+2)*8
}

// Size is what a launch computes: products of one size, in parts.
type Size struct {
	M, N, K int32
	Batch   int32
	A, B    int32 // from the matrix of a product to that of the next: 1, or 0 where all have the same
	Rows    int32 // of a tile: those of both teams, or the 64 of one. Then the teams take tiles in turns, and one stores while the other computes
	Turned  int32 // turnedA + turnedB: which matrices lie as their transposes, of elements of 16 bits
	Stage   int32 // bytes of what a stage copies: the boxes of A and of B
	PitchC  int32 // of MultiplyTo, in pairs of elements
	Part    int32 // columns of A and B in a part, a multiple of 256 bytes, or all
	StrideC int   // of MultiplyTo, in pairs of elements
}

const (
	turnedA = 1 << iota
	turnedB
)

// Turns reports whether a kernel with tiles of so many columns takes matrices that lie as their transposes. Kernels ask the same in one
// condition, which gpuc folds.
func Turns[T gpu.Element](cols int) bool { return cols > 64 && gemm.SizeOf[T]() == 2 }

// Turned is what Size.Turned says.
func Turned(a, b bool) (turned int32) {
	if a {
		turned |= turnedA
	}
	if b {
		turned |= turnedB
	}
	return turned
}

// sums is where those of a product begin, in pairs.
func (s *Size) sums(product, part int32) int {
	return int(part*s.Batch+product) * int(s.M) * int((s.N+1)/2)
}

// ProductWide computes C = A * transposed B, of A with M rows and K columns, and B with N rows and K columns. A block computes tiles of
// 128 x 256, or of 64 x 256, one after another: the grid has any number of blocks along x. The boxes of a and b have as many rows as a tile has rows and
// columns, or those that there are, up to a multiple of 8. A matrix that lies as its transpose has boxes of Turn rows. Those of c have StoreRows. Where there are sums, they get those of all parts in place of C, as [gemm.Product] writes them.
//
//purecuda:kernel block=384 registers=168 T=gpu.BFloat16
func ProductWide[T gpu.Half](t *gpu.Thread, a, b, c gpu.Tiles[T], of Size, sums [][2]float32) {
	Multiply[T, [128]float32](t, gemm.Plain{}, false, nil, 256, a, b, c, of, sums)
}

// ProductMiddle has tiles of 128 columns.
//
//purecuda:kernel block=384 registers=168 T=gpu.BFloat16
func ProductMiddle[T gpu.Half](t *gpu.Thread, a, b, c gpu.Tiles[T], of Size, sums [][2]float32) {
	Multiply[T, [64]float32](t, gemm.Plain{}, false, nil, 128, a, b, c, of, sums)
}

// ProductNarrow has tiles of 64 columns, and takes no matrices that lie as their transposes.
//
//purecuda:kernel block=384 registers=168 T=gpu.BFloat16
func ProductNarrow[T gpu.Half](t *gpu.Thread, a, b, c gpu.Tiles[T], of Size, sums [][2]float32) {
	Multiply[T, [32]float32](t, gemm.Plain{}, false, nil, 64, a, b, c, of, sums)
}

// Multiply is the body of the kernels: a warp loads, and others compute. Where active is set, f changes each sum, with the bias of
// its column.
func Multiply[T gpu.Half, A gpu.Accumulator[float32], F gemm.Activation](t *gpu.Thread, f F, active bool, bias []float32, cols int, a, b, c gpu.Tiles[T], of Size, sums [][2]float32) {
	rows, line, p, turns := begin[T](t, cols, of)
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
	team, lane := newTeam(t, turns, of), t.Lane()
	out := rows[stages(cols)*slabs(cols)*(Rows+cols)+(t.Warp()-4)*2*StoreRows:]
	for tile := int32(t.BlockX()); tile < p.all; tile += int32(t.GridDimX()) {
		var acc A
		row, col, product, part := p.at(tile) // while the stages come
		if !team.takes(t, &line, p.steps(part)) {
			continue
		}
		accumulate[float32](t, &acc, &line, &team, cols, rows, p.steps(part))
		row = row*of.Rows + int32(team.top)
		if InParts(cols) && len(sums) > 0 {
			store(t, gemm.Sums[float32]{}, &acc, cols, sums, of.sums(product, part), (of.N+1)/2, row, col, of)
			continue
		}
		if active {
			x, down := col*int32(cols)+int32(lane&3*2), of.M-row-int32(lane>>2)
			//purecuda:unroll
			for i := range cols / 2 { // f knows nothing of what is not in C: rows that nobody has copied are anything
				at := x + int32(i>>2*8+i&1)
				acc[i] = f.Apply(gpu.Select(int32(i>>1&1*8) < down, gpu.Select(at < of.N, acc[i], 0), 0), gemm.Bias(bias).Of(at))
			}
		}
		for j := 0; j < cols; j += 128 { // two tiles for each fence
			if lane == 0 {
				gpu.StoreWait(t, 0)
			}
			gpu.WarpBarrier(t)
			for i := range min(cols, 128) / 16 {
				gpu.StoreMatrix[T](t, out[i/4*StoreRows:].Quad(lane&15, i&3*2+lane>>4), &acc, j+16*i)
			}
			gpu.FenceShared(t)
			gpu.WarpBarrier(t)
			if lane == 0 {
				for i := range min(cols, 128) / 64 {
					gpu.StoreTile(t, c, col*int32(cols)+int32(j+64*i), row, product, out[i*StoreRows:])
				}
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
	rows, line, p, turns := begin[T](t, cols, of)
	more := cols == 256 || cols == 128 && Parted[T, S]() // else there are enough
	if t.Warp() < 4 {
		if more {
			gpu.FewerRegisters(t, 40)
		}
		if t.Rank() == 0 {
			load(t, &p, &line, cols, rows, a, b, of)
		}
		return
	}
	if more {
		gpu.MoreRegisters(t, 232)
	}
	team := newTeam(t, turns, of)
	for tile := int32(t.BlockX()); tile < p.all; tile += int32(t.GridDimX()) {
		var acc A
		row, col, product, part := p.at(tile) // while the stages come
		if !team.takes(t, &line, p.steps(part)) {
			continue
		}
		if Parted[T, S]() {
			addUp[S](t, &acc, &line, &team, cols, rows, p.steps(part))
			row, col, product, part = p.at(tile) // once more: there is no room for them
		} else {
			accumulate[S](t, &acc, &line, &team, cols, rows, p.steps(part))
		}
		row = row*of.Rows + int32(team.top)
		if InParts(cols) && len(sums) > 0 {
			store(t, gemm.Sums[S]{}, &acc, cols, sums, of.sums(product, part), (of.N+1)/2, row, col, of)
		} else {
			store(t, f, &acc, cols, c, int(product)*of.StrideC, of.PitchC, row, col, of)
		}
	}
}

// store writes pairs of a tile of c, of which the product begins at pair first, and the rows of the warp at row. What f has for columns is loaded for
// four pairs at a time.
func store[S gpu.Sum, A gpu.Accumulator[S], P any, F gemm.Pairs[S, P]](t *gpu.Thread, f F, acc *A, cols int, c []P, first int, pitch, row, col int32, of Size) {
	lane := int32(t.Lane())
	row, col = row+lane>>2, col*int32(cols)+lane&3*2
	down, left := of.M-row, of.N-col
	at := first + int(row)*int(pitch) + int(col/2)
	to := [2][]P{c[min(len(c), at):], c[min(len(c), at+8*int(pitch)):]}
	//purecuda:unroll
	for j := 0; j < cols/8; j += 4 { // else sums are no registers
		var columns [4][2]float32
		for e := range 4 {
			columns[e] = f.Columns(col + int32(8*(j+e)))
		}
		for high := range 2 {
			if int32(8*high) < down {
				for e := range 4 {
					if i := 4*(j+e) + 2*high; int32(8*(j+e)) < left {
						to[high][4*(j+e)] = f.Pair((*acc)[i], (*acc)[i+1], columns[e])
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

// begin makes what all warps of a block need: the stages, a pipeline of them, the tiles of all products, and barriers for the turns of teams.
func begin[T gpu.Element](t *gpu.Thread, cols int, of Size) (rows gpu.SharedTile[T], line gpu.Pipeline, p places, turns []gpu.TxBarrier) {
	height := slabs(cols) * (Rows + cols) // of a stage
	rows = gpu.SharedTile[T](gpu.DynamicShared[gpu.TileRow[T]](t))
	bars := gpu.DynamicShared[gpu.TxBarrier](t)[(stages(cols)*height+consumers*2*StoreRows)*16:]
	turns = bars[2*stages(cols):][:2]
	if t.Rank() == 0 {
		turns[0].Init(t, consumers/2)
		turns[1].Init(t, consumers/2)
	}
	line = gpu.NewPipeline(t, bars[:stages(cols)], bars[stages(cols):2*stages(cols)], int(of.Rows)/StoreRows)
	p = places{rows: ceil(of.M, Rows), cols: ceil(of.N, int32(cols)), batch: of.Batch, deep: ceil(of.K, int32(slabs(cols))*depth[T]()), part: ceil(of.Part, int32(slabs(cols))*depth[T]())}
	if of.Rows < Rows {
		p.rows = ceil(of.M, Rows/2)
	}
	p.all = p.rows * p.cols * p.batch * ceil(p.deep, p.part)
	return rows, line, p, turns
}

// team is four warps that compute 64 rows together. Teams that take tiles in turns begin one after the other: a barrier tells of the
// last phase alone, so nobody may wait for one that is further.
type team struct {
	rows      int   // of a tile
	turned    int32 // as Size.Turned
	top       int   // row of the tile where those of the warp begin
	mine, its []gpu.TxBarrier
	parity    uint32
	other     bool // the next tile is the other team's
}

func newTeam(t *gpu.Thread, turns []gpu.TxBarrier, of Size) team {
	warp := t.Warp() - 4
	i := warp / 4
	return team{rows: int(of.Rows), turned: of.Turned, top: warp * StoreRows & int(of.Rows-1), mine: turns[i:], its: turns[1-i:], parity: uint32(1 - i), other: i > 0}
}

// takes reports whether the next tile, of so many stages, is the team's, and waits for its turn.
func (w *team) takes(t *gpu.Thread, line *gpu.Pipeline, steps int32) bool {
	if w.rows == Rows {
		return true
	}
	if w.other = !w.other; !w.other {
		line.Skip(int(steps))
		return false
	}
	w.mine[0].Wait(t, w.parity)
	w.parity ^= 1
	return true
}

// passes lets the other team begin, when all lanes have had their turn.
func (w *team) passes(t *gpu.Thread) {
	if w.rows == Rows {
		return
	}
	gpu.WarpBarrier(t)
	if t.Lane() == 0 {
		w.its[0].Arrive(t)
	}
}

// depth is how many columns of A and of B a stage has.
func depth[T gpu.Element]() int32 { return DepthBytes / gemm.SizeOf[T]() }

// accumulate adds up the products of all stages of a tile. A question for each stage would cost a tenth where tiles are small.
func accumulate[S gpu.Sum, A gpu.Accumulator[S], T gpu.Element](t *gpu.Thread, acc *A, line *gpu.Pipeline, team *team, cols int, rows gpu.SharedTile[T], steps int32) {
	if cols > 64 && gemm.SizeOf[T]() == 2 && team.turned != 0 {
		addStages[S](t, acc, line, team, true, cols, rows, steps)
	} else {
		addStages[S](t, acc, line, team, false, cols, rows, steps)
	}
}

func addStages[S gpu.Sum, A gpu.Accumulator[S], T gpu.Element](t *gpu.Thread, acc *A, line *gpu.Pipeline, team *team, turned bool, cols int, rows gpu.SharedTile[T], steps int32) {
	lane := t.Lane()
	before := line.Consume(t)
	multiply[S](t, acc, team, turned, cols, rows, before, 0, slabs(cols), false)
	for range steps - 1 {
		slot := line.Consume(t)
		multiply[S](t, acc, team, turned, cols, rows, slot, 0, slabs(cols), true)
		gpu.WGMMAWait(t, 1)
		if lane == 0 {
			line.Release(t, before)
		}
		before = slot
	}
	team.passes(t)
	gpu.WGMMAWait(t, 0)
	if lane == 0 {
		line.Release(t, before)
	}
}

// multiply begins the products of a stage, or of one of its tiles.
func multiply[S gpu.Sum, A gpu.Accumulator[S], T gpu.Element](t *gpu.Thread, acc *A, team *team, turned bool, cols int, rows gpu.SharedTile[T], slot, first, n int, add bool) {
	gpu.WGMMAFence(t)
	for i := range n {
		from := rows[(slot*slabs(cols)+first+i)*(team.rows+cols):]
		x, y, add := from[team.top&64:], from[team.rows:], add || i > 0
		switch {
		case !turned:
			gpu.WGMMA[S](t, acc, x, y, add)
		case team.turned == turnedA:
			gpu.WGMMATurned[S](t, acc, x, y, true, false, add)
		case team.turned == turnedB:
			gpu.WGMMATurned[S](t, acc, x, y, false, true, add)
		default:
			gpu.WGMMATurned[S](t, acc, x, y, true, true, add)
		}
	}
	gpu.WGMMACommit(t)
}

// addUp is accumulate of bytes with sums of its own for each tile of a stage. Where a stage has one, its sums are added while the next is multiplied.
func addUp[S gpu.Sum, A gpu.Accumulator[S], T gpu.Element](t *gpu.Thread, acc *A, line *gpu.Pipeline, team *team, cols int, rows gpu.SharedTile[T], steps int32) {
	var even, odd A
	slot := line.Consume(t)
	multiply[S](t, &even, team, false, cols, rows, slot, 0, 1, false)
	if slabs(cols) > 1 { // ptxas would let products wait for each other that no branch divides
		for i := int32(1); i < 2*steps; i++ {
			gpu.WGMMAWait(t, 0)
			add[S](acc, &even, cols)
			if i&1 == 0 {
				if t.Lane() == 0 {
					line.Release(t, slot)
				}
				slot = line.Consume(t)
			}
			multiply[S](t, &even, team, false, cols, rows, slot, int(i&1), 1, false)
		}
		addLast[S](t, acc, &even, line, team, cols, slot)
		return
	}
	for range (steps - 1) / 2 {
		slot = addBeside[S](t, acc, &even, &odd, line, team, cols, rows, slot)
		slot = addBeside[S](t, acc, &odd, &even, line, team, cols, rows, slot)
	}
	if steps&1 == 0 {
		slot = addBeside[S](t, acc, &even, &odd, line, team, cols, rows, slot)
		addLast[S](t, acc, &odd, line, team, cols, slot)
	} else {
		addLast[S](t, acc, &even, line, team, cols, slot)
	}
}

// addBeside begins the products of the next stage, and adds the sums of the last one.
func addBeside[S gpu.Sum, A gpu.Accumulator[S], T gpu.Element](t *gpu.Thread, acc, last, next *A, line *gpu.Pipeline, team *team, cols int, rows gpu.SharedTile[T], before int) (slot int) {
	slot = line.Consume(t)
	multiply[S](t, next, team, false, cols, rows, slot, 0, 1, false)
	gpu.WGMMAWait(t, 1)
	add[S](acc, last, cols)
	if t.Lane() == 0 {
		line.Release(t, before)
	}
	return slot
}

// addLast adds the sums of the last products.
func addLast[S gpu.Sum, A gpu.Accumulator[S]](t *gpu.Thread, acc, last *A, line *gpu.Pipeline, team *team, cols, slot int) {
	team.passes(t)
	gpu.WGMMAWait(t, 0)
	add[S](acc, last, cols)
	if t.Lane() == 0 {
		line.Release(t, slot)
	}
}

// add adds sums up.
func add[S gpu.Sum, A gpu.Accumulator[S]](acc, some *A, cols int) {
	for i := range cols / 2 {
		(*acc)[i] += (*some)[i]
	}
}

// load copies the stages of all tiles of the block. What lies outside the matrices is zero.
func load[T gpu.Element](t *gpu.Thread, p *places, line *gpu.Pipeline, cols int, rows gpu.SharedTile[T], a, b gpu.Tiles[T], of Size) {
	if cols > 64 && gemm.SizeOf[T]() == 2 && of.Turned != 0 {
		loadStages(t, p, line, true, cols, rows, a, b, of)
	} else {
		loadStages(t, p, line, false, cols, rows, a, b, of)
	}
}

func loadStages[T gpu.Element](t *gpu.Thread, p *places, line *gpu.Pipeline, turned bool, cols int, rows gpu.SharedTile[T], a, b gpu.Tiles[T], of Size) {
	height := int(of.Rows) + cols
	for tile := int32(t.BlockX()); tile < p.all; tile += int32(t.GridDimX()) {
		row, col, product, part := p.at(tile)
		at := part * of.Part
		for range p.steps(part) {
			slot, full := line.Produce(t, int(of.Stage)*slabs(cols))
			for i := range slabs(cols) {
				to := rows[(slot*slabs(cols)+i)*height:]
				copyRows(t, to, a, int(of.Rows), at, row*of.Rows, product*of.A, turned && of.Turned&turnedA != 0, full)
				copyRows(t, to[of.Rows:], b, cols, at, col*int32(cols), product*of.B, turned && of.Turned&turnedB != 0, full)
				at += depth[T]()
			}
		}
	}
}

// copyRows copies tiles of rows of A or of B. Where those lie as columns, each tile has 64 of them.
func copyRows[T gpu.Element](t *gpu.Thread, to gpu.SharedTile[T], from gpu.Tiles[T], n int, at, row, matrix int32, turned bool, full *gpu.TxBarrier) {
	if !turned {
		gpu.CopyTile(t, to, from, at, row, matrix, full)
		return
	}
	//purecuda:unroll 1
	for i := 0; i < n; i += Turn {
		gpu.CopyTile(t, to[i:], from, row+int32(i), at, matrix, full)
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
	if all := p.rows * p.cols; tile >= all { // a division takes as long as a hundred other instructions
		product = tile / all
		tile -= product * all
	}
	if wide := group * p.cols; tile >= wide {
		row = tile / wide
		tile -= row * wide
		row *= group
	}
	if product >= p.batch {
		part = product / p.batch
		product -= part * p.batch
	}
	high := min(group, p.rows-row)
	col = tile / high
	return row + tile - col*high, col, product, part
}
