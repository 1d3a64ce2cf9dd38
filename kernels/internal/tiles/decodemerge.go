package tiles

import "github.com/purecuda/purecuda/gpu"

// gather adds up what count warps or groups of a block have, and writes what the block gives. The values of a head are apart from those of the one
// before, and those of a warp by pitch.
func gather[T gpu.Half](t *gpu.Thread, s Decoding, part decodePart, out []T, results []float32, partials, says []Partial, values [][4]float32, count, apart, pitch int) {
	quads := s.Width / 4
	for i := t.ThreadX(); i < part.heads*quads; i += t.BlockDimX() {
		h, col := i/quads, i%quads
		mine, most := says[h*count:], float32(nothing)
		for w := range count {
			most = max(most, mine[w].Most)
		}
		sum, v := merge(mine, values[h*apart+col:], 0, 1, count, pitch, most)
		if s.Parts == 1 {
			over(out[part.sequence*s.PitchOut+(part.first+h)*s.Width:], col, sum, v)
			continue
		}
		place := (part.sequence*s.Heads+part.first+h)*s.Parts + t.BlockY()
		gpu.View[[4]float32](results)[place*quads+col] = v
		if col == 0 {
			partials[place] = Partial{most, sum}
		}
	}
}

// mergeWarps is how many warps a block of Merge has at most.
const mergeWarps = 16

// DecodeMergeThreads is the block of Merge for so many parts: a warp for each, while there are warps.
func DecodeMergeThreads(parts int) int { return 32 * min(parts, mergeWarps) }

// Merge has a block for each head along x, and for each sequence along y. It merges what the parts have: each warp some of them, and then those of all.
func Merge[T gpu.Half](t *gpu.Thread, s Decoding, out []T, results []float32, partials []Partial) {
	place, quads := (t.BlockY()*s.Heads+t.BlockX())*s.Parts, s.Width/4
	mine, most := partials[place:], float32(nothing)
	for i := t.ThreadX(); i < s.Parts; i += t.BlockDimX() {
		most = max(most, mine[i].Most)
	}
	most = all(t, largest{}, most)
	sums, room := gpu.Shared[[mergeWarps]float32](t), gpu.Shared[[mergeWarps * 64][4]float32](t)
	for col := t.Lane(); col < quads; col += 32 {
		sum, value := merge(mine, gpu.View[[4]float32](results)[place*quads+col:], t.Warp(), t.BlockDimX()/32, s.Parts, quads, most)
		room[t.Warp()*quads+col] = value
		if col == 0 {
			sums[t.Warp()] = sum
		}
	}
	t.Barrier()
	for col := t.ThreadX(); col < quads; col += t.BlockDimX() {
		sum, value := float32(0), [4]float32{}
		for w := range t.BlockDimX() / 32 {
			sum += sums[w]
			for e, v := range room[w*quads+col] {
				value[e] += v
			}
		}
		over(out[t.BlockY()*s.PitchOut+t.BlockX()*s.Width:], col, sum, value)
	}
}

// merge adds up parts from a first one on, some apart, in their order. The values of a part are pitch behind those of the one before.
func merge(parts []Partial, values [][4]float32, first, apart, count, pitch int, most float32) (sum float32, value [4]float32) {
	for i := first; i < count; i += apart {
		weight := gpu.FastExp2(parts[i].Most - most)
		sum = gpu.FMA32(parts[i].Sum, weight, sum)
		for e, v := range values[i*pitch] {
			value[e] = gpu.FMA32(v, weight, value[e])
		}
	}
	return sum, value
}

// over sets four elements of the result. They are 0 where there was no row.
func over[T gpu.Half](out []T, quad int, sum float32, value [4]float32) {
	scale := float32(0)
	if sum != 0 {
		scale = 1 / sum
	}
	var y [4]T
	for e, v := range value {
		y[e] = gpu.ToHalf[T](v * scale)
	}
	gpu.View[[4]T](out)[quad] = y
}
