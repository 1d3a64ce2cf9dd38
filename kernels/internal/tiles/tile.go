package tiles

import (
	"math/bits"
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// A tile is what a block takes of the elements. Each lane has vectors of up to 16 bytes, 32 vectors apart, so that the warp
// reads and writes memory in its order. The elements of a thread are not next to each other; those of a vector are.

// TileThreads is the block of the kernels here that work by tiles.
const TileThreads = 256

// Vectors is how many vectors a thread takes, for elements of this size: a power of two, so that it divides what [padded] leaves together.
func Vectors(size uintptr) int { return 8 >> bits.Len64((uint64(min(size, 128))+15)/16-1) }

// Width is how many elements a vector has.
func Width(size uintptr) int { return max(1, min(4, 16/int(size))) }

// Tile is how many elements a tile has.
func Tile(size uintptr) int { return TileThreads * Vectors(size) * Width(size) }

// TileShared is how much dynamic shared memory a scan needs: at most 36 KiB. Threads with one vector exchange nothing.
func TileShared(size uintptr) int {
	if Vectors(size) == 1 {
		return 0
	}
	return padded(Tile(size)) * int(size)
}

// padded is where vector v of a tile lies in shared memory, with a gap behind each 8. Neither lanes with 32 vectors next to each other
// nor those that each have up to 8 wait for each other's banks. padded(v+32) is padded(v)+padded(32).
func padded(v int) int { return v + v>>3 }

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

// get is vector v in shared memory.
func get[T any](x []T, v int) (out [4]T) {
	switch Width(unsafe.Sizeof(out[0])) {
	case 4:
		out = gpu.View[[4]T](x)[v]
	case 2:
		two := gpu.View[[2]T](x)[v]
		out[0], out[1] = two[0], two[1]
	default:
		out[0] = x[v]
	}
	return out
}

// put is get's brother.
func put[T any](x []T, v int, in [4]T) {
	switch Width(unsafe.Sizeof(in[0])) {
	case 4:
		gpu.View[[4]T](x)[v] = in
	case 2:
		gpu.View[[2]T](x)[v] = [2]T{in[0], in[1]}
	default:
		x[v] = in[0]
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

// ask loads the words of a total, and heard says what they mean. In between a lane asks for others: loads whose words it does
// not look at yet are under way together.
func (s Totals[T]) ask(i int) (w gpu.Uint64x2) {
	var v T
	switch size := unsafe.Sizeof(v); {
	case size <= 4:
		w.X = gpu.AtomicLoad(&s.Words[i], gpu.Relaxed, gpu.DeviceScope)
	case size <= 8:
		w = gpu.AtomicLoadPair(&gpu.View[gpu.Uint64x2](s.Words)[i], gpu.DeviceScope)
	default:
		w.X = gpu.AtomicLoad(&s.Words[i], gpu.Acquire, gpu.DeviceScope)
	}
	return w
}

// heard gives the total of words that were asked for.
func (s Totals[T]) heard(i int, w gpu.Uint64x2) (v T, there bool) {
	switch size := unsafe.Sizeof(v); {
	case size <= 4:
		v, there = gpu.FromBits[T](w.X&(said-1)), w.X != 0
	case size <= 8:
		v, there = gpu.FromBits[T](w.Y<<32|w.X&(said-1)), w.X&w.Y >= said
	default:
		if there = w.X != 0; there {
			v = s.Values[i]
		}
	}
	return v, there
}

// get looks for a total.
func (s Totals[T]) get(i int) (v T, there bool) { return s.heard(i, s.ask(i)) }

// preceding gives lane 0 what all tiles before this one have. The tile has said its own total. One warp calls it. As a
// rule the totals of all levels are there.
func preceding[T any, O block.Op[T]](t *gpu.Thread, op O, s Totals[T], tiles, tile int, total T) T {
	lane := t.Lane()
	group, of := tile>>5, tile>>10
	ofTiles, ofGroups := tiles, tiles+(tiles+31)>>5
	// All is asked for before anything is heard: else one load would wait for another. lane == 0 && of > 0 would be a branch among them.
	needsU, needsV, needsW := lane < tile&31, lane < group&31, lane < min(of, 1)
	atU, atV, atW := group<<5+lane, ofTiles+of<<5+lane, ofGroups+of-1
	var askU, askV, askW gpu.Uint64x2
	if needsU {
		askU = s.ask(atU)
	}
	if needsV {
		askV = s.ask(atV)
	}
	if needsW {
		askW = s.ask(atW)
	}
	u, thereU := s.heard(atU, askU)
	v, thereV := s.heard(atV, askV)
	w, thereW := s.heard(atW, askW)
	u, v, w = gpu.Select(needsU, u, op.Zero()), gpu.Select(needsV, v, op.Zero()), gpu.Select(needsW, w, op.Zero())
	for needsU && !thereU {
		t.Nanosleep(32)
		u, thereU = s.get(atU)
	}
	u = block.WarpReduce(t, op, u)
	// A lane that has ended by a failed check of the operation leaves junk, which others must not take for a total.
	whole := gpu.Ballot(t, true) == ^uint32(0)
	if lane == 0 && tile&31 == 31 && whole {
		s.put(ofTiles+group, op.Combine(u, total))
	}
	for needsV && !thereV {
		t.Nanosleep(32)
		v, thereV = s.get(atV)
	}
	v = block.WarpReduce(t, op, v)
	for needsW && !thereW {
		t.Nanosleep(32)
		w, thereW = s.get(atW)
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
