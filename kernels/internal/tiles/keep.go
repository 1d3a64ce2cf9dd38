package tiles

import (
	"math/bits"
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// Rule says what Keep does with the elements of a tile. Looks and Parts are constants.
type Rule[T any] interface {
	// Keep reports whether v stays. before is the element before it, where Looks says that the rule needs it.
	Keep(before, v T) bool
	// Looks reports whether Keep looks at the element before. The first element stays then.
	Looks() bool
	// Parts reports whether what does not stay goes to the other output.
	Parts() bool
}

// Condition is the rule of a selection.
type Condition[T any, C interface{ Keep(v T) bool }] struct{ C C }

// Keep asks the condition.
func (r Condition[T, C]) Keep(_, v T) bool { return r.C.Keep(v) }

// Looks is false.
func (Condition[T, C]) Looks() bool { return false }

// Parts is false.
func (Condition[T, C]) Parts() bool { return false }

// Parting is the rule of a partition.
type Parting[T any, C interface{ Keep(v T) bool }] struct{ C C }

// Keep asks the condition.
func (r Parting[T, C]) Keep(_, v T) bool { return r.C.Keep(v) }

// Looks is false.
func (Parting[T, C]) Looks() bool { return false }

// Parts is true.
func (Parting[T, C]) Parts() bool { return true }

// Changing is the rule for the first element of each run of equal ones.
type Changing[T comparable] struct{}

// Keep reports whether a run begins.
func (Changing[T]) Keep(before, v T) bool { return before != v }

// Looks is true.
func (Changing[T]) Looks() bool { return true }

// Parts is false.
func (Changing[T]) Parts() bool { return false }

// KeepShared is how much shared memory Keep has beside the dynamic one.
const KeepShared = 160

// Keep moves what stays to the begin of out, in its order, and writes to count how many those are. Where the rule parts, the
// others go to the begin of rest. The dynamic shared memory has room for a tile. words are as those of Scan.
func Keep[T any, R Rule[T]](t *gpu.Thread, r R, wide bool, out, rest, in []T, count, words []uint64) {
	var x [8][4]T
	size := unsafe.Sizeof(x[0][0])
	if size <= 128 { // a thread has 32 registers of elements
		gpu.MinBlocksPerMultiprocessor(4)
	}
	warps := gpu.Shared[[32]uint32](t)
	prefix := gpu.Shared[uint64](t)
	number := gpu.Shared[uint32](t)
	buf := gpu.DynamicShared[T](t)
	tile := take(t, number, &words[0])
	var kept [8]uint32 // a bit for each of a vector that stays
	vectors, width := Vectors(size), Width(size)
	first := (tile*TileThreads+t.Warp()*32)*vectors + t.Lane()
	full := wide && (tile+1)*Tile(size) <= len(in)
	var zero T
	loadTile(&x, in, first, full, zero)
	var before [8]T // the element before the vector
	if r.Looks() {
		before = precede(t, in, first*width, &x, vectors, width)
	}
	if full {
		for k := range vectors {
			for j := range width {
				b := before[k]
				if j > 0 {
					b = x[k][j-1]
				}
				kept[k] |= gpu.Select[uint32](r.Keep(b, x[k][j]), 1<<j, 0)
			}
		}
	} else {
		for k := range vectors {
			for j := range width {
				b := before[k]
				if j > 0 {
					b = x[k][j-1]
				}
				if (first+k*32)*width+j < len(in) { // the rule is asked about elements only
					kept[k] |= gpu.Select[uint32](r.Keep(b, x[k][j]), 1<<j, 0)
				}
			}
		}
	}
	if r.Looks() && first == 0 && len(in) > 0 {
		kept[0] |= 1
	}
	// The counts of four vectors are in the bytes of a word: at most 128 each.
	var up [2]uint32
	for k := range vectors {
		up[k/4] |= uint32(bits.OnesCount32(kept[k])) << (k % 4 * 8)
	}
	for q := range (vectors + 3) / 4 {
		up[q] = block.WarpScan(t, block.Add[uint32]{}, up[q])
	}
	var below [8]uint32
	var carry uint32
	var all [2]uint32
	for q := range (vectors + 3) / 4 {
		all[q] = gpu.Shuffle(t, up[q], 31)
	}
	for k := range vectors {
		below[k] = carry + up[k/4]>>(k%4*8)&255 - uint32(bits.OnesCount32(kept[k]))
		carry += all[k/4] >> (k % 4 * 8) & 255
	}
	if t.Lane() == 0 {
		warps[t.Warp()] = carry
	}
	t.Barrier()
	var own, total uint32 // as of amongWarps, with fewer conversions
	for w := range TileThreads / 32 {
		own = gpu.Select(w == t.Warp(), total, own)
		total += warps[w]
	}
	says := Totals[uint64]{Words: words[Words:]}
	if t.ThreadX() == 0 {
		says.put(tile, uint64(total))
	}
	for k := range vectors {
		at := own + below[k]
		for j := range width {
			if kept[k]>>j&1 != 0 {
				buf[at] = x[k][j]
				at++
			} else if r.Parts() {
				// Before it in the tile are those that stay, and those that do not.
				buf[total+uint32((first-tile*TileThreads*vectors+k*32)*width+j)-at] = x[k][j]
			}
		}
	}
	if t.Warp() == 0 {
		p := preceding(t, block.Add[uint64]{}, says, t.GridDimX(), tile, uint64(total))
		if t.Lane() == 0 {
			*prefix = p
			if tile == t.GridDimX()-1 {
				count[0] = p + uint64(total)
			}
		}
	}
	t.Barrier()
	to := out[*prefix:]
	for i := uint32(t.ThreadX()); i < total; i += TileThreads {
		to[i] = buf[i]
	}
	if r.Parts() {
		begin := tile * Tile(size)
		other := rest[begin-int(*prefix):]
		for i := t.ThreadX(); i < min(Tile(size), len(in)-begin)-int(total); i += TileThreads {
			other[i] = buf[int(total)+i]
		}
	}
}

// precede gives the element before each vector of a lane, whose first element has index i. There is none before the first.
func precede[T any](t *gpu.Thread, in []T, i int, x *[8][4]T, vectors, width int) (before [8]T) {
	if t.Lane() == 0 && i > 0 && i <= len(in) {
		before[0] = in[i-1]
	}
	for k := range vectors {
		last := x[k][width-1]
		up := gpu.ShuffleUp(t, last, 1)
		if t.Lane() > 0 {
			before[k] = up
		}
		if k+1 < vectors {
			end := gpu.Shuffle(t, last, 31)
			if t.Lane() == 0 {
				before[k+1] = end
			}
		}
	}
	return before
}
