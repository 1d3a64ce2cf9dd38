//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// Decode is attention of one row of Q for each sequence, over a cache of its keys and values: what a model does for each token that it writes.
// A line makes one for a type:
//
//	//purecuda:instantiate kernels.Decode[gpu.BFloat16]
//
// With gpuc -arch sm_80 it runs on tensor cores, and reads the cache once for up to eight heads that share keys. Then infinite values in V give NaN. In K they do where the width is none of 64, 128 and 256.
// Without, it runs on all devices, slower and for four heads. Sums are float32. Their order depends on the shapes and the lengths alone, so the bits
// are the same in each run on one kind of device. [DecodeCPU] does it on the CPU. It is safe for concurrent use, each goroutine with a stream and
// scratch memory of its own.
type Decode[T gpu.Half] struct{ primitive }

// Of is called by what gpuc writes.
func (Decode[T]) Of(k *launch.Kernels, first int) Decode[T] { return Decode[T]{primitive{k, first}} }

//purecuda:kernel block=128 checks=off
func (Decode[T]) kernelRows(t *gpu.Thread, s tiles.Decoding, out, q, keys, values []T, lengths []uint32, results []float32, partials []tiles.Partial) {
	tiles.Decode(t, s, out, q, keys, values, lengths, results, partials)
}

//purecuda:kernel checks=off registers=64
func (Decode[T]) kernelMerge(t *gpu.Thread, s tiles.Decoding, out []T, results []float32, partials []tiles.Partial) {
	tiles.Merge(t, s, out, results, partials)
}

//purecuda:kernel block=128 checks=off arch=sm_80
func (Decode[T]) kernelWidth64(t *gpu.Thread, s tiles.Decoding, out, q, keys, values []T, lengths []uint32, results []float32, partials []tiles.Partial) {
	tiles.DecodeTensor(t, 64, s, out, q, keys, values, lengths, results, partials)
}

//purecuda:kernel block=128 checks=off arch=sm_80
func (Decode[T]) kernelWidth128(t *gpu.Thread, s tiles.Decoding, out, q, keys, values []T, lengths []uint32, results []float32, partials []tiles.Partial) {
	tiles.DecodeTensor(t, 128, s, out, q, keys, values, lengths, results, partials)
}

//purecuda:kernel block=64 checks=off arch=sm_80
func (Decode[T]) kernelWidth256(t *gpu.Thread, s tiles.Decoding, out, q, keys, values []T, lengths []uint32, results []float32, partials []tiles.Partial) {
	tiles.DecodeTensor(t, 256, s, out, q, keys, values, lengths, results, partials)
}

// decodeParts divides the rows of a cache, so that there are up to 256 blocks: an H200 is busy with them, and more parts take longer to merge.
// It does not ask the device, so that all of a kind have the same order, nor which kernel runs, so that Scratch need not.
func decodeParts(sequences, capacity int, h Heads) (parts, rows int) {
	const blocks = 256
	each := sequences * h.Keys * ceil(h.Heads/h.Keys, tiles.DecodeTensorHeads)
	parts = max(1, min(blocks/max(1, each), ceil(capacity, tiles.DecodeRows)))
	rows = ceil(ceil(capacity, parts), tiles.DecodeRows) * tiles.DecodeRows
	return ceil(capacity, rows), rows
}

// Scratch is how many bytes of scratch so many sequences need, each with room for capacity rows. It is 0 for what Launch refuses.
func (Decode[T]) Scratch(sequences, capacity int, h Heads) int {
	h = h.filled()
	h, err := h.decodes(sequences, h.Heads*h.Width, sequences*capacity, h.Keys*h.Width)
	if err != nil || sequences == 0 {
		return 0
	}
	parts, _ := decodeParts(sequences, capacity, h)
	if parts == 1 {
		return 0
	}
	each := sequences * h.Heads * parts
	return room256(4*each*h.Width) + room256(8*each)
}

