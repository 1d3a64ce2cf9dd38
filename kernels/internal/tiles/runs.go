package tiles

import (
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// Runs are elements next to each other with equal keys. Each thread has runVectors vectors of keys, as in Scan.

const runVectors = 4

// runWidth is how many elements a vector has: that of the larger of both.
func runWidth(key, value uintptr) int { return Width(max(key, value)) }

// RunTile is how many elements a tile has, for keys and values of these sizes.
func RunTile(key, value uintptr) int { return TileThreads * runVectors * runWidth(key, value) }

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
	return Open[V]{a.Ended + b.Ended, gpu.Select(b.Ended > 0, b.Value, f.op.Combine(a.Value, b.Value))}
}

// Source is where the values of ByKey come from.
type Source[V any] interface{ At(i int) V }

// Values are those of a slice.
type Values[V any] struct{ V []V }

// At is element i.
func (s Values[V]) At(i int) V { return s.V[i] }

// Ones counts.
type Ones struct{}

// At is 1.
func (Ones) At(int) uint32 { return 1 }

// ByKey combines the values of each run. It writes the last key of each run to outKeys, the results to outValues, and
// how many runs there are to count. wide says that keys begin at a multiple of 16 bytes. words and values are as those of Scan,
// for Open[V].
func ByKey[K comparable, V any, O block.Op[V], S Source[V]](t *gpu.Thread, op O, in S, wide bool, outKeys []K, outValues []V, keys []K, count, words []uint64, values []Open[V]) {
	warps := gpu.Shared[[32]Open[V]](t)
	prefix := gpu.Shared[Open[V]](t)
	number := gpu.Shared[uint32](t)
	f := following[V, O]{op}
	tile := take(t, number, &words[0])
	var x [runVectors][4]K
	var v [runVectors][4]V
	var key K
	var val V
	size := max(unsafe.Sizeof(key), unsafe.Sizeof(val))
	width := Width(size)
	first := (tile*TileThreads+t.Warp()*32)*runVectors + t.Lane()
	full := wide && (tile+1)*TileThreads*runVectors*width <= len(keys)
	if full && width == Width(unsafe.Sizeof(key)) {
		for k := range runVectors {
			x[k] = load(keys, first+k*32)
		}
	} else {
		for k := range runVectors {
			for j := range width {
				if i := (first+k*32)*width + j; i < len(keys) {
					x[k][j] = keys[i]
				}
			}
		}
	}
	for k := range runVectors {
		for j := range width {
			v[k][j] = op.Zero()
			if i := (first+k*32)*width + j; full || i < len(keys) {
				v[k][j] = in.At(i)
			}
		}
	}
	// The key after a vector is that of the next lane. A run ends where the next key is another one.
	var ends [runVectors]uint32
	for k := range runVectors {
		next := gpu.ShuffleDown(t, x[k][0], 1)
		if t.Lane() == 31 {
			if i := (first + k*32 + 1) * width; i < len(keys) {
				next = keys[i]
			}
		}
		for j := range width {
			after := next
			if j+1 < width {
				after = x[k][j+1]
			}
			i := (first+k*32)*width + j
			end := i == len(keys)-1 || i < len(keys) && x[k][j] != after
			ends[k] |= gpu.Select[uint32](end, 1<<j, 0)
		}
	}
	var up [runVectors]Open[V] // what the vector leaves
	for k := range runVectors {
		up[k] = f.Zero()
		for j := range width {
			end := ends[k]>>j&1 != 0
			sum := op.Combine(up[k].Value, v[k][j])
			v[k][j] = sum // of the run, as far as the vector has it
			up[k].Value = gpu.Select(end, op.Zero(), sum)
			up[k].Ended += gpu.Select[uint32](end, 1, 0)
		}
	}
	for d := 1; d < 32; d *= 2 {
		for k := range runVectors {
			up[k] = gpu.Select(t.Lane() >= d, f.Combine(gpu.ShuffleUp(t, up[k], d), up[k]), up[k])
		}
	}
	var below [runVectors]Open[V] // what is before the vector, in the warp
	carry := f.Zero()
	for k := range runVectors {
		u := gpu.Select(t.Lane() == 0, f.Zero(), gpu.ShuffleUp(t, up[k], 1))
		below[k] = f.Combine(carry, u)
		carry = f.Combine(carry, gpu.Shuffle(t, up[k], 31))
	}
	if t.Lane() == 0 {
		warps[t.Warp()] = carry
	}
	t.Barrier()
	own, total := f.Zero(), f.Zero()
	for w := range TileThreads / 32 {
		own = gpu.Select(w == t.Warp(), total, own)
		total = f.Combine(total, warps[w])
	}
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
	t.Barrier()
	// Both go through shared memory, so that each is written in order.
	before := *prefix
	bufValues, bufKeys := gpu.DynamicShared[V](t), gpu.DynamicShared[K](t)
	for k := range runVectors {
		b := f.Combine(own, below[k])
		open := gpu.Select(b.Ended > 0, b.Value, op.Combine(before.Value, b.Value))
		at := b.Ended
		for j := range width {
			if ends[k]>>j&1 != 0 {
				bufValues[at] = gpu.Select(at == b.Ended, op.Combine(open, v[k][j]), v[k][j])
				at++
			}
		}
	}
	t.Barrier()
	for i := uint32(t.ThreadX()); i < total.Ended; i += TileThreads {
		outValues[before.Ended+i] = bufValues[i]
	}
	t.Barrier()
	for k := range runVectors {
		at := f.Combine(own, below[k]).Ended
		for j := range width {
			if ends[k]>>j&1 != 0 {
				bufKeys[at] = x[k][j]
				at++
			}
		}
	}
	t.Barrier()
	for i := uint32(t.ThreadX()); i < total.Ended; i += TileThreads {
		outKeys[before.Ended+i] = bufKeys[i]
	}
}
