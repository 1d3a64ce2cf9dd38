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

// RunShared is how much dynamic shared memory a tile needs.
func RunShared(key, value uintptr) int { return RunTile(key, value) * int(max(key, value)) }

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
	// Vector is the values of a vector of so many, where they are aligned.
	Vector(v int) [4]V
}

// Values are those of a slice.
type Values[V any] struct{ V []V }

// At is element i.
func (s Values[V]) At(i int) V { return s.V[i] }

// Vector loads a vector.
func (s Values[V]) Vector(v int) [4]V { return load(s.V, v) }

// Ones counts.
type Ones struct{}

// At is 1.
func (Ones) At(int) uint32 { return 1 }

// Vector is 1, 1, 1 and 1.
func (Ones) Vector(int) [4]uint32 { return [4]uint32{1, 1, 1, 1} }

// ByKey combines the values of each run. It writes the last key of each run to outKeys, the results to outValues, and
// how many runs there are to count. wide says that keys and values begin at a multiple of 16 bytes. words and values are as
// those of Scan, for Open[V]. The dynamic shared memory is RunShared.
func ByKey[K comparable, V any, O block.Op[V], S Source[V]](t *gpu.Thread, op O, in S, wide bool, outKeys []K, outValues []V, keys []K, count, words []uint64, values []Open[V]) {
	warps := gpu.Shared[[32]Open[V]](t)
	prefix := gpu.Shared[Open[V]](t)
	number := gpu.Shared[uint32](t)
	f := following[V, O]{op}
	tile := take(t, number, &words[0])
	var x [runItems]K
	var v [runItems]V
	items := runCount(max(unsafe.Sizeof(x[0]), unsafe.Sizeof(v[0])))
	base := (tile*TileThreads + t.ThreadX()) * items
	full := wide && (tile+1)*TileThreads*items < len(keys) // there is one more
	var next K                                             // the key after the last one
	var ends uint32                                        // a bit for each last element of a run
	if full {
		if w := Width(unsafe.Sizeof(x[0])); items >= w {
			for k := range items / w {
				vector := load(keys, base/w+k)
				for j := range w {
					x[k*w+j] = vector[j]
				}
			}
		} else {
			for i := range items {
				x[i] = keys[base+i]
			}
		}
		if w := Width(unsafe.Sizeof(v[0])); items >= w {
			for k := range items / w {
				vector := in.Vector(base/w + k)
				for j := range w {
					v[k*w+j] = vector[j]
				}
			}
		} else {
			for i := range items {
				v[i] = in.At(base + i)
			}
		}
		next = gpu.ShuffleDown(t, x[0], 1)
		if t.Lane() == 31 {
			next = keys[base+items]
		}
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
			if base+i < len(keys) {
				x[i], v[i] = keys[base+i], in.At(base+i)
				if base+i+1 == len(keys) || keys[base+i+1] != x[i] {
					ends |= 1 << i
				}
			}
		}
	}
	up := f.Zero() // what the thread leaves
	for i := range items {
		v[i] = op.Combine(up.Value, v[i]) // of the run, as far as the thread has it
		up.Value = gpu.Select(ends>>i&1 != 0, op.Zero(), v[i])
	}
	up.Ended = uint32(bits.OnesCount32(ends))
	up = block.WarpScan(t, f, up)
	below := gpu.Select(t.Lane() == 0, f.Zero(), gpu.ShuffleUp(t, up, 1))
	if t.Lane() == 31 {
		warps[t.Warp()] = up
	}
	t.Barrier()
	own, total := amongWarps(t, f, warps)
	if t.Warp() == 0 {
		s := Totals[Open[V]]{words[Words:], values}
		if t.Lane() == 0 {
			s.put(tile, total)
		}
		p := preceding(t, f, s, t.GridDimX(), tile, total)
		if t.Lane() == 0 {
			*prefix = p
			if tile == t.GridDimX()-1 {
				count[0] = uint64(p.Ended + total.Ended)
			}
		}
	}
	below = f.Combine(own, below)
	// Both go through shared memory, so that each is written in order. The keys go first: they need no look back.
	bufKeys := gpu.DynamicShared[K](t)
	at := below.Ended
	for i := range items {
		if ends>>i&1 != 0 {
			bufKeys[at] = x[i]
			at++
		}
	}
	t.Barrier()
	before := *prefix
	for i := uint32(t.ThreadX()); i < total.Ended; i += TileThreads {
		outKeys[before.Ended+i] = bufKeys[i]
	}
	t.Barrier()
	bufValues := gpu.DynamicShared[V](t)
	open := f.Combine(before, below).Value // of the first run that ends in the thread
	at = below.Ended
	for i := range items {
		if ends>>i&1 != 0 {
			if at == below.Ended {
				v[i] = op.Combine(open, v[i])
			}
			bufValues[at] = v[i]
			at++
		}
	}
	t.Barrier()
	for i := uint32(t.ThreadX()); i < total.Ended; i += TileThreads {
		outValues[before.Ended+i] = bufValues[i]
	}
}
