package testsuites

import "github.com/purecuda/purecuda/gpu"

// The kernels of this file are of HeCBench.

// Cholesky takes matrices of eight by eight apart, one in each thread.
//
//purecuda:kernel
func Cholesky(t *gpu.Thread, out, in [][8][8]float32) {
	i := t.GlobalX()
	if i >= len(in) {
		return
	}
	a := in[i]
	for j := 0; j < 8; j++ {
		d := a[j][j]
		for k := 0; k < j; k++ {
			d -= a[j][k] * a[j][k]
		}
		d = gpu.Sqrt32(d)
		a[j][j] = d
		for r := j + 1; r < 8; r++ {
			s := a[r][j]
			for k := 0; k < j; k++ {
				s -= a[r][k] * a[j][k]
			}
			a[r][j] = s / d
			a[j][r] = 0
		}
	}
	out[i] = a
}

// Queens counts the ways to put queens on a board, from the first two of them on.
//
//purecuda:kernel
func Queens(t *gpu.Thread, counts []uint32, n int) {
	i := t.GlobalX()
	if i >= n*n {
		return
	}
	all := uint32(1)<<n - 1
	a, b := uint32(1)<<(i/n), uint32(1)<<(i%n)
	if b&(a|a<<1|a>>1) != 0 {
		counts[i] = 0
		return
	}
	var cols, left, right, free [32]uint32
	cols[0], left[0], right[0] = a|b, (a<<1|b)<<1, (a>>1|b)>>1
	free[0] = all &^ (cols[0] | left[0] | right[0])
	depth, count := 0, uint32(0)
	for depth >= 0 {
		f := free[depth]
		if f == 0 {
			depth--
			continue
		}
		q := f & -f
		free[depth] = f ^ q
		if depth == n-3 {
			count++
			continue
		}
		cols[depth+1] = cols[depth] | q
		left[depth+1] = (left[depth] | q) << 1
		right[depth+1] = (right[depth] | q) >> 1
		depth++
		free[depth] = all &^ (cols[depth] | left[depth] | right[depth])
	}
	counts[i] = count
}

// Primes tells by division which odd numbers are prime.
//
//purecuda:kernel
func Primes(t *gpu.Thread, prime []uint8, first int) {
	i := t.GlobalX()
	if i >= len(prime) {
		return
	}
	n := first + 2*i
	prime[i] = 1
	for d := 3; d*d <= n; d += 2 {
		if n%d == 0 {
			prime[i] = 0
			break
		}
	}
}

var (
	weight = [9]float32{4.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 36, 1.0 / 36, 1.0 / 36, 1.0 / 36}
	east   = [9]int{0, 1, 0, -1, 0, 1, -1, -1, 1}
	north  = [9]int{0, 0, 1, 0, -1, 1, 1, -1, -1}
)

// LBM is a step of a fluid: nine densities in each cell of a grid that is closed.
//
//purecuda:kernel
func LBM(t *gpu.Thread, to, from []float32, w, h int, omega float32) {
	x, y := t.GlobalX(), t.GlobalY()
	if x >= w || y >= h {
		return
	}
	var f [9]float32
	var rho, ux, uy float32
	for k := range 9 {
		fx, fy := (x-east[k]+w)%w, (y-north[k]+h)%h
		f[k] = from[(k*h+fy)*w+fx]
		rho += f[k]
		ux += f[k] * float32(east[k])
		uy += f[k] * float32(north[k])
	}
	ux, uy = ux/rho, uy/rho
	square := 1.5 * (ux*ux + uy*uy)
	for k := range 9 {
		along := 3 * (float32(east[k])*ux + float32(north[k])*uy)
		balance := weight[k] * rho * (1 + along + 0.5*along*along - square)
		to[(k*h+y)*w+x] = f[k] + omega*(balance-f[k])
	}
}
