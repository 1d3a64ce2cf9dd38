//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/hopper"
	"github.com/purecuda/purecuda/runtime"
)

// Attention is softmax(scale * Q * transposed K) * V of one or more heads in one kernel, on compute capability 9.0.
// A line //purecuda:instantiate kernels.Attention[gpu.BFloat16] makes it for one of the types, with gpuc -arch sm_90a. It is safe for
// concurrent use.
type Attention[T gpu.Half] struct{ primitive }

// Of is called by what gpuc writes.
func (Attention[T]) Of(k *launch.Kernels, first int) Attention[T] {
	return Attention[T]{primitive{k, first}}
}

//purecuda:kernel block=512 registers=128 checks=off arch=sm_90a
func (Attention[T]) kernel64(t *gpu.Thread, q, k, v, out gpu.Tiles[T], rows, keys, group int32, scale float32, causal bool) {
	hopper.Attend[T, [32]float32, [64]float32](t, 64, 128, q, k, v, out, rows, keys, group, scale, causal)
}

//purecuda:kernel block=384 registers=168 checks=off arch=sm_90a
func (Attention[T]) kernel128(t *gpu.Thread, q, k, v, out gpu.Tiles[T], rows, keys, group int32, scale float32, causal bool) {
	hopper.Attend[T, [64]float32, [64]float32](t, 128, 128, q, k, v, out, rows, keys, group, scale, causal)
}

//purecuda:kernel block=384 registers=168 checks=off arch=sm_90a
func (Attention[T]) kernel256(t *gpu.Thread, q, k, v, out gpu.Tiles[T], rows, keys, group int32, scale float32, causal bool) {
	hopper.Attend[T, [128]float32, [32]float32](t, 256, 64, q, k, v, out, rows, keys, group, scale, causal)
}

// Heads say how the columns of matrices are divided.
type Heads struct {
	Width  int     // columns of a head: 64, 128 or 256. Decode takes other multiples of 8, too
	Heads  int     // of Q
	Keys   int     // heads of K and V, of which Heads is a multiple. 0: as many as Heads
	Causal bool    // row i of Q sees the rows of K up to i, and as many more as K has more rows than Q
	Scale  float32 // 0: 1 by the root of Width
}

// Launch computes attention. A row of Q and of out has all heads beside each other, and so has one of K and V. Sums and powers are float32. out overlaps
// none of the others. One launch is one sequence.
//
// A NaN or an infinity in V reaches rows of Q that do not see it, too, as powers of 0 multiply it. A row is NaN whose scores times Scale are
// beyond 1e9. [AttentionCPU] has neither.
func (k Attention[T]) Launch(s *runtime.Stream, q, keys, values, out Matrix[T], h Heads) error {
	if err := k.loaded("Attention"); err != nil {
		return err
	}
	h, err := h.checked(q.Rows, q.Cols, keys.Rows, keys.Cols)
	switch {
	case err != nil:
		return err
	case out.Rows != q.Rows || out.Cols != q.Cols:
		return invalidArgument("Attention: the result is %d x %d, want %d x %d as Q", out.Rows, out.Cols, q.Rows, q.Cols)
	case values.Rows != keys.Rows || values.Cols != keys.Cols:
		return invalidArgument("Attention: V is %d x %d, want %d x %d as K", values.Rows, values.Cols, keys.Rows, keys.Cols)
	case q.Rows == 0:
		return nil
	}
	which := map[int]int{64: 0, 128: 1, 256: 2}[h.Width]
	all := [...]struct {
		name string
		of   Matrix[T]
		box  int
	}{{"Q", q, hopper.AttentionRows(h.Width)}, {"K", keys, hopper.AttentionKeys(h.Width)}, {"V", values, hopper.AttentionKeys(h.Width)}, {"the result", out, hopper.StoreRows}}
	var args []runtime.Arg
	for i, m := range all {
		if m.of.Ref == nil {
			return invalidArgument("Attention: %s has no memory", m.name)
		}
		if i < 3 {
			if err := launch.Apart("Attention", launch.Device(m.name, m.of.Ref, false), launch.Device("the result", out.Ref, true)); err != nil {
				return err
			}
		}
		tiles, err := runtime.NewTiles(k.k.Context(), m.of.Ref, runtime.TilesShape{Rows: m.of.Rows, Cols: m.of.Cols, Pitch: m.of.Pitch, Box: m.box})
		if err != nil {
			return err
		}
		if i == 3 {
			args = append(args, tiles.InOut())
		} else {
			args = append(args, tiles.In())
		}
	}
	args = append(args, runtime.Value(int32(q.Rows)), runtime.Value(int32(keys.Rows)), runtime.Value(int32(h.Heads/h.Keys)), runtime.Value(h.Scale*math.Log2E), launch.Bool(h.Causal))
	shape := runtime.Shape{Grid: runtime.Dim3{X: uint32(ceil(q.Rows, hopper.AttentionRows(h.Width))), Y: uint32(h.Heads)}, Block: runtime.Dim3{X: uint32(hopper.AttentionThreads(h.Width))}, SharedBytes: uint32(hopper.AttentionBytes(h.Width))}
	return k.k.Launch(k.first+which, s, shape, args...)
}

