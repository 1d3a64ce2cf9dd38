package tiles

import "github.com/purecuda/purecuda/gpu"

// Decoding: a block takes a part of the rows of keys and values that a sequence has, of one head of them, and up to four heads of Q. A group of
// lanes takes a row, 16 bytes of it each, and a block has as many groups as there are in DecodeThreads. Keys are loaded while the values before them
// are added up, and values while scores are computed. So a warp waits for memory only where all others do.

const (
	// DecodeThreads is the block of Decode, and DecodeRows is a number of rows that a part is a multiple of.
	DecodeThreads = 128
	DecodeRows    = 64

	ahead = 4 // rows of a group that are loaded at once
	wide  = 8 // elements of a lane
	share = 8 // lanes that share the scores of those rows: each has the powers of its own
)

// DecodeShared is the dynamic shared memory of a block for so many heads of Q.
func DecodeShared(heads int) int { return heads * DecodeThreads * (wide + 2) * 4 }

// DecodeLanes is how many lanes a row of so many columns takes.
func DecodeLanes(width int) (lanes int) {
	for lanes = share; lanes*wide < width; lanes *= 2 {
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
	col := keyHead*s.Width + gpu.Select(there, lane*wide, 0)
	keys, values = keys[sequence*s.Capacity*s.PitchK+col:], values[sequence*s.Capacity*s.PitchV+col:]
	var query, acc [4][wide]float32
	for h := range n {
		if h < heads && there {
			for e, x := range gpu.View[[wide]T](q[sequence*s.PitchQ+(first+h)*s.Width+lane*wide:])[0] {
				query[h][e] = x.Float32() * s.Scale
			}
		}
	}
	// Scores are numbered by head, then by row. This lane has those from own on, of one head.
	powers, most, sum := gpu.Shared[[4 * ahead * DecodeThreads / share]float32](t), float32(nothing), float32(0)
	own, count := lane%share*n*ahead/share, max(1, n*ahead/share)
	if at < end {
		row, last, step := int32(at+group), int32(end-1), int32(groups) // 32 bits take half the instructions
		k := decodeRows(keys, s.PitchK, row, last, step)
		//purecuda:unroll 1
		for pass := int32(end-at+ahead*groups-1) / (ahead * step); pass > 0; pass-- { // all groups of a warp together
			v := decodeRows(values, s.PitchV, row, last, step)
			var x [4 * ahead]float32
			for i := range ahead {
				for w := range wide / 2 {
					low, high := halves[T](k[i][w])
					for h := range n {
						x[h*ahead+i] = gpu.FMA32(query[h][2*w+1], high, gpu.FMA32(query[h][2*w], low, x[h*ahead+i]))
					}
				}
			}
			k = decodeRows(keys, s.PitchK, row+ahead*step, last, step)
			scatter(t, &x, n*ahead)
			//purecuda:unroll 1
			for d := share; d < lanes; d *= 2 {
				for i := range count {
					x[i] += gpu.ShuffleXor(t, x[i], d)
				}
			}
			larger := most
			for i := range count {
				x[i] = gpu.Select(row+int32((own+i)%ahead)*step <= last, x[i], nothing)
				larger = max(larger, x[i])
			}
			for d := max(1, share/(n*ahead)); d < share/n; d *= 2 {
				larger = max(larger, gpu.ShuffleXor(t, larger, d))
			}
			if gpu.Any(t, larger > most) {
				less := gpu.FastExp2(most - larger)
				most, sum = larger, sum*less
				for h := range n {
					l := gpu.Shuffle(t, less, t.Lane()&^(share-1)+h*share/n)
					for e := range wide {
						acc[h][e] *= l
					}
				}
			}
			gpu.WarpBarrier(t)
			for i := range count {
				p := gpu.Select(row+int32((own+i)%ahead)*step <= last, gpu.FastExp2(x[i]-most), 0)
				sum += p
				powers[t.ThreadX()/share*n*ahead+own+i] = p
			}
			gpu.WarpBarrier(t)
			for h := range n {
				p := gpu.View[[ahead]float32](powers[:])[t.ThreadX()/share*n+h]
				for i := range ahead {
					for w := range wide / 2 {
						low, high := halves[T](v[i][w])
						acc[h][2*w], acc[h][2*w+1] = gpu.FMA32(p[i], low, acc[h][2*w]), gpu.FMA32(p[i], high, acc[h][2*w+1])
					}
				}
			}
			row += ahead * step
		}
	}
	for d := max(1, share/(n*ahead)); d < share/n; d *= 2 {
		sum += gpu.ShuffleXor(t, sum, d)
	}
	room := gpu.DynamicShared[float32](t)
	says := gpu.View[Partial](room[n*DecodeThreads*wide:])
	for h := range n {
		gpu.View[[wide]float32](room)[(h*groups+group)*lanes+lane] = acc[h]
	}
	if lane < share && lane%(share/n) == 0 {
		says[lane*n/share*groups+group] = Partial{most, sum}
	}
	t.Barrier()
	quads := s.Width / 4
	for i := t.ThreadX(); i < heads*quads; i += DecodeThreads {
		h, col := i/quads, i%quads
		mine, p := says[h*groups:], Partial{Most: nothing}
		for g := range groups {
			p.Most = max(p.Most, mine[g].Most)
		}
		sum, v := merge(mine, gpu.View[[4]float32](room)[h*groups*lanes*wide/4+col:], 0, 1, groups, lanes*wide/4, p.Most)
		p.Sum = sum
		if s.Parts == 1 {
			over(out[sequence*s.PitchOut+(first+h)*s.Width:], col, p.Sum, v)
			continue
		}
		place := (sequence*s.Heads+first+h)*s.Parts + t.BlockX()
		gpu.View[[4]float32](results)[place*quads+col] = v
		if col == 0 {
			partials[place] = p
		}
	}
}

// decodeRows loads what a lane has of rows a step apart. Behind the last row it loads that once more: no load waits for a branch.
func decodeRows[T gpu.Half](x []T, pitch int, row, last, step int32) (words [ahead][wide / 2]uint32) {
	for i := range ahead {
		words[i] = gpu.View[[wide / 2]uint32](x[int(uint32(min(row+int32(i)*step, last)))*pitch:])[0]
	}
	return words
}

// halves are the numbers in a word.
func halves[T gpu.Half](word uint32) (low, high float32) {
	return gpu.FromBits[T](uint64(word & 0xffff)).Float32(), gpu.FromBits[T](uint64(word >> 16)).Float32()
}

// scatter adds up each of count numbers over the lanes that share them. Lane i of those gets the i-th part, at the begin of x.
func scatter(t *gpu.Thread, x *[4 * ahead]float32, count int) {
	for d := share / 2; d > 0; d /= 2 {
		half, upper := count*d/share, t.Lane()&d != 0
		if half == 0 { // each of two lanes has it
			x[0] += gpu.ShuffleXor(t, x[0], d)
		}
		for i := range half {
			given := gpu.Select(upper, x[i], x[half+i])
			x[i] = gpu.Select(upper, x[half+i], x[i]) + gpu.ShuffleXor(t, given, d)
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
