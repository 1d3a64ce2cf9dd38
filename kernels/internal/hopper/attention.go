package hopper

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
)

// Attention: a block takes rows of Q of one head, and runs over all rows of K and V. Four warps copy, and teams of four compute 64
// rows each. Tiles of K and V have as many rows as AttentionKeys says. A tile has 64 columns of all of its rows, then the next 64.
const attentionSlots = 4 // of tiles of K and V in turns

// AttentionRows is how many rows of Q a block takes: of 64 columns those of three teams, so that one multiplies while two make powers.
func AttentionRows(width int) int { return 128 + 64/width*64 }

// AttentionThreads is how many threads a block has.
func AttentionThreads(width int) int { return 128 + 2*AttentionRows(width) }

// AttentionKeys is how many rows of K and V a tile has: as many as the registers have room for scores of.
func AttentionKeys(width int) int {
	if width == 256 {
		return 64
	}
	return 128
}

func attentionRows(width, high int) int {
	return width/64*(AttentionRows(width)+attentionSlots*high) + 2*AttentionRows(width)
}

// AttentionBytes is the dynamic shared memory of a block: Q, tiles of K and V, tiles to store, and barriers of slots, of Q and of teams.
func AttentionBytes(width int) int {
	return attentionRows(width, AttentionKeys(width))*128 + (2*attentionSlots+1+AttentionRows(width)/64)*8
}

// Attend computes softmax(scale * Q * transposed K) * V for heads of width columns, that lie beside each other. O is the accumulator of the
// result, and S that of the scores. Q has rows rows, and K and V have keys, of a head for group of Q's. The grid has a block for each
// AttentionRows along x, and one for each head along y. scale counts in powers of 2. Where causal is set, row i of Q sees those of
// K up to i + keys - rows. The boxes of q have AttentionRows, those of k and v high, which is AttentionKeys, and those of out StoreRows.
func Attend[T gpu.Half, O, S gpu.Accumulator[float32]](t *gpu.Thread, width, high int, q, k, v, out gpu.Tiles[T], rows, keys, group int32, scale float32, causal bool) {
	chunks, size, teams := width/64, width/64*high, AttentionRows(width)/64
	room := gpu.SharedTile[T](gpu.DynamicShared[gpu.TileRow[T]](t))
	slots := room[chunks*teams*64:]
	bars := gpu.DynamicShared[gpu.TxBarrier](t)[attentionRows(width, high)*16:]
	first := &bars[2*attentionSlots] // of Q
	turns := bars[2*attentionSlots+1:]
	if t.Rank() == 0 {
		first.Init(t, 1)
		for i := range teams {
			turns[i].Init(t, 4)
		}
	}
	line := gpu.NewPipeline(t, bars[:attentionSlots], bars[attentionSlots:2*attentionSlots], 4*teams)
	// The last rows come first: where causal is set, they take longest.
	head, row0 := int32(t.BlockY()), int32((t.GridDimX()-1-t.BlockX())*teams*64)
	seen := keys - rows // how many more rows of K than its number a row of Q sees
	tiles := (keys + int32(high) - 1) / int32(high)
	if causal {
		tiles = min(tiles, (row0+int32(teams*64)+seen+int32(high)-1)/int32(high))
	}
	if t.Warp() < 4 {
		if teams == 3 {
			gpu.FewerRegisters(t, 32)
		} else {
			gpu.FewerRegisters(t, 40)
		}
		if t.Rank() != 0 {
			return
		}
		first.Expect(t, chunks*teams*64*128)
		for c := range chunks {
			gpu.CopyTile(t, room[c*teams*64:], q, head*int32(width)+int32(c*64), row0, 0, first)
		}
		col := head / group * int32(width)
		for i := range tiles + 1 { // the values of a tile come after the scores of the next
			if i < tiles {
				fetch(t, &line, slots, k, col, i*int32(high), chunks, high)
			}
			if i > 0 {
				fetch(t, &line, slots, v, col, (i-1)*int32(high), chunks, high)
			}
		}
		return
	}
	if teams == 3 {
		gpu.MoreRegisters(t, 160)
	} else {
		gpu.MoreRegisters(t, 232)
	}
	warp, lane := t.Warp()-4, t.Lane()
	ours := room[warp/4*64:] // of Q
	row := row0 + int32(warp*16+lane>>2)
	var acc O
	var s S
	var p [8]gpu.FragmentA[T]
	most, sum := [2]float32{-1e30, -1e30}, [2]float32{} // of rows row and row+8
	first.Wait(t, 0)
	mine, next, parity := turns[warp/4:], turns[(warp/4+1)%teams:], uint32(0)
	if warp < 4 { // the first team need not wait at first
		parity = 1
	}
	slot := line.Consume(t)
	gpu.WGMMAFence(t)
	scores(t, &s, ours, slots[slot*size:], teams*64, chunks, high)
	gpu.WGMMACommit(t)
	gpu.WGMMAWait(t, 0)
	if lane == 0 {
		line.Release(t, slot)
	}
	hide(t, &s, 0, row, keys, seen, high, causal)
	soften(t, &s, &most, &sum, scale, high)
	for i := range high / 16 {
		p[i] = gpu.FragmentOf[T](&s, 16*i)
	}
	for i := int32(1); i < tiles; i++ { // the scores of this tile, and beside them the values of the one before
		slot := line.Consume(t)
		before := line.Consume(t)
		if width < 256 { // teams multiply in turns, and one makes powers meanwhile; with 256 columns that takes less than the products
			mine[0].Wait(t, parity)
			parity ^= 1
		}
		gpu.WGMMAFence(t)
		scores(t, &s, ours, slots[slot*size:], teams*64, chunks, high)
		gpu.WGMMACommit(t)
		for j := range high / 16 {
			gpu.WGMMARows(t, &acc, p[j], slots[before*size:], 16*j, high, true)
		}
		gpu.WGMMACommit(t)
		gpu.WGMMAWait(t, 1)
		if width < 256 && lane == 0 {
			next[0].Arrive(t)
		}
		if lane == 0 {
			line.Release(t, slot)
		}
		hide(t, &s, i*int32(high), row, keys, seen, high, causal)
		shrink := soften(t, &s, &most, &sum, scale, high)
		gpu.WGMMAWait(t, 0)
		if lane == 0 {
			line.Release(t, before)
		}
		for j := range width / 2 {
			acc[j] *= shrink[j>>1&1]
		}
		for j := range high / 16 {
			p[j] = gpu.FragmentOf[T](&s, 16*j)
		}
	}
	slot = line.Consume(t)
	gpu.WGMMAFence(t)
	for j := range high / 16 {
		gpu.WGMMARows(t, &acc, p[j], slots[slot*size:], 16*j, high, true)
	}
	gpu.WGMMACommit(t)
	gpu.WGMMAWait(t, 0)
	for r := range 2 {
		sum[r] += gpu.ShuffleXor(t, sum[r], 1)
		sum[r] += gpu.ShuffleXor(t, sum[r], 2)
		sum[r] = 1 / sum[r]
	}
	for j := range width / 2 {
		acc[j] *= sum[j>>1&1]
	}
	own := room[attentionRows(width, high)-2*AttentionRows(width)+warp*2*StoreRows:]
	for c := range chunks {
		to := own[c&1*StoreRows:]
		if lane == 0 {
			gpu.StoreWait(t, 1)
		}
		gpu.WarpBarrier(t)
		for j := range 4 {
			gpu.StoreMatrix[T](t, to.Quad(lane&15, 2*j+lane>>4), &acc, 64*c+16*j)
		}
		gpu.FenceShared(t)
		gpu.WarpBarrier(t)
		if lane == 0 {
			gpu.StoreTile(t, out, head*int32(width)+int32(64*c), row0+int32(warp*StoreRows), 0, to)
		}
	}
	if lane == 0 {
		gpu.StoreWait(t, 0)
	}
}