// Launch computes attention for each row of Q, which is a sequence. K and V have as many rows for each sequence, one sequence after the other.
// Of those it sees the first lengths[i]: all, if lengths is nil or it is more. No rows give zeros. Heads are beside each other in a row. Width is a
// multiple of 8, up to 256, and Causal changes nothing. out overlaps none of the others. The scratch memory is that of the caller, or nil:
// then it comes from the arena, and the stream must not be captured.
func (k Decode[T]) Launch(s *runtime.Stream, q, keys, values, out Matrix[T], lengths *runtime.Ref[uint32], h Heads, scratch *runtime.Ref[byte]) error {
	if err := k.loaded("Decode"); err != nil {
		return err
	}
	h, err := h.decodes(q.Rows, q.Cols, keys.Rows, keys.Cols)
	switch {
	case err != nil:
		return err
	case out.Rows != q.Rows || out.Cols != q.Cols:
		return invalidArgument("Decode: the result is %d x %d, want %d x %d as Q", out.Rows, out.Cols, q.Rows, q.Cols)
	case values.Rows != keys.Rows || values.Cols != keys.Cols:
		return invalidArgument("Decode: V is %d x %d, want %d x %d as K", values.Rows, values.Cols, keys.Rows, keys.Cols)
	case q.Rows == 0:
		return nothing(s)
	case lengths != nil && lengths.Len() != q.Rows:
		return invalidArgument("Decode: there are %d lengths, want one for each of %d sequences", lengths.Len(), q.Rows)
	}
	spans := []launch.Span{launch.Device("the result", out.Ref, true), launch.Device("scratch", scratch, true), launch.Device("lengths", lengths, false)}
	for i, m := range [...]Matrix[T]{out, q, keys, values} {
		name := [...]string{"the result", "Q", "K", "V"}[i]
		if err := m.check("Decode", name, 0); err != nil {
			return err
		}
		if i > 0 {
			spans = append(spans, launch.Device(name, m.Ref, false))
		}
	}
	if err := launch.Apart("Decode", spans...); err != nil {
		return err
	}
	capacity := keys.Rows / q.Rows
	d := tiles.Decoding{Capacity: capacity, Width: h.Width, Heads: h.Heads, Group: h.Heads / h.Keys,
		PitchQ: q.Pitch, PitchK: keys.Pitch, PitchV: values.Pitch, PitchOut: out.Pitch, Scale: h.Scale * math.Log2E}
	d.Parts, d.PartRows = decodeParts(q.Rows, capacity, h)
	var results *runtime.Ref[float32]
	var partials *runtime.Ref[tiles.Partial]
	if d.Parts > 1 {
		c, err := newScratch("Decode", s, k.Scratch(q.Rows, capacity, h), scratch)
		if err != nil {
			return err
		}
		defer c.close()
		each := q.Rows * h.Heads * d.Parts
		if results, err = cut[float32](c, each*h.Width); err != nil {
			return err
		}
		if partials, err = cut[tiles.Partial](c, each); err != nil {
			return err
		}
	}
	args := launchArgs{runtime.Struct(&d)}
	sliceOf(&args, out.Ref, true)
	sliceOf(&args, q.Ref, false)
	sliceOf(&args, keys.Ref, false)
	sliceOf(&args, values.Ref, false)
	sliceOf(&args, lengths, false)
	sliceOf(&args, results, true)
	sliceOf(&args, partials, true)
	kernel, heads, threads, shared := 0, tiles.DecodeHeads, tiles.DecodeThreads, 0
	if k.k.Has(k.first + 2) {
		width := 64
		for kernel = 2; width < h.Width; kernel++ {
			width *= 2
		}
		heads, threads, shared = tiles.DecodeTensorHeads, 32*tiles.DecodeTensorWarps(width), tiles.DecodeTensorShared(width)
	}
	shape := runtime.Shape{Grid: runtime.Dim3{X: uint32(h.Keys * ceil(d.Group, heads)), Y: uint32(d.Parts), Z: uint32(q.Rows)},
		Block: runtime.Dim3{X: uint32(threads)}, SharedBytes: uint32(shared)}
	if err := k.k.Launch(k.first+kernel, s, shape, args...); err != nil || d.Parts == 1 {
		return err
	}
	args = launchArgs{runtime.Struct(&d)}
	sliceOf(&args, out.Ref, true)
	sliceOf(&args, results, false)
	sliceOf(&args, partials, false)
	shape = runtime.Shape{Grid: runtime.Dim3{X: uint32(h.Heads), Y: uint32(q.Rows)}, Block: runtime.Dim3{X: uint32(tiles.DecodeMergeThreads(d.Parts))}}
	return k.k.Launch(k.first+1, s, shape, args...)
}

