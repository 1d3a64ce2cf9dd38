package tiles

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// A block takes a row of a matrix. Its threads take eight elements at a time, side by side, and then one each of those that are left. What a thread
// takes the first times stays in its registers; only a row that is longer is read again. All loads of those times are before what uses them. The sums
// of the threads are added in one order, which depends on the number of columns alone. A row begins at a multiple of eight elements.

// times is how often a thread takes what stays in its registers.
const times = 2

// RowThreads is the block for rows of so many elements: each thread has up to 16, while there are threads.
func RowThreads(cols int) int { return min((cols+8*32*times-1)/(8*32*times)*32, 1024) }

// row is what a block has of x, from the first element of a row on, and what a thread keeps of it.
type row[T gpu.Float] struct {
	x                       []T
	x8                      [][8]T
	kept                    [times][8]T
	last                    T // of those left
	cols, eights            int
	thread, threads, beyond int // the first eight that does not stay
}

func rowOf[T gpu.Float](t *gpu.Thread, x []T, cols, pitch int) row[T] {
	x = x[t.BlockX()*pitch:]
	r := row[T]{x: x, x8: gpu.View[[8]T](x), cols: cols, eights: cols / 8, thread: t.ThreadX(), threads: t.BlockDimX()}
	r.beyond = r.thread + times*r.threads
	r.kept = r.load(x)
	if i := r.rest(); i < cols {
		r.last = x[i]
	}
	return r
}

// load is what this thread keeps of a row. A thread that has less takes the last eight again, so that no load waits for a branch.
func (r *row[T]) load(x []T) (kept [times][8]T) {
	if r.eights > 0 {
		for i := range times {
			kept[i] = gpu.View[[8]T](x)[min(r.thread+i*r.threads, r.eights-1)]
		}
	}
	return kept
}

// has reports whether there is something that this thread takes for the i-th time.
func (r *row[T]) has(i int) bool { return r.thread+i*r.threads < r.eights }

// rest is the element that this thread has of those left.
func (r *row[T]) rest() int { return r.cols&^7 + r.thread }

// lanes combines v of the lanes of a warp: those 16 apart first, then 8, 4, 2 and 1.
func lanes[O block.Op[float32]](t *gpu.Thread, op O, v float32) float32 {
	for d := 16; d > 0; d /= 2 {
		v = op.Combine(v, gpu.ShuffleXor(t, v, d))
	}
	return v
}

// all combines v of all threads: of each warp, and then of the warps as if they were lanes.
func all[O block.Op[float32]](t *gpu.Thread, op O, v float32) float32 {
	warps := gpu.Shared[[32]float32](t)
	v = lanes(t, op, v)
	if t.Lane() == 0 {
		warps[t.Warp()] = v
	}
	t.Barrier()
	v = op.Zero()
	if t.Lane() < t.BlockDimX()/32 {
		v = warps[t.Lane()]
	}
	return lanes(t, op, v)
}

// Norm sets each row of out to (x - mean) / root(variance + epsilon) * weight + bias if center is set. Otherwise it
// sets x / root(mean of squares + epsilon) * weight. A weight or bias with no elements is left out. Where add has elements, x becomes x + add before.
func Norm[T gpu.Float](t *gpu.Thread, center bool, out, x, add, weight, bias []T, cols, pitchOut, pitch, pitchAdd int, epsilon float32) {
	r := rowOf(t, x, cols, pitch)
	if len(add) > 0 {
		r.add(add[t.BlockX()*pitchAdd:])
	}
	mean, sum := float32(0), all(t, block.Add[float32]{}, r.sum(!center, 0))
	if center {
		mean = sum / float32(cols)
		sum = all(t, block.Add[float32]{}, r.sum(true, mean))
	}
	scale := 1 / gpu.Sqrt32(sum/float32(cols)+epsilon)
	out = out[t.BlockX()*pitchOut:]
	for i := range times {
		if r.has(i) {
			normed(out, r.kept[i], weight, bias, r.thread+i*r.threads, mean, scale)
		}
	}
	//purecuda:unroll 1
	for v := r.beyond; v < r.eights; v += r.threads {
		normed(out, r.x8[v], weight, bias, v, mean, scale)
	}
	if i := r.rest(); i < cols {
		w, b := float32(1), float32(0)
		if len(weight) > 0 {
			w = gpu.Float32(weight[i])
		}
		if len(bias) > 0 {
			b = gpu.Float32(bias[i])
		}
		out[i] = gpu.ToFloat[T](gpu.FMA32((gpu.Float32(r.last)-mean)*scale, w, b))
	}
}

