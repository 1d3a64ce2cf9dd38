package testlanguage

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// Triple has 12 bytes.
type Triple struct{ A, B, C uint32 }

// Arrange loads what belongs to a block, and stores it as it was and exchanged.
//
//purecuda:kernel T=uint8,float64,Triple
func Arrange[T uint8 | float64 | Triple](t *gpu.Thread, out, exchanged, in []T, places []uint32) {
	const items = 7
	buf := gpu.Shared[[64 * items]T](t)
	var to [items]uint32
	words := gpu.Shared[[64 * items]uint32](t)
	from := t.BlockX() * len(buf)
	for range 2 { // the second time in the same shared memory
		var x [items]T
		block.Load(t, buf[:], in[min(from, len(in)):], x[:])
		block.Store(t, buf[:], out[min(from, len(out)):], x[:])
		block.Load(t, words[:], places[min(from, len(places)):], to[:])
		block.Exchange(t, buf[:], x[:], to[:])
		for i := range items {
			if at := from + t.ThreadX()*items + i; at < len(exchanged) {
				exchanged[at] = x[i]
			}
		}
		t.Barrier()
	}
}

// Counts counts bytes.
//
//purecuda:kernel
func Counts(t *gpu.Thread, counts []uint32, data []uint8) {
	memory := gpu.Shared[[256 * 8]uint32](t)
	for range 2 {
		h := block.NewHistogram(t, memory[:], 8)
		for i := t.GlobalX(); i < len(data); i += t.GlobalDimX() {
			h.Count(int(data[i]))
		}
		t.Barrier()
		for b := t.ThreadX(); b < 256; b += t.BlockDimX() {
			gpu.AtomicAdd(&counts[b], h.Of(b))
		}
		t.Barrier()
	}
}

// Runs finds the runs of what belongs to each block.
//
//purecuda:kernel T=int16,Triple
func Runs[T int16 | Triple](t *gpu.Thread, values []T, lengths, counts []uint32, in []T) {
	const room = 500
	x := gpu.Shared[[room]T](t)
	found, long := gpu.Shared[[room]T](t), gpu.Shared[[room]uint32](t)
	from := t.BlockX() * room
	n := min(room, len(in)-from)
	for range 2 {
		for i := t.ThreadX(); i < n; i += t.BlockDimX() {
			x[i] = in[from+i]
		}
		runs := block.RunLengths(t, x[:n], found[:], long[:])
		for i := t.ThreadX(); i < runs; i += t.BlockDimX() {
			values[from+i], lengths[from+i] = found[i], long[i]
		}
		if t.ThreadX() == 0 {
			counts[t.BlockX()] = uint32(runs)
		}
	}
}

// byA leaves many equal.
type byA struct{ descending bool }

func (o byA) Less(a, b Triple) bool { return (a.A < b.A) != o.descending && a.A != b.A }

// Best takes the first ones of many.
//
//purecuda:kernel
func Best(t *gpu.Thread, out, in []Triple, descending bool, k int) {
	const room = 64 * 5 // what SortItems says about 12 bytes
	x := gpu.Shared[[room]Triple](t)
	best := 0
	for from := 0; from < len(in); {
		n := min(room-best, len(in)-from, 30+from) // few at first
		for i := t.ThreadX(); i < n; i += t.BlockDimX() {
			x[best+i] = in[from+i]
		}
		best = block.TopK(t, byA{descending}, x[:best+n], best, k)
		from += n
	}
	for i := t.ThreadX(); i < min(best, len(out)); i += t.BlockDimX() {
		out[i] = x[i]
	}
}
