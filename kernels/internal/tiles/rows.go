package tiles

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// A block takes a row of a matrix. Its threads take four elements at a time, side by side, and then one each of those that are left. The sums of the
// threads are added in one order, which depends on the number of columns alone. A row begins at a multiple of four elements.

// RowThreads is the block for rows of so many elements: each thread has up to 16, while there are threads.
func RowThreads(cols int) int { return min((cols+511)/512*32, 1024) }

// RowShared is how many bytes of a row of this size a block keeps, so that it reads the row once. It is 0 where they do not fit.
func RowShared(bytes int) int {
	if bytes > 48<<10 {
		return 0
	}
	return bytes
}

// row is what a block has of x, and the same again in shared memory, if that has room. A thread reads there what it wrote itself.
type row[T gpu.Float] struct {
	x, kept   []T
	x4, kept4 [][4]T
	cols      int
	keeps     bool
}

func rowOf[T gpu.Float](t *gpu.Thread, x []T, cols, pitch int) row[T] {
	x, kept := x[t.BlockX()*pitch:], gpu.DynamicShared[T](t)
	return row[T]{x, kept, gpu.View[[4]T](x), gpu.View[[4]T](kept), cols, len(kept) >= cols}
}

// rest is the element that this thread has of those left.
func (r *row[T]) rest(t *gpu.Thread) int { return r.cols&^3 + t.ThreadX() }

// four and one are elements from the second time on.
func (r *row[T]) four(v int) [4]T {
	if r.keeps {
		return r.kept4[v]
	}
	return r.x4[v]
}

func (r *row[T]) one(i int) T {
	if r.keeps {
		return r.kept[i]
	}
	return r.x[i]
}

// all combines v of all threads: lanes 16 apart first, then 8, 4, 2 and 1, and then the warps in their order.
func all[O block.Op[float32]](t *gpu.Thread, op O, v float32) float32 {
	warps := gpu.Shared[[32]float32](t)
	for d := 16; d > 0; d /= 2 {
		v = op.Combine(v, gpu.ShuffleXor(t, v, d))
	}
	if t.Lane() == 0 {
		warps[t.Warp()] = v
	}
	t.Barrier()
	v = warps[0]
	//purecuda:unroll 1
	for w := 1; w < t.BlockDimX()/32; w++ {
		v = op.Combine(v, warps[w])
	}
	return v
}

// term is what the first sum of Norm has of an element.
func term(center bool, v float32) float32 {
	if center {
		return v
	}
	return v * v
}

