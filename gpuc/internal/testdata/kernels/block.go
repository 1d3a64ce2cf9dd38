package testkernels

import "github.com/purecuda/purecuda/gpu"

// Reduce adds what each block has seen, in one order on all devices.
//
//purecuda:kernel
func Reduce(t *gpu.Thread, x, partial []float32) {
	warps := gpu.Shared[[32]float32](t)
	var s float32
	for i := t.GlobalX(); i < len(x); i += t.GlobalDimX() {
		s += x[i]
	}
	if s = warpSum(t, s); t.Lane() == 0 {
		warps[t.Warp()] = s
	}
	t.Barrier()
	if t.Warp() == 0 {
		s = 0
		if t.Lane() < t.BlockDimX()/32 {
			s = warps[t.Lane()]
		}
		if s = warpSum(t, s); t.Lane() == 0 {
			partial[t.BlockX()] = s
		}
	}
}

// Scan gives the sums of all numbers up to each, within a block of 256 threads with four numbers each, and what each
// block adds up to.
//
//purecuda:kernel block=256
func Scan(t *gpu.Thread, out, in []gpu.Uint4, sums []uint32) {
	warps := gpu.Shared[[8]uint32](t)
	i := t.GlobalX()
	var q gpu.Uint4
	if i < len(in) {
		q = in[i]
	}
	q.Y += q.X
	q.Z += q.Y
	q.W += q.Z
	upTo := q.W
	for d := 1; d < 32; d *= 2 {
		if v := gpu.ShuffleUp(t, upTo, d); t.Lane() >= d {
			upTo += v
		}
	}
	if t.Lane() == 31 {
		warps[t.Warp()] = upTo
	}
	t.Barrier()
	before := upTo - q.W
	var sum uint32
	for w := range 8 {
		if w == t.Warp() {
			before += sum
		}
		sum += warps[w]
	}
	if i < len(out) {
		out[i] = gpu.Uint4{X: q.X + before, Y: q.Y + before, Z: q.Z + before, W: q.W + before}
	}
	if t.ThreadX() == 0 {
		sums[t.BlockX()] = sum
	}
}

const square = 32

// Transpose turns a matrix of w columns and h rows, through a tile in shared memory.
//
//purecuda:kernel block=32x8
func Transpose(t *gpu.Thread, out, in []float32, w, h int) {
	tile := gpu.Shared[[square][square + 1]float32](t)
	x, y := t.BlockX()*square+t.ThreadX(), t.BlockY()*square+t.ThreadY()
	for j := 0; j < square; j += 8 {
		if x < w && y+j < h {
			tile[t.ThreadY()+j][t.ThreadX()] = in[(y+j)*w+x]
		}
	}
	t.Barrier()
	x, y = t.BlockY()*square+t.ThreadX(), t.BlockX()*square+t.ThreadY()
	for j := 0; j < square; j += 8 {
		if x < h && y+j < w {
			out[(y+j)*h+x] = tile[t.ThreadX()][t.ThreadY()+j]
		}
	}
}

const small = 8

// Products multiplies many small matrices, four in a block. Threads along x are columns, along y rows.
//
//purecuda:kernel block=8x8x4
func Products(t *gpu.Thread, c, a, b [][small][small]float32) {
	as, bs := gpu.Shared[[4][small][small]float32](t), gpu.Shared[[4][small][small]float32](t)
	col, row, z := t.ThreadX(), t.ThreadY(), t.ThreadZ()
	i := t.BlockX()*4 + z
	if i < len(c) {
		as[z][row][col] = a[i][row][col]
		bs[z][row][col] = b[i][row][col]
	}
	t.Barrier()
	if i < len(c) {
		var sum float32
		for k := range small {
			sum = gpu.FMA32(as[z][row][k], bs[z][k][col], sum)
		}
		c[i][row][col] = sum
	}
}

// Complex is a complex number.
type Complex struct{ Re, Im float32 }

func add(a, b Complex) Complex { return Complex{a.Re + b.Re, a.Im + b.Im} }
func sub(a, b Complex) Complex { return Complex{a.Re - b.Re, a.Im - b.Im} }

func mul(a, b Complex) Complex {
	return Complex{gpu.FMA32(a.Re, b.Re, -(a.Im * b.Im)), gpu.FMA32(a.Re, b.Im, a.Im*b.Re)}
}

const points = 1024

// FFT transforms 1024 complex numbers in each block of 256 threads, four at a time (Stockham). roots[i] is
// exp(-2 pi i/1024).
//
//purecuda:kernel block=256
func FFT(t *gpu.Thread, out, in, roots []Complex) {
	s := gpu.Shared[[points]Complex](t)
	const quarter = points / 4
	j := t.ThreadX()
	base := t.BlockX() * points
	a, b, c, d := in[base+j], in[base+j+quarter], in[base+j+2*quarter], in[base+j+3*quarter]
	for n := 1; n < points; n *= 4 {
		k := j & (n - 1)
		if n > 1 {
			w := k * (quarter / n)
			b, c, d = mul(b, roots[w]), mul(c, roots[2*w]), mul(d, roots[3*w])
		}
		p, q, r, u := add(a, c), sub(a, c), add(b, d), sub(b, d)
		v := Complex{u.Im, -u.Re} // times -i
		a, b, c, d = add(p, r), add(q, v), sub(p, r), sub(q, v)
		to := (j-k)*4 + k
		if n == quarter {
			out[base+to], out[base+to+n], out[base+to+2*n], out[base+to+3*n] = a, b, c, d
			break
		}
		s[to], s[to+n], s[to+2*n], s[to+3*n] = a, b, c, d
		t.Barrier()
		a, b, c, d = s[j], s[j+quarter], s[j+2*quarter], s[j+3*quarter]
		t.Barrier()
	}
}