// decodes fills in what is 0, and compares with the matrices.
func (h Heads) decodes(sequences, cols, keyRows, keyCols int) (Heads, error) {
	h = h.filled()
	switch {
	case h.Width < 8 || h.Width > 256 || h.Width%8 != 0:
		return h, invalidArgument("Decode: a head has %d columns, want a multiple of 8, up to 256", h.Width)
	case h.Heads < 1 || h.Keys < 1 || h.Heads%h.Keys != 0 || h.Heads > math.MaxUint16:
		return h, invalidArgument("Decode: %d heads of Q and %d of K: want 1 to %d, and the first a multiple of the second", h.Heads, h.Keys, math.MaxUint16)
	case sequences < 0 || sequences > math.MaxUint16:
		return h, invalidArgument("Decode: %d sequences, want 0 to %d", sequences, math.MaxUint16)
	case keyRows < sequences || keyRows > maxGemm || sequences > 0 && keyRows%sequences != 0:
		return h, invalidArgument("Decode: K has %d rows for %d sequences: want as many for each, at least one, and %d at most", keyRows, sequences, maxGemm)
	case cols != h.Heads*h.Width || keyCols != h.Keys*h.Width:
		return h, invalidArgument("Decode: Q has %d columns and K %d, want %d and %d for the heads", cols, keyCols, h.Heads*h.Width, h.Keys*h.Width)
	case !(math.Abs(float64(h.Scale)) <= math.MaxFloat32):
		return h, invalidArgument("Decode: the scale is %v, want a number", h.Scale)
	}
	return h, nil
}

// DecodeCPU is Decode on all cores, of matrices without gaps, in float64. A device's results differ by the
// last bit of T, and by what float32 and [gpu.FastExp2] lose. That is below 1e-4 for numbers around 1.
func DecodeCPU[T gpu.Half](sequences int, q, keys, values, out []T, lengths []uint32, h Heads) error {
	h = h.filled()
	keyRows := len(keys) / max(1, h.Keys*h.Width)
	h, err := h.decodes(sequences, colsOf(q, sequences, h.Heads*h.Width), keyRows, colsOf(keys, keyRows, h.Keys*h.Width))
	switch {
	case err != nil:
		return err
	case len(out) != len(q) || len(values) != len(keys) || len(q) != sequences*h.Heads*h.Width || len(keys) != keyRows*h.Keys*h.Width:
		return invalidArgument("Decode: %d, %d, %d and %d elements of Q, K, V and the result, want as many of Q and the result, and of K and V", len(q), len(keys), len(values), len(out))
	case len(lengths) != 0 && len(lengths) != sequences:
		return invalidArgument("Decode: there are %d lengths, want one for each of %d sequences", len(lengths), sequences)
	}
	if err := launch.Apart("Decode", launch.Host("Q", q, false), launch.Host("K", keys, false), launch.Host("V", values, false), launch.Host("lengths", lengths, false), launch.Host("the result", out, true)); err != nil {
		return err
	}
	if sequences == 0 {
		return nil
	}
	capacity := keyRows / sequences
	return gpu.Run(gpu.Shape1D(sequences*h.Heads, 1), func(t *gpu.Thread) {
		sequence, seen := t.GlobalX()/h.Heads, capacity
		if len(lengths) > 0 {
			seen = int(min(lengths[sequence], uint32(capacity)))
		}
		first := sequence * capacity * h.Keys * h.Width
		attendRow(q, keys[first:], values[first:], out, sequence, t.GlobalX()%h.Heads, seen, h)
	})
}