// Norm sets each row of out to (x - mean) / root(variance + epsilon) * weight + bias if center is set. Otherwise it
// sets x / root(mean of squares + epsilon) * weight. A weight or bias with no elements is left out. Where add has elements, x becomes x + add before.
func Norm[T gpu.Float](t *gpu.Thread, center bool, out, x, add, weight, bias []T, cols, pitchOut, pitch, pitchAdd int, epsilon float32) {
	r := rowOf(t, x, cols, pitch)
	thread, threads, fours := t.ThreadX(), t.BlockDimX(), cols/4
	adds := len(add) > 0
	if adds {
		add = add[t.BlockX()*pitchAdd:]
	}
	var sum float32
	for v := thread; v < fours; v += threads {
		e := r.x4[v]
		if adds {
			a := gpu.View[[4]T](add)[v]
			for i := range e {
				e[i] = gpu.ToFloat[T](gpu.Float32(e[i]) + gpu.Float32(a[i]))
			}
			r.x4[v] = e
		}
		if r.keeps {
			r.kept4[v] = e
		}
		for i := range e {
			sum += term(center, gpu.Float32(e[i]))
		}
	}
	if i := r.rest(t); i < cols {
		e := r.x[i]
		if adds {
			e = gpu.ToFloat[T](gpu.Float32(e) + gpu.Float32(add[i]))
			r.x[i] = e
		}
		if r.keeps {
			r.kept[i] = e
		}
		sum += term(center, gpu.Float32(e))
	}
	sum = all(t, block.Add[float32]{}, sum)
	mean := float32(0)
	if center {
		mean, sum = sum/float32(cols), 0
		for v := thread; v < fours; v += threads {
			for _, e := range r.four(v) {
				d := gpu.Float32(e) - mean
				sum += d * d
			}
		}
		if i := r.rest(t); i < cols {
			d := gpu.Float32(r.one(i)) - mean
			sum += d * d
		}
		sum = all(t, block.Add[float32]{}, sum)
	}
	scale := 1 / gpu.Sqrt32(sum/float32(cols)+epsilon)
	out = out[t.BlockX()*pitchOut:]
	for v := thread; v < fours; v += threads {
		w, b := [4]float32{1, 1, 1, 1}, [4]float32{}
		if len(weight) > 0 {
			for i, e := range gpu.View[[4]T](weight)[v] {
				w[i] = gpu.Float32(e)
			}
		}
		if len(bias) > 0 {
			for i, e := range gpu.View[[4]T](bias)[v] {
				b[i] = gpu.Float32(e)
			}
		}
		e := r.four(v)
		for i := range e {
			e[i] = gpu.ToFloat[T]((gpu.Float32(e[i])-mean)*scale*w[i] + b[i])
		}
		gpu.View[[4]T](out)[v] = e
	}
	if i := r.rest(t); i < cols {
		w, b := float32(1), float32(0)
		if len(weight) > 0 {
			w = gpu.Float32(weight[i])
		}
		if len(bias) > 0 {
			b = gpu.Float32(bias[i])
		}
		out[i] = gpu.ToFloat[T]((gpu.Float32(r.one(i))-mean)*scale*w + b)
	}
}

// largest is the operation of softmax.
type largest struct{}

func (largest) Zero() float32                { return float32(math.Inf(-1)) }
func (largest) Combine(a, b float32) float32 { return max(a, b) }

// Softmax sets each row of out to 2 to the power of scale * x, divided by the sum of those. Where causal is set, row i has cols + i + 1 - rows
// elements, and the others become 0.
func Softmax[T gpu.Float](t *gpu.Thread, out, x []T, rows, cols, pitchOut, pitch int, scale float32, causal bool) {
	end := cols
	if causal {
		cols -= rows - 1 - t.BlockX()
	}
	r := rowOf(t, x, cols, pitch)
	thread, threads, fours := t.ThreadX(), t.BlockDimX(), cols/4
	most := largest{}.Zero()
	for v := thread; v < fours; v += threads {
		e := r.x4[v]
		if r.keeps {
			r.kept4[v] = e
		}
		for i := range e {
			most = max(most, gpu.Float32(e[i])*scale)
		}
	}
	if i := r.rest(t); i < cols {
		e := r.x[i]
		if r.keeps {
			r.kept[i] = e
		}
		most = max(most, gpu.Float32(e)*scale)
	}
	most = all(t, largest{}, most)
	power := func(e T) float32 { return gpu.FastExp2(gpu.Float32(e)*scale - most) }
	var sum float32
	for v := thread; v < fours; v += threads {
		for _, e := range r.four(v) {
			sum += power(e)
		}
	}
	if i := r.rest(t); i < cols {
		sum += power(r.one(i))
	}
	scaleOut := 1 / all(t, block.Add[float32]{}, sum)
	out = out[t.BlockX()*pitchOut:]
	for v := thread; v < fours; v += threads {
		e := r.four(v)
		for i := range e {
			e[i] = gpu.ToFloat[T](power(e[i]) * scaleOut)
		}
		gpu.View[[4]T](out)[v] = e
	}
	if i := r.rest(t); i < cols {
		out[i] = gpu.ToFloat[T](power(r.one(i)) * scaleOut)
	}
	for i := cols + thread; i < end; i += threads {
		out[i] = gpu.ToFloat[T](0)
	}
}
