// Package tensor has kernels for tensor cores and for copies that are asynchronous.
package tensor

import "github.com/purecuda/purecuda/gpu"

// multiply adds the product of A, 16 rows, and B, 8 columns, to C. A and B have k elements in each row and column, a
// multiple of step.
func multiply[T gpu.Element, S gpu.Sum](t *gpu.Thread, step int, a, b []T, c []S, k int) {
	lane := t.Lane()
	var sums gpu.FragmentC[S]
	for i := range sums {
		row, col := sums.Place(lane, i)
		sums[i] = c[row*8+col]
	}
	for at := 0; at < k; at += step {
		gpu.MMA(t, &sums, gpu.LoadA(t, a[at:], k), gpu.LoadB(t, b[at:], k))
	}
	for i := range sums {
		row, col := sums.Place(lane, i)
		c[row*8+col] = sums[i]
	}
}

//purecuda:kernel
func MultiplyFloat16(t *gpu.Thread, a, b []gpu.Float16, c []float32, k int) {
	multiply(t, 16, a, b, c, k)
}

//purecuda:kernel
func MultiplyBFloat16(t *gpu.Thread, a, b []gpu.BFloat16, c []float32, k int) {
	multiply(t, 16, a, b, c, k)
}

//purecuda:kernel
func MultiplyTF32(t *gpu.Thread, a, b []float32, c []float32, k int) {
	lane := t.Lane()
	var sums gpu.FragmentC[float32]
	for at := 0; at < k; at += 8 {
		var fa gpu.FragmentA[gpu.TF32]
		var fb gpu.FragmentB[gpu.TF32]
		for i := range 4 {
			row, k0 := fa.Place(lane, i)
			fa.Set(i, gpu.ToTF32(a[row*k+at+k0]))
		}
		for i := range 2 {
			k0, col := fb.Place(lane, i)
			fb.Set(i, gpu.ToTF32(b[col*k+at+k0]))
		}
		gpu.MMA(t, &sums, fa, fb)
	}
	for i := range sums {
		row, col := sums.Place(lane, i)
		c[row*8+col] += sums[i]
	}
}

//purecuda:kernel
func MultiplyFloat64(t *gpu.Thread, a, b []float64, c []float64, k int) { multiply(t, 4, a, b, c, k) }

//purecuda:kernel
func MultiplyInt8(t *gpu.Thread, a, b []int8, c []int32, k int) { multiply(t, 32, a, b, c, k) }

//purecuda:kernel
func MultiplyUint8(t *gpu.Thread, a, b []uint8, c []int32, k int) { multiply(t, 32, a, b, c, k) }

//purecuda:kernel
func MultiplyFloat8E4M3(t *gpu.Thread, a, b []gpu.Float8E4M3, c []float32, k int) {
	multiply(t, 32, a, b, c, k)
}

//purecuda:kernel
func MultiplyFloat8E5M2(t *gpu.Thread, a, b []gpu.Float8E5M2, c []float32, k int) {
	multiply(t, 32, a, b, c, k)
}

// Convert rounds to 8 bits and back.
//
//purecuda:kernel equal=x,e4m3,e5m2,tf32
func Convert(t *gpu.Thread, x []float32, e4m3 []gpu.Float8E4M3, e5m2 []gpu.Float8E5M2, tf32 []gpu.TF32) {
	if i := t.GlobalX(); i < len(x) {
		e4m3[i], e5m2[i], tf32[i] = gpu.ToFloat8E4M3(x[i]), gpu.ToFloat8E5M2(x[i]), gpu.ToTF32(x[i])
		x[i] = e4m3[i].Float32() + e5m2[i].Float32()*tf32[i].Float32()
	}
}

// Pack rounds pairs.
//
//purecuda:kernel equal=x,f,b
func Pack(t *gpu.Thread, x []float32, f, b []uint32) {
	if i := t.GlobalX(); i < len(x) {
		f[i], b[i] = gpu.PackHalves[gpu.Float16](x[i], -x[i]), gpu.PackHalves[gpu.BFloat16](x[i], x[i]*3)
	}
}

// Fragments loads what lies in x, 16 rows of 32 bytes, in all ways, and writes the elements of each lane.
//
//purecuda:kernel block=32
func Fragments(t *gpu.Thread, x []gpu.Uint4, out []gpu.Float16) {
	shared := gpu.Shared[[32]gpu.Uint4](t)
	lane := t.Lane()
	shared[lane] = x[lane]
	gpu.WarpBarrier(t)
	rows, lines := &shared[lane%16*2+lane/16], &shared[(lane%8+lane/16*8)*2+lane/8%2]
	a, ta := gpu.LoadMatrixA[gpu.Float16](t, rows), gpu.LoadTransposedA[gpu.Float16](t, lines)
	b, tb := gpu.LoadMatrixB[gpu.Float16](t, lines), gpu.LoadTransposedB[gpu.Float16](t, rows)
	for i := range 8 {
		out[lane*32+i], out[lane*32+8+i] = a.At(i), ta.At(i)
	}
	for i := range 4 {
		out[lane*32+16+i], out[lane*32+20+i] = b[0].At(i), b[1].At(i)
		out[lane*32+24+i], out[lane*32+28+i] = tb[0].At(i), tb[1].At(i)
	}
}

// Copies adds up tiles of 32 times 16 bytes, of which a ring in shared memory has three. The last has left bytes in each 16.
//
//purecuda:kernel block=32
func Copies(t *gpu.Thread, x []gpu.Uint4, sums []uint32, left int) {
	ring := gpu.Shared[[3][32]gpu.Uint4](t)
	lane := t.Lane()
	tiles := len(x) / 32
	var sum uint32
	for tile := range tiles + 2 {
		if tile < tiles-1 {
			gpu.CopyAsync(t, &ring[tile%3][lane], &x[tile*32+lane])
		} else if tile < tiles {
			gpu.CopyAsyncPart(t, &ring[tile%3][lane], &x[tile*32+lane], left)
		}
		gpu.CopyCommit(t)
		if tile < 2 {
			continue
		}
		gpu.CopyWait(t, 2)
		gpu.WarpBarrier(t)
		v := ring[(tile-2)%3][lane^1]
		gpu.WarpBarrier(t)
		sum = sum*31 + v.X + v.Y*3 + v.Z*5 + v.W*7
	}
	sums[lane] = sum
}

// Hurried is Copies that waits for a group too few.
//
//purecuda:kernel block=32
func Hurried(t *gpu.Thread, x []gpu.Uint4, sums []uint32) {
	ring := gpu.Shared[[2][32]gpu.Uint4](t)
	lane := t.Lane()
	for tile := range 2 {
		gpu.CopyAsync(t, &ring[tile][lane], &x[tile*32+lane])
		gpu.CopyCommit(t)
	}
	gpu.CopyWait(t, 1)
	sums[lane] = ring[1][lane].X
}