// add sets x to x + add.
func (r *row[T]) add(add []T) {
	kept := r.load(add)
	for i := range times {
		for e := range 8 {
			r.kept[i][e] = gpu.ToFloat[T](gpu.Float32(r.kept[i][e]) + gpu.Float32(kept[i][e]))
		}
		if r.has(i) {
			r.x8[r.thread+i*r.threads] = r.kept[i]
		}
	}
	//purecuda:unroll 1
	for v := r.beyond; v < r.eights; v += r.threads {
		sum := r.x8[v]
		for i, a := range gpu.View[[8]T](add)[v] {
			sum[i] = gpu.ToFloat[T](gpu.Float32(sum[i]) + gpu.Float32(a))
		}
		r.x8[v] = sum
	}
	if i := r.rest(); i < r.cols {
		r.last = gpu.ToFloat[T](gpu.Float32(r.last) + gpu.Float32(add[i]))
		r.x[i] = r.last
	}
}

// sum adds up what the elements of this thread are beyond the mean, or the squares of that.
func (r *row[T]) sum(square bool, mean float32) (sum float32) {
	for i := range times {
		if r.has(i) {
			sum = added(r.kept[i], square, mean, sum)
		}
	}
	//purecuda:unroll 1
	for v := r.beyond; v < r.eights; v += r.threads {
		sum = added(r.x8[v], square, mean, sum)
	}
	if r.rest() < r.cols {
		sum = addedOne(r.last, square, mean, sum)
	}
	return sum
}

func added[T gpu.Float](x [8]T, square bool, mean, sum float32) float32 {
	for _, e := range x {
		sum = addedOne(e, square, mean, sum)
	}
	return sum
}

func addedOne[T gpu.Float](e T, square bool, mean, sum float32) float32 {
	d := gpu.Float32(e) - mean
	if square {
		return gpu.FMA32(d, d, sum)
	}
	return sum + d
}

// normed sets eight elements of a result.
func normed[T gpu.Float](out []T, x [8]T, weight, bias []T, v int, mean, scale float32) {
	w, b := [8]float32{1, 1, 1, 1, 1, 1, 1, 1}, [8]float32{}
	if len(weight) > 0 {
		for i, e := range gpu.View[[8]T](weight)[v] {
			w[i] = gpu.Float32(e)
		}
	}
	if len(bias) > 0 {
		for i, e := range gpu.View[[8]T](bias)[v] {
			b[i] = gpu.Float32(e)
		}
	}
	for i := range x {
		x[i] = gpu.ToFloat[T](gpu.FMA32((gpu.Float32(x[i])-mean)*scale, w[i], b[i]))
	}
	gpu.View[[8]T](out)[v] = x
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
	// No product overflows: that with a factor below 1 comes before the largest is taken off, and that with one above 1 comes after.
	before, after := min(max(scale, -1), 1), max(gpu.Abs32(scale), 1)
	most := largest{}.Zero()
	for i := range times {
		if r.has(i) {
			for _, e := range r.kept[i] {
				most = max(most, gpu.Float32(e)*before)
			}
		}
	}
	//purecuda:unroll 1
	for v := r.beyond; v < r.eights; v += r.threads {
		for _, e := range r.x8[v] {
			most = max(most, gpu.Float32(e)*before)
		}
	}
	if r.rest() < cols {
		most = max(most, gpu.Float32(r.last)*before)
	}
	most = all(t, largest{}, most)
	power := func(e T) float32 { return gpu.FastExp2((float32(gpu.Float32(e)*before) - most) * after) }
	var sum, last float32
	var powers [times][8]float32
	for i := range times {
		if r.has(i) {
			for e := range 8 {
				powers[i][e] = power(r.kept[i][e])
				sum += powers[i][e]
			}
		}
	}
	//purecuda:unroll 1
	for v := r.beyond; v < r.eights; v += r.threads {
		for _, e := range r.x8[v] {
			sum += power(e)
		}
	}
	if r.rest() < cols {
		last = power(r.last)
		sum += last
	}
	scaleOut := 1 / all(t, block.Add[float32]{}, sum)
	out = out[t.BlockX()*pitchOut:]
	out8 := gpu.View[[8]T](out)
	for i := range times {
		if r.has(i) {
			var y [8]T
			for e := range y {
				y[e] = gpu.ToFloat[T](powers[i][e] * scaleOut)
			}
			out8[r.thread+i*r.threads] = y
		}
	}
	//purecuda:unroll 1
	for v := r.beyond; v < r.eights; v += r.threads {
		y := r.x8[v]
		for e := range y {
			y[e] = gpu.ToFloat[T](power(y[e]) * scaleOut)
		}
		out8[v] = y
	}
	if i := r.rest(); i < cols {
		out[i] = gpu.ToFloat[T](last * scaleOut)
	}
	// Zeros: up to a multiple of eight elements, eight at a time, and those left.
	first := min((cols+7)&^7, end)
	left := max(end&^7, first)
	if i := cols + r.thread; i < first {
		out[i] = gpu.ToFloat[T](0)
	}
	for v := first/8 + r.thread; v < left/8; v += r.threads {
		out8[v] = [8]T{}
	}
	if i := left + r.thread; i < end {
		out[i] = gpu.ToFloat[T](0)
	}
}
