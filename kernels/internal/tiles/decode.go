package tiles

import "github.com/purecuda/purecuda/gpu"

// Decoding: a block takes a part of the rows of keys and values that a sequence has, of one head of them, and up to four heads of Q. A group of
// lanes takes a row, 16 bytes of it each, and a block has as many groups as there are in DecodeThreads.

const (
	// DecodeThreads is the block of Decode, and DecodeRows is a number of rows that a part is a multiple of.
	DecodeThreads = 128
	DecodeRows    = 64

	ahead = 4 // rows of a group that are loaded at once
	wide  = 8 // elements of a lane
)

// DecodeShared is the dynamic shared memory of a block for so many heads of Q.
func DecodeShared(heads int) int { return heads * DecodeThreads * (wide + 2) * 4 }

// DecodeLanes is how many lanes a row of so many columns takes.
func DecodeLanes(width int) (lanes int) {
	for lanes = 1; lanes*wide < width; lanes *= 2 {
	}
	return lanes
}

// Partial is what a part of the rows gives: sums of powers of 2, less the largest of their exponents. The sums of values are beside it.
type Partial struct{ Most, Sum float32 }

// nothing is the largest exponent where there is no row. What is subtracted from it stays a number.
const nothing = -1e30

// Decoding is what Decode has to know. Q has Heads heads beside each other, of which Group share a head of the keys.
type Decoding struct {
	Capacity, Width, Heads, Group, Parts, PartRows int
	PitchQ, PitchK, PitchV, PitchOut               int
	Scale                                          float32 // for powers of 2
}

// Decode has a grid of Parts along x, of blocks for n heads along y, and of sequences along z. Where there is one part, it writes out, and else
// results and partials, which are of part, head and sequence. lengths has how many rows each sequence has; all have Capacity where it is empty.
func Decode[T gpu.Half](t *gpu.Thread, n int, s Decoding, out, q, keys, values []T, lengths []uint32, results []float32, partials []Partial) {
	lanes := DecodeLanes(s.Width)
	lane, group, groups := t.ThreadX()&(lanes-1), t.ThreadX()/lanes, DecodeThreads/lanes
	blocks := (s.Group + n - 1) / n // for a head of the keys
	keyHead, first, sequence := t.BlockY()/blocks, t.BlockY()%blocks*n, t.BlockZ()
	heads := min(n, s.Group-first)
	first += keyHead * s.Group
	rows := s.Capacity
	if len(lengths) > 0 {
		rows = min(int(lengths[sequence]), rows)
	}
	at, end := t.BlockX()*s.PartRows, min((t.BlockX()+1)*s.PartRows, rows)
	there := lane*wide < s.Width
	col := keyHead*s.Width + lane*wide
	keys, values = keys[sequence*s.Capacity*s.PitchK+col:], values[sequence*s.Capacity*s.PitchV+col:]
	var query, acc [4][wide]float32
	var most, sum [4]float32
	for h := range n {
		most[h] = nothing
		if h < heads && there {
			for e, x := range gpu.View[[wide]T](q[sequence*s.PitchQ+(first+h)*s.Width+lane*wide:])[0] {
				query[h][e] = x.Float32() * s.Scale
			}
		}
	}
	//purecuda:unroll 1
	for ; at < end; at += ahead * groups { // all groups of a warp together
		row := at + group
		var k, v [ahead][wide]T
		for i := range ahead {
			if r := row + i*groups; r < end && there {
				k[i] = gpu.View[[wide]T](keys[r*s.PitchK:])[0]
				v[i] = gpu.View[[wide]T](values[r*s.PitchV:])[0]
			}
		}
		var scores [4][ahead]float32
		for i := range ahead {
			for e := range wide {
				x := k[i][e].Float32()
				for h := range n {
					scores[h][i] += query[h][e] * x
				}
			}
		}
		//purecuda:unroll 1
		for d := lanes / 2; d > 0; d /= 2 {
			for h := range n {
				for i := range ahead {
					scores[h][i] += gpu.ShuffleXor(t, scores[h][i], d)
				}
			}
		}
		for h := range n {
			larger := most[h]
			for i := range ahead {
				scores[h][i] = gpu.Select(row+i*groups < end, scores[h][i], nothing)
				larger = max(larger, scores[h][i])
			}
			less := gpu.FastExp2(most[h] - larger)
			most[h], sum[h] = larger, sum[h]*less
			for e := range wide {
				acc[h][e] *= less
			}
		}
		for i := range ahead {
			var p [4]float32
			for h := range n {
				p[h] = gpu.Select(row+i*groups < end, gpu.FastExp2(scores[h][i]-most[h]), 0)
				sum[h] += p[h]
			}
			for e := range wide {
				x := v[i][e].Float32()
				for h := range n {
					acc[h][e] += p[h] * x
				}
			}
		}
	}
	room := gpu.DynamicShared[float32](t)
	says := gpu.View[Partial](room[n*DecodeThreads*wide:])
	for h := range n {
		to := room[(h*groups+group)*lanes*wide+lane*wide:]
		for e := range wide {
			to[e] = acc[h][e]
		}
		says[h*groups+group] = Partial{most[h], sum[h]}
	}
	t.Barrier()
	for i := t.ThreadX(); i < heads*s.Width; i += DecodeThreads {
		h, col := i/s.Width, i%s.Width
		p, v := merge(says[h*groups:], room[h*groups*lanes*wide+col:], groups, lanes*wide)
		if s.Parts == 1 {
			out[sequence*s.PitchOut+(first+h)*s.Width+col] = gpu.ToHalf[T](over(p, v))
			continue
		}
		place := (sequence*s.Heads+first+h)*s.Parts + t.BlockX()
		results[place*s.Width+col] = v
		if col == 0 {
			partials[place] = p
		}
	}
}

// Merge has a block for each head along x, and for each sequence along y. It merges what the parts have.
func Merge[T gpu.Half](t *gpu.Thread, s Decoding, out []T, results []float32, partials []Partial) {
	place := (t.BlockY()*s.Heads + t.BlockX()) * s.Parts
	for col := t.ThreadX(); col < s.Width; col += DecodeThreads {
		p, v := merge(partials[place:], results[place*s.Width+col:], s.Parts, s.Width)
		out[t.BlockY()*s.PitchOut+t.BlockX()*s.Width+col] = gpu.ToHalf[T](over(p, v))
	}
}

// merge adds up parts in their order. The value of a part is pitch behind that of the one before.
func merge(parts []Partial, values []float32, count, pitch int) (all Partial, value float32) {
	all.Most = nothing
	for i := range count {
		all.Most = max(all.Most, parts[i].Most)
	}
	for i := range count {
		weight := gpu.FastExp2(parts[i].Most - all.Most)
		all.Sum += parts[i].Sum * weight
		value += values[i*pitch] * weight
	}
	return all, value
}

// over is the result. It is 0 where there was no row.
func over(p Partial, value float32) float32 {
	if p.Sum == 0 {
		return 0
	}
	return value / p.Sum
}
