package testsuites

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
)

// The kernels of this file are of the NAS Parallel Benchmarks and of SHOC.

// EP counts points by chance in rings.
//
//purecuda:kernel
func EP(t *gpu.Thread, counts []uint64, seed uint64, n int) {
	const a, mask, scale = 1220703125, 1<<46 - 1, 1.0 / (1 << 46)
	x := (seed + 2*uint64(t.GlobalX()) + 1) * a & mask
	var rings [10]uint32
	for range n {
		x = x * a & mask
		u := 2*float64(x)*scale - 1
		x = x * a & mask
		v := 2*float64(x)*scale - 1
		if r := u*u + v*v; r <= 1 {
			rings[min(int(math.Sqrt(r)*10), 9)]++
		}
	}
	for i, c := range rings {
		gpu.AtomicAdd(&counts[i], uint64(c))
	}
}

// CG is a sparse matrix times a vector, a row in each thread.
//
//purecuda:kernel
func CG(t *gpu.Thread, y, x, values []float64, columns, first []int32) {
	row := t.GlobalX()
	if row >= len(y) {
		return
	}
	var sum float64
	for i := first[row]; i < first[row+1]; i++ {
		sum += values[i] * x[columns[i]]
	}
	y[row] = sum
}

// MG is the residual of a grid with three dimensions: of 27 points, by how far they are.
//
//purecuda:kernel
func MG(t *gpu.Thread, r, u, v []float64, n int, a [4]float64) {
	x, y, z := t.GlobalX(), t.GlobalY(), t.GlobalZ()
	if x < 1 || y < 1 || z < 1 || x >= n-1 || y >= n-1 || z >= n-1 {
		return
	}
	i := (z*n+y)*n + x
	s := v[i]
	for dz := -1; dz <= 1; dz++ {
		for dy := -1; dy <= 1; dy++ {
			for dx := -1; dx <= 1; dx++ {
				s -= a[dz*dz+dy*dy+dx*dx] * u[i+(dz*n+dy)*n+dx]
			}
		}
	}
	r[i] = s
}

// MD is the force of Lennard-Jones on each atom, from its neighbours.
//
//purecuda:kernel
func MD(t *gpu.Thread, force, position []gpu.Float4, neighbours []int32, n, count int, cutoff, lj1, lj2 float32) {
	i := t.GlobalX()
	if i >= n {
		return
	}
	p := position[i]
	var f gpu.Float4
	for j := 0; j < count; j++ {
		q := position[neighbours[j*n+i]]
		dx, dy, dz := p.X-q.X, p.Y-q.Y, p.Z-q.Z
		r2 := dx*dx + dy*dy + dz*dz
		if r2 < cutoff {
			r2 = 1 / r2
			r6 := r2 * r2 * r2
			s := r2 * r6 * (lj1*r6 - lj2)
			f.X += dx * s
			f.Y += dy * s
			f.Z += dz * s
		}
	}
	force[i] = f
}

// Matmul multiplies matrices as the definition says.
//
//purecuda:kernel
func Matmul(t *gpu.Thread, c, a, b []float32, m, n, k int) {
	col, row := t.GlobalX(), t.GlobalY()
	if row >= m || col >= n {
		return
	}
	var sum float32
	for i := 0; i < k; i++ {
		sum += a[row*k+i] * b[i*n+col]
	}
	c[row*n+col] = sum
}
