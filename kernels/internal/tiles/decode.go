package tiles

import "github.com/purecuda/purecuda/gpu"

const (
	// DecodeThreads is the block of Decode, and DecodeRows is a number of rows that a part is a multiple of.
	DecodeThreads = 128
	DecodeRows    = 64
	// DecodeHeads is how many heads of Q a block of Decode has at most.
	DecodeHeads = 4

	ahead = 4 // rows of a group of lanes that are loaded at once
	wide  = 8 // elements of a lane
)

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

// decodePart is what a block takes: rows of one head of the keys from at to end, for some heads of Q.
type decodePart struct {
	sequence, keyHead, first, heads int
	at, end                         uint32
}

// partOf is the part of a block of the grid: blocks for up to most heads of Q along x, Parts along y, and sequences along z. lengths has how many rows
// each sequence has. All have Capacity where it is empty.
func partOf(t *gpu.Thread, s Decoding, most int, lengths []uint32) decodePart {
	p := decodePart{sequence: t.BlockZ(), keyHead: t.BlockX()}
	if blocks := (s.Group + most - 1) / most; blocks > 1 { // a block that need not divide begins sooner
		p.keyHead, p.first = t.BlockX()/blocks, t.BlockX()%blocks*most
	}
	p.heads = min(most, s.Group-p.first)
	p.first += p.keyHead * s.Group
	rows, part := uint32(s.Capacity), uint32(s.PartRows)
	if len(lengths) > 0 {
		rows = min(lengths[p.sequence], rows)
		step := uint32(DecodeRows * s.Parts)
		part = (rows + step - 1) / step * DecodeRows
	}
	p.at = part * uint32(t.BlockY())
	p.end = min(p.at+part, rows)
	return p
}

// Decode is for devices without the instructions of DecodeTensor. A group of lanes takes a row, 16 bytes of it each, and a block has as many groups as
// there are in DecodeThreads. Where there is one part, it writes out, and else results and partials, which are of part, head and sequence.
func Decode[T gpu.Half](t *gpu.Thread, s Decoding, out, q, keys, values []T, lengths []uint32, results []float32, partials []Partial) {
	part, lanes := partOf(t, s, DecodeHeads, lengths), wide
	for lanes*wide < s.Width {
		lanes *= 2
	}
	lane, group, groups := t.ThreadX()&(lanes-1), t.ThreadX()/lanes, DecodeThreads/lanes
	there := lane*wide < s.Width
	col := part.keyHead*s.Width + gpu.Select(there, lane*wide, 0)
	keys, values = keys[part.sequence*s.Capacity*s.PitchK+col:], values[part.sequence*s.Capacity*s.PitchV+col:]
	var query, acc [DecodeHeads][wide]float32
	var most, sum [DecodeHeads]float32
	for h := range DecodeHeads {
		most[h] = nothing
		if h < part.heads && there {
			for e, x := range gpu.View[[wide]T](q[part.sequence*s.PitchQ+(part.first+h)*s.Width+lane*wide:])[0] {
				query[h][e] = x.Float32() * s.Scale
			}
		}
	}
	step := uint32(groups)
	//purecuda:unroll 1
	for at := part.at; at < part.end; at += ahead * step { // all groups of a warp together
		row := at + uint32(group)
		k, v := decodeRows(keys, s.PitchK, row, part.end-1, step), decodeRows(values, s.PitchV, row, part.end-1, step)
		for h := range DecodeHeads {
			if h >= part.heads {
				continue
			}
			var x [ahead]float32
			for i := range ahead {
				for e := range wide {
					x[i] = gpu.FMA32(query[h][e], k[i][e].Float32(), x[i])
				}
			}
			//purecuda:unroll 1
			for d := 1; d < lanes; d *= 2 {
				for i := range ahead {
					x[i] += gpu.ShuffleXor(t, x[i], d)
				}
			}
			larger := most[h]
			for i := range ahead {
				x[i] = gpu.Select(row+uint32(i)*step < part.end, x[i], nothing)
				larger = max(larger, x[i])
			}
			less := gpu.FastExp2(most[h] - larger)
			most[h], sum[h] = larger, sum[h]*less
			for e := range wide {
				acc[h][e] *= less
			}
			for i := range ahead {
				y := gpu.Select(row+uint32(i)*step < part.end, gpu.FastExp2(x[i]-larger), 0)
				sum[h] += y
				for e := range wide {
					acc[h][e] = gpu.FMA32(y, v[i][e].Float32(), acc[h][e])
				}
			}
		}
	}
	room, says := gpu.Shared[[DecodeHeads * DecodeThreads][wide]float32](t), gpu.Shared[[DecodeHeads * DecodeThreads / wide]Partial](t)
	for h := range DecodeHeads {
		room[(h*groups+group)*lanes+lane] = acc[h]
		if lane == 0 {
			says[h*groups+group] = Partial{most[h], sum[h]}
		}
	}
	t.Barrier()
	gather(t, s, part, out, results, partials, says[:], gpu.View[[4]float32](room[:]), groups, DecodeThreads*wide/4, lanes*wide/4)
}

// decodeRows loads what a lane has of rows a step apart. Behind the last row it loads that once more: no load waits for a branch.
func decodeRows[T gpu.Half](x []T, pitch int, row, last, step uint32) (rows [ahead][wide]T) {
	for i := range ahead {
		rows[i] = gpu.View[[wide]T](x[int(min(row+uint32(i)*step, last))*pitch:])[0]
	}
	return rows
}
