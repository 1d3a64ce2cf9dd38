package tiles

import (
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// A tile is what a block takes of the elements. Each lane has vectors of up to 16 bytes, 32 vectors apart, so that the warp
// reads and writes memory in its order. The elements of a thread are not next to each other; those of a vector are.

// TileThreads is the block of the kernels here that work by tiles.
const TileThreads = 256

// Vectors is how many vectors a thread takes, for elements of this size.
func Vectors(size uintptr) int { return max(1, min(8, 128/int(size))) }

// Width is how many elements a vector has.
func Width(size uintptr) int { return max(1, min(4, 16/int(size))) }

// Tile is how many elements a tile has.
func Tile(size uintptr) int { return TileThreads * Vectors(size) * Width(size) }

// load is a vector of x.
func load[T any](x []T, v int) (out [4]T) {
	switch Width(unsafe.Sizeof(out[0])) {
	case 4:
		out = gpu.LoadStreaming(&gpu.View[[4]T](x)[v])
	case 2:
		two := gpu.LoadStreaming(&gpu.View[[2]T](x)[v])
		out[0], out[1] = two[0], two[1]
	default:
		out[0] = gpu.LoadStreaming(&x[v])
	}
	return out
}

// store is load's brother.
func store[T any](x []T, v int, in [4]T) {
	switch Width(unsafe.Sizeof(in[0])) {
	case 4:
		gpu.StoreStreaming(&gpu.View[[4]T](x)[v], in)
	case 2:
		gpu.StoreStreaming(&gpu.View[[2]T](x)[v], [2]T{in[0], in[1]})
	default:
		gpu.StoreStreaming(&x[v], in[0])
	}
}

// loadTile gives a lane its vectors of a tile, from number first on. full says that all elements are there; else fill stands for others.
func loadTile[T any](x *[8][4]T, in []T, first int, full bool, fill T) {
	vectors, width := Vectors(unsafe.Sizeof(fill)), Width(unsafe.Sizeof(fill))
	if full {
		for k := range vectors {
			x[k] = load(in, first+k*32)
		}
	} else {
		for k := range vectors {
			for j := range width {
				x[k][j] = fill
				if i := (first+k*32)*width + j; i < len(in) {
					x[k][j] = in[i]
				}
			}
		}
	}
}

// amongWarps gives what the warps before this one have, and what all have. warps has what each has, and a barrier is behind that.
func amongWarps[T any, O block.Op[T]](t *gpu.Thread, op O, warps *[32]T) (own, total T) {
	own, total = op.Zero(), op.Zero()
	for w := range TileThreads / 32 {
		own = gpu.Select(w == t.Warp(), total, own)
		total = op.Combine(total, warps[w])
	}
	return own, total
}

// Totals is what tiles say to each other. There is a total of each tile, and one of each group of 32 tiles. The third kind is
// that of all up to and with each 32 groups. Each has a word, or two words where it has 8 bytes. A word has 1 in its upper half, and 32
// bits of the total in its lower one: it is not there yet, or all of it is. A larger total is in Values, and its word is
// set after it. All words begin with 0. The order in which totals are combined is the same in each run.
type Totals[T any] struct {
	Words  []uint64
	Values []T
}

// TotalsLen is how many totals there are for so many tiles.
func TotalsLen(tiles int) int { return tiles + (tiles+31)/32 + (tiles+1023)/1024 }

// TotalWords is how many words a total has.
func TotalWords(size uintptr) int {
	if size > 4 && size <= 8 {
		return 2
	}
	return 1
}

// Words is how many words are before those of the totals. The first one is the counter of tiles.
const Words = 2

// Clear sets words to 0. As a kernel it takes less time before another one than a node that clears memory.
func Clear[W uint32 | uint64](t *gpu.Thread, words []W) {
	for i := t.GlobalX(); i < len(words); i += t.GlobalDimX() {
		words[i] = 0
	}
}

const said = 1 << 32

func (s Totals[T]) put(i int, v T) {
	size := unsafe.Sizeof(v)
	switch {
	case size <= 4:
		gpu.AtomicStore(&s.Words[i], said|gpu.Bits(v), gpu.Relaxed, gpu.DeviceScope)
	case size <= 8:
		b := gpu.Bits(v)
		gpu.AtomicStorePair(&gpu.View[gpu.Uint64x2](s.Words)[i], gpu.Uint64x2{X: said | b&(said-1), Y: said | b>>32}, gpu.DeviceScope)
	default:
		s.Values[i] = v
		gpu.AtomicStore(&s.Words[i], said, gpu.Release, gpu.DeviceScope)
	}
}

// get looks for a total.
func (s Totals[T]) get(i int) (v T, there bool) {
	size := unsafe.Sizeof(v)
	switch {
	case size <= 4:
		w := gpu.AtomicLoad(&s.Words[i], gpu.Relaxed, gpu.DeviceScope)
		v, there = gpu.FromBits[T](w&(said-1)), w != 0
	case size <= 8:
		p := gpu.AtomicLoadPair(&gpu.View[gpu.Uint64x2](s.Words)[i], gpu.DeviceScope)
		a, b := p.X, p.Y
		v, there = gpu.FromBits[T](b<<32|a&(said-1)), a != 0 && b != 0
	default:
		if there = gpu.AtomicLoad(&s.Words[i], gpu.Acquire, gpu.DeviceScope) != 0; there {
			v = s.Values[i]
		}
	}
	return v, there
}

// seek is get where a lane needs the total, and Zero else.
func seek[T any, O block.Op[T]](op O, s Totals[T], needs bool, i int) (v T, there bool) {
	v, there = op.Zero(), true
	if needs {
		v, there = s.get(i)
	}
	return v, there
}

// preceding gives lane 0 what all tiles before this one have. The tile has said its own total. One warp calls it. The totals of
// all levels are asked for at once: as a rule all are there.
func preceding[T any, O block.Op[T]](t *gpu.Thread, op O, s Totals[T], tiles, tile int, total T) T {
	lane := t.Lane()
	group, of := tile>>5, tile>>10
	ofTiles, ofGroups := tiles, tiles+(tiles+31)>>5
	u, thereU := seek(op, s, lane < tile&31, group<<5+lane)
	v, thereV := seek(op, s, lane < group&31, ofTiles+of<<5+lane)
	w, thereW := seek(op, s, lane == 0 && of > 0, ofGroups+of-1)
	for !thereU {
		t.Nanosleep(32)
		u, thereU = s.get(group<<5 + lane)
	}
	u = block.WarpReduce(t, op, u)
	// A lane that has ended by a failed check of the operation leaves junk, which others must not take for a total.
	whole := gpu.Ballot(t, true) == ^uint32(0)
	if lane == 0 && tile&31 == 31 && whole {
		s.put(ofTiles+group, op.Combine(u, total))
	}
	for !thereV {
		t.Nanosleep(32)
		v, thereV = s.get(ofTiles + of<<5 + lane)
	}
	v = block.WarpReduce(t, op, v)
	for !thereW {
		t.Nanosleep(32)
		w, thereW = s.get(ofGroups + of - 1)
	}
	u = op.Combine(op.Combine(w, v), u)
	whole = gpu.Ballot(t, true) == ^uint32(0)
	if lane == 0 && tile&1023 == 1023 && whole {
		s.put(ofGroups+of, op.Combine(u, total))
	}
	return u
}

// take takes the next tile: the blocks of all smaller ones have begun.
func take(t *gpu.Thread, number *uint32, counter *uint64) int {
	if t.ThreadX() == 0 {
		*number = uint32(gpu.AtomicAdd(counter, 1))
	}
	t.Barrier()
	return int(*number)
}