// fetch copies a tile of K or V.
func fetch[T gpu.Half](t *gpu.Thread, line *gpu.Pipeline, slots gpu.SharedTile[T], from gpu.Tiles[T], col, row int32, chunks, high int) {
	slot, full := line.Produce(t, chunks*high*128)
	for c := range chunks {
		gpu.CopyTile(t, slots[(slot*chunks+c)*high:], from, col+int32(c*64), row, 0, full)
	}
}

// scores begins s = Q * transposed K.
func scores[T gpu.Half, S gpu.Accumulator[float32]](t *gpu.Thread, s *S, q, k gpu.SharedTile[T], rows, chunks, high int) {
	for c := range chunks {
		gpu.WGMMA[float32](t, s, q[c*rows:], k[c*high:], c > 0)
	}
}

// hide takes away the scores of rows of K that a row of Q does not see.
func hide[S gpu.Accumulator[float32]](t *gpu.Thread, s *S, first, row, keys, seen int32, high int, causal bool) {
	last := first + int32(high) - 1
	if last < keys && (!causal || last <= row&^15+seen) {
		return
	}
	for i := range high / 2 {
		col := first + int32(8*(i>>2)+t.Lane()&3*2+i&1)
		if col >= keys || causal && col > row+int32(8*(i>>1&1))+seen {
			(*s)[i] = float32(math.Inf(-1))
		}
	}
}

// soften makes powers of scores, beside the greatest of each row so far, and tells how much earlier ones shrink.
func soften[S gpu.Accumulator[float32]](t *gpu.Thread, s *S, most, sum *[2]float32, scale float32, high int) (shrink [2]float32) {
	for r := range 2 {
		top := (*s)[2*r]
		for i := range high / 8 {
			top = max(top, max((*s)[4*i+2*r], (*s)[4*i+2*r+1]))
		}
		top = max(top, gpu.ShuffleXor(t, top, 1))
		top = max(top, gpu.ShuffleXor(t, top, 2))
		top = max(most[r], top*scale)
		shrink[r] = gpu.FastExp2(most[r] - top)
		most[r] = top
		var sums [2]float32
		for i := range high / 8 {
			for e := range 2 {
				x := gpu.FastExp2(gpu.FMA32((*s)[4*i+2*r+e], scale, -top))
				(*s)[4*i+2*r+e] = x
				sums[e] += x
			}
		}
		sum[r] = sum[r]*shrink[r] + (sums[0] + sums[1])
	}
	return shrink
}