// filled fills in what is 0.
func (h Heads) filled() Heads {
	if h.Keys == 0 {
		h.Keys = h.Heads
	}
	if h.Scale == 0 && h.Width > 0 {
		h.Scale = float32(1 / math.Sqrt(float64(h.Width)))
	}
	return h
}

// checked fills in what is 0, and compares with the matrices.
func (h Heads) checked(rows, cols, keyRows, keyCols int) (Heads, error) {
	h = h.filled()
	switch {
	case h.Width != 64 && h.Width != 128 && h.Width != 256:
		return h, invalidArgument("Attention: a head has %d columns, want 64, 128 or 256", h.Width)
	case h.Heads < 1 || h.Keys < 1 || h.Heads%h.Keys != 0 || h.Heads > math.MaxUint16:
		return h, invalidArgument("Attention: %d heads of Q and %d of K: want 1 to %d, and the first a multiple of the second", h.Heads, h.Keys, math.MaxUint16)
	case !(h.Scale > 0) || h.Scale > math.MaxFloat32: // the greatest score gives the greatest power
		return h, invalidArgument("Attention: the scale is %v, want a positive number, or 0 for 1 by the root of the width", h.Scale)
	case rows < 0 || keyRows < 1 || max(rows, keyRows) > maxGemm:
		return h, invalidArgument("Attention: %d rows of Q and %d of K: want 0 to %d, and at least one of K", rows, keyRows, maxGemm)
	case cols != h.Heads*h.Width || keyCols != h.Keys*h.Width:
		return h, invalidArgument("Attention: Q has %d columns and K %d, want %d and %d for the heads", cols, keyCols, h.Heads*h.Width, h.Keys*h.Width)
	case h.Causal && keyRows < rows:
		return h, invalidArgument("Attention: K has %d rows, fewer than the %d of Q: the first would see none", keyRows, rows)
	}
	return h, nil
}

// AttentionCPU is Attention on all cores, of matrices without gaps, in float64: q and out have rows rows, and keys and values have keyRows. A GPU's
// results differ by what float32 and [gpu.FastExp2] lose, and by the rounding of powers to T. out must not overlap the others.
func AttentionCPU[T gpu.Half](rows, keyRows int, q, keys, values, out []T, h Heads) error {
	width := uint64(max(h.Width, 0)) // lengths are compared with those that the heads want
	h = h.filled()
	h, err := h.checked(rows, colsOf(q, rows, h.Heads*h.Width), keyRows, colsOf(keys, keyRows, h.Keys*h.Width))
	if err != nil {
		return err
	}
	if n, m := uint64(rows)*uint64(h.Heads)*width, uint64(keyRows)*uint64(h.Keys)*width; uint64(len(q)) != n || uint64(len(out)) != n || uint64(len(keys)) != m || uint64(len(values)) != m {
		return invalidArgument("Attention: %d, %d, %d and %d elements, want %d for Q and the result and %d for K and V", len(q), len(keys), len(values), len(out), n, m)
	}
	if err := launch.Apart("Attention", launch.Host("Q", q, false), launch.Host("K", keys, false), launch.Host("V", values, false), launch.Host("the result", out, true)); err != nil {
		return err
	}
	if rows == 0 {
		return nil
	}
	return gpu.Run(gpu.Shape1D(rows*h.Heads, 1), func(t *gpu.Thread) {
		i, seen := t.GlobalX()/h.Heads, keyRows
		if h.Causal {
			seen = i + 1 + keyRows - rows
		}
		attendRow(q, keys, values, out, i, t.GlobalX()%h.Heads, seen, h)
	})
}

// colsOf is how many columns a matrix without gaps has: those that are wanted where it has no rows.
func colsOf[T any](x []T, rows, want int) int {
	if rows <= 0 && len(x) == 0 {
		return want
	}
	return len(x) / max(1, rows)
}

// attendRow is attention of row i of a head of Q, over the first rows of K and V, in float64. No rows give zeros.
func attendRow[T gpu.Half](q, keys, values, out []T, i, head, seen int, h Heads) {
	at, col, keyCols := (i*h.Heads+head)*h.Width, head/(h.Heads/h.Keys)*h.Width, h.Keys*h.Width
	scores, most := make([]float64, seen), math.Inf(-1)
	for j := range scores {
		for e := range h.Width {
			scores[j] += float64(q[at+e].Float32()) * float64(keys[j*keyCols+col+e].Float32())
		}
		scores[j] *= float64(h.Scale)
		most = max(most, scores[j])
	}
	sum, result := 0.0, make([]float64, h.Width)
	for j, x := range scores {
		x = math.Exp(x - most)
		sum += x
		for e := range result {
			result[e] += x * float64(values[j*keyCols+col+e].Float32())
		}
	}
	for e, x := range result {
		if seen > 0 {
			x /= sum
		}
		out[at+e] = gpu.ToHalf[T](float32(x))
	}
}
