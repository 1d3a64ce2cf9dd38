package tiles

import (
	"math/bits"
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// Runs are elements next to each other with equal keys. Here the elements of a thread are next to each other too: a run that
// ends in a thread needs no other one.

const runItems = 16

// runCount is how many elements of this size a thread has, a power of two.
func runCount(size uintptr) int { return runItems >> bits.Len64((uint64(min(size, 64))+3)/4-1) }

// RunTile is how many elements a tile has, for keys and values of these sizes.
func RunTile(key, value uintptr) int { return TileThreads * runCount(max(key, value)) }

// RunShared is how much dynamic shared memory a tile needs, at most 36 KiB.
func RunShared(key, value uintptr) int { return runRoom(max(key, value)) * int(key+value) }

// runRoom is how many keys shared memory has room for, and how many values behind them. Threads with one element exchange nothing.
func runRoom(size uintptr) int {
	if runCount(size) == 1 {
		return 0
	}
	return padded(TileThreads * runCount(size))
}

// Open is what tiles say to each other: how many runs have ended, and what the one that has not has so far.
type Open[V any] struct {
	Ended uint32
	Value V
}

// following is the operation of Open.
type following[V any, O block.Op[V]] struct{ op O }

func (f following[V, O]) Zero() Open[V] { return Open[V]{0, f.op.Zero()} }

func (f following[V, O]) Combine(a, b Open[V]) Open[V] {
	return Open[V]{a.Ended + b.Ended, f.op.Combine(gpu.Select(b.Ended > 0, f.op.Zero(), a.Value), b.Value)}
}

// Source is where the values of ByKey come from.
type Source[V any] interface {
	At(i int) V
	// Memory is the slice that has them. there is a constant: where it is false, all are the same, and At takes any index.
	Memory() (x []V, there bool)
}

// Values are those of a slice.
type Values[V any] struct{ V []V }

// At is element i.
func (s Values[V]) At(i int) V { return s.V[i] }

// Memory is the slice.
func (s Values[V]) Memory() ([]V, bool) { return s.V, true }

// Ones counts.
type Ones struct{}

// At is 1.
func (Ones) At(int) uint32 { return 1 }

// Memory is none.
func (Ones) Memory() ([]uint32, bool) { return nil, false }

// exchanged reports whether elements of a full tile go through shared memory, where a thread has so many. Else one element is all,
// or less than a vector.
func exchanged(size uintptr, items int) bool { return items > 1 && items >= Width(size) }

// bring loads a part of a full tile, each warp in the order of memory, and puts it where fetch finds it behind a barrier.
func bring[T any](t *gpu.Thread, buf, x []T, tile, items int) {
	var zero T
	if exchanged(unsafe.Sizeof(zero), items) {
		each := items / Width(unsafe.Sizeof(zero))
		first := t.Warp()*32*each + t.Lane()
		for k := range each {
			put(buf, padded(first)+k*padded(32), load(x, tile*TileThreads*each+first+k*32))
		}
	}
}

// fetch gives a thread its elements, which are next to each other from x[base] on.
func fetch[T any](t *gpu.Thread, out *[runItems]T, buf, x []T, base, items int) {
	if width := Width(unsafe.Sizeof(out[0])); exchanged(unsafe.Sizeof(out[0]), items) {
		for k := range items / width {
			vector := get(buf, padded(t.ThreadX()*(items/width))+k)
			for j := range width {
				out[k*width+j] = vector[j]
			}
		}
	} else {
		for i := range items {
			out[i] = x[base+i]
		}
	}
}

// ByKey combines the values of each run. It writes the last key of each run to outKeys, the results to outValues, and
// how many runs there are to count. wide says that keys and values begin at a multiple of 16 bytes. words and values are as
// those of Scan, for Open[V]. The dynamic shared memory is RunShared.
func ByKey[K comparable, V any, O block.Op[V], S Source[V]](t *gpu.Thread, op O, in S, wide bool, outKeys []K, outValues []V, keys []K, count, words []uint64, values []Open[V]) {
	var x [runItems]K
	var v [runItems]V
	size := max(unsafe.Sizeof(x[0]), unsafe.Sizeof(v[0]))
	if size <= 4 {
		gpu.MinBlocksPerMultiprocessor(5) // a few registers go to memory, and more tiles are on their way
	} else if size <= 32 {
		gpu.MinBlocksPerMultiprocessor(4)
	}
	warps := gpu.Shared[[32]Open[V]](t)
	prefix := gpu.Shared[Open[V]](t)
	number := gpu.Shared[uint32](t)
	f := following[V, O]{op}
	tile := take(t, number, &words[0])
	items := runCount(size)
	bufKeys := gpu.DynamicShared[K](t)
	bufValues := gpu.View[V](gpu.DynamicShared[byte](t)[runRoom(size)*int(unsafe.Sizeof(x[0])):])
	base := (tile*TileThreads + t.ThreadX()) * items
	full := wide && (tile+1)*TileThreads*items < len(keys) // there is one more
	memory, there := in.Memory()
	var ends uint32 // a bit for each last element of a run
	if full {
		bring(t, bufKeys, keys, tile, items)
		if there {
			bring(t, bufValues, memory, tile, items)
		}
		var next K // the key after the last one
		if t.Lane() == 31 {
			next = keys[base+items]
		}
		t.Barrier()
		fetch(t, &x, bufKeys, keys, base, items)
		if there {
			fetch(t, &v, bufValues, memory, base, items)
		} else {
			for i := range items {
				v[i] = in.At(base + i)
			}
		}
		next = gpu.Select(t.Lane() == 31, next, gpu.ShuffleDown(t, x[0], 1))
		for i := range items {
			after := next
			if i+1 < items {
				after = x[i+1]
			}
			ends |= gpu.Select[uint32](x[i] != after, 1<<i, 0)
		}
	} else {
		for i := range items {
			v[i] = op.Zero()
			if base+i < len(keys) || !there { // a constant holds no register
				v[i] = in.At(base + i)
			}
			if base+i < len(keys) {
				x[i] = keys[base+i]
				if base+i+1 == len(keys) || keys[base+i+1] != x[i] {
					ends |= 1 << i
				}
			}
		}
	}
	up := f.Zero() // what the thread leaves
	for i := range items {
		up.Value = gpu.Select(ends>>i&1 != 0, op.Zero(), op.Combine(up.Value, v[i]))
	}
	up.Ended = uint32(bits.OnesCount32(ends))
	up = block.WarpScan(t, f, up)
	below := gpu.Select(t.Lane() == 0, f.Zero(), gpu.ShuffleUp(t, up, 1))
	if t.Lane() == 31 {
		warps[t.Warp()] = up
	}
	t.Barrier()
	before, total := amongWarps(t, f, warps)
	says := Totals[Open[V]]{words[Words:], values}
	if t.ThreadX() == 0 {
		says.put(tile, total)
	}
	below = f.Combine(before, below)
	// What ends goes through shared memory before the look-back, so that it holds no registers, and is written in order.
	at, run := below.Ended, below.Value
	for i := range items {
		run = op.Combine(run, v[i])
		if items > 1 && ends>>i&1 != 0 {
			bufKeys[at], bufValues[at] = x[i], run
			at++
			run = op.Zero()
		}
	}
	if t.Warp() == 0 {
		p := preceding(t, f, says, t.GridDimX(), tile, total)
		if t.Lane() == 0 {
			*prefix = p
			if tile == t.GridDimX()-1 {
				count[0] = uint64(p.Ended + total.Ended)
			}
		}
	}
	t.Barrier()
	first, end := uint32(t.ThreadX()), total.Ended
	if items == 1 { // the thread writes its own
		first, end = below.Ended, below.Ended+ends
	}
	to := prefix.Ended
	for i := first; i < end; i += TileThreads {
		key, value := x[0], run
		if items > 1 {
			key, value = bufKeys[i], bufValues[i]
		}
		if i == 0 { // only the first run may have begun before the tile
			value = op.Combine(prefix.Value, value)
		}
		outKeys[to+i], outValues[to+i] = key, value
	}
}
