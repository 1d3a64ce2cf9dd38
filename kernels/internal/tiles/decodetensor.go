package tiles

import "github.com/purecuda/purecuda/gpu"

// DecodeTensor is Decode on tensor cores. A block takes up to eight heads of Q that share a head of the keys. Its warps take 16 rows each in
// turn. A warp copies its next ones to a ring of stages of its own, so that warps do not wait for each other. A head of Q is a row of the fragments.
// Powers are two numbers of T, the second of what the first has lost. The second has the rows from eight on, where there are no heads.

const (
	// DecodeTensorHeads is how many heads of Q a block has at most.
	DecodeTensorHeads = 8

	tensorRows = 16 // of keys and of values, in a stage
	stages     = 3  // of a warp's ring
)

// DecodeTensorWarps is how many warps a block has, for columns up to width.
func DecodeTensorWarps(width int) int { return min(4, 512/width) }

// DecodeTensorShared is the dynamic shared memory of a block.
func DecodeTensorShared(width int) int {
	return DecodeTensorWarps(width) * stages * 2 * tensorRows * width * 2
}

// DecodeTensor has width 64, 128 or 256, and the columns of a head are at most as many.
func DecodeTensor[T gpu.Half](t *gpu.Thread, width int, s Decoding, out, q, keys, values []T, lengths []uint32, results []float32, partials []Partial) {
	chunks, warps, lane := width/8, DecodeTensorWarps(width), t.Lane()
	tile, part := tensorRows*chunks, partOf(t, s, DecodeTensorHeads, lengths)
	row, end := part.at+uint32(t.Warp()*tensorRows), part.end
	fromK := sourceOf(t, width, s.Width, keys[part.sequence*s.Capacity*s.PitchK+part.keyHead*s.Width:], s.PitchK)
	fromV := sourceOf(t, width, s.Width, values[part.sequence*s.Capacity*s.PitchV+part.keyHead*s.Width:], s.PitchV)
	shared := gpu.DynamicShared[gpu.Uint4](t)
	room, step := shared[t.Warp()*stages*2*tile:], uint32(warps*tensorRows)
	ofQ := room[(stages-1)*2*tile:] // Q has the last stage, until the first pass
	sourceOf(t, width, s.Width, q[part.sequence*s.PitchQ+part.first*s.Width:], s.Width).stage(t, width, DecodeTensorHeads, ofQ, 0, uint32(part.heads-1))
	gpu.CopyCommit(t)
	for i := range uint32(stages - 1) {
		if row+i*step < end {
			fromK.stage(t, width, tensorRows, room[int(i)*2*tile:], row+i*step, end-1)
			fromV.stage(t, width, tensorRows, room[int(i)*2*tile+tile:], row+i*step, end-1)
		}
		gpu.CopyCommit(t)
	}
	var none T
	var query [16]gpu.FragmentA[T]
	var acc [32]gpu.FragmentC[float32]
	gpu.CopyWait(t, stages-1)
	gpu.WarpBarrier(t)
	for j := range width / 16 {
		a := gpu.LoadMatrixA[T](t, &ofQ[lane&7*chunks+(2*j+lane>>4)^(lane&7)])
		for e := range 4 {
			i := e&1 + e>>1*4 // the others are of rows from eight on
			query[j].Set(i, gpu.Select(16*j+e>>1*8 < s.Width, a.At(i), none))
		}
	}
	most, sum, slot := float32(nothing), float32(0), 0
	//purecuda:unroll 1
	for ; row < end; row += step {
		gpu.CopyWait(t, stages-2)
		gpu.WarpBarrier(t) // what the others have copied is there, and they have read the slot of the pass before
		if next := row + uint32(stages-1)*step; next < end {
			to := gpu.Select(slot == 0, stages-1, slot-1) * 2 * tile
			fromK.stage(t, width, tensorRows, room[to:], next, end-1)
			fromV.stage(t, width, tensorRows, room[to+tile:], next, end-1)
		}
		gpu.CopyCommit(t)
		k := room[slot*2*tile:]
		v := k[tile:]
		slot = gpu.Select(slot == stages-1, 0, slot+1)
		var x [2]gpu.FragmentC[float32]
		for j := range width / 16 {
			b := gpu.LoadMatrixB[T](t, &k[(lane&7+lane>>4*8)*chunks+(2*j+lane>>3&1)^(lane&7)])
			gpu.MMA(t, &x[0], query[j], b[0])
			gpu.MMA(t, &x[1], query[j], b[1])
		}
		larger := most
		for i := range 4 { // of head lane/4
			there := row+uint32(i>>1*8+lane&3*2+i&1) < end
			x[i>>1][i&1] = gpu.Select(there, x[i>>1][i&1]*s.Scale, nothing)
			larger = max(larger, x[i>>1][i&1])
		}
		larger = max(larger, gpu.ShuffleXor(t, larger, 1))
		larger = max(larger, gpu.ShuffleXor(t, larger, 2))
		if gpu.Any(t, larger > most) {
			less := gpu.FastExp2(most - larger)
			most, sum = larger, sum*less
			for j := range width / 8 {
				for i := range 4 {
					acc[j][i] *= less
				}
			}
		}
		var p gpu.FragmentA[T]
		for i := range 4 {
			there := row+uint32(i>>1*8+lane&3*2+i&1) < end
			y := gpu.Select(there, gpu.FastExp2(x[i>>1][i&1]-most), 0)
			sum += y
			high := gpu.ToHalf[T](y)
			p.Set(i>>1*4+i&1, high)
			p.Set(i>>1*4+2+i&1, gpu.ToHalf[T](y-high.Float32()))
		}
		for j := range width / 16 {
			b := gpu.LoadTransposedB[T](t, &v[lane&15*chunks+(2*j+lane>>4)^(lane&7)])
			gpu.MMA(t, &acc[2*j], p, b[0])
			gpu.MMA(t, &acc[2*j+1], p, b[1])
		}
	}
	sum += gpu.ShuffleXor(t, sum, 1)
	sum += gpu.ShuffleXor(t, sum, 2)
	says := gpu.Shared[[4 * DecodeTensorHeads]Partial](t)
	if lane&3 == 0 {
		says[lane>>2*warps+t.Warp()] = Partial{most, sum}
	}
	gpu.WarpBarrier(t)
	pairs, pitch := gpu.View[[2]float32](room), width+8 // so that the heads lie in all banks
	for j := range width / 8 {
		pairs[(lane>>2*pitch+8*j)/2+lane&3] = [2]float32{acc[j][0] + acc[j][2], acc[j][1] + acc[j][3]}
	}
	t.Barrier()
	gather(t, s, part, out, results, partials, says[:], gpu.View[[4]float32](shared), warps, pitch/4, stages*2*tile)
}

// source is the rows that a warp copies from, as bytes. A lane has the same chunk of some rows, or the first where the columns end before.
type source struct {
	rows  []byte
	pitch int
}

func sourceOf[T gpu.Half](t *gpu.Thread, width, used int, x []T, pitch int) source {
	chunk := t.Lane() % (width / 8)
	return source{gpu.View[byte](x[gpu.Select(chunk*8 < used, chunk*8, 0):]), 2 * pitch}
}

// stage begins to copy some rows to a stage. Behind the last row it copies that once more: what it gives counts nothing. Chunks change places by the row,
// so that 8 rows of one chunk lie in all banks.
func (s source) stage(t *gpu.Thread, width, rows int, to []gpu.Uint4, row, last uint32) {
	chunks := width / 8
	for i := range rows * chunks / 32 {
		r := t.Lane()/chunks + 32*i/chunks
		from := s.rows[int(min(row+uint32(r), last))*s.pitch:]
		gpu.CopyAsync(t, &to[r*chunks+t.Lane()%chunks^(r&7)], &gpu.View[gpu.Uint4](from)[0])
	}
}
