// Package lapack has the routines of cuSOLVER on the CPU, with gonum. The simulated cuSOLVER and package cpu compute with it.
package lapack

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/gonum"

	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver"
)

// Matrix is a matrix by rows.
type Matrix struct {
	Rows, Cols, LD int
	V              []float64
}

// New makes a matrix without gaps.
func New(rows, cols int) Matrix {
	return Matrix{rows, cols, max(cols, 1), make([]float64, rows*cols)}
}

// Run computes with the matrices and the vector of a call, of one matrix of a batch, and returns the info. What the call says of
// memory is not looked at. All is computed in float64.
func Run(c *cusolver.Call, m []Matrix, v []float64) (info int32) { return routines[c.Routine](c, m, v) }

// Known tells whether there is such a routine.
func Known(r cusolver.Routine) bool { return r >= 0 && int(r) < len(routines) }

var routines = [...]func(c *cusolver.Call, m []Matrix, v []float64) (info int32){
	cusolver.Potrf: potrf, cusolver.Potrs: potrs, cusolver.Getrf: getrf, cusolver.Getrs: getrs,
	cusolver.Geqrf: geqrf, cusolver.Ormqr: ormqr, cusolver.Syevd: syevd, cusolver.Gesvd: gesvd,
	cusolver.PotrfBatched: potrf, cusolver.PotrsBatched: potrs, cusolver.GetrfBatched: getrf, cusolver.GetrsBatched: getrs,
	cusolver.GetriBatched: getri, cusolver.GelsBatched: gels, cusolver.SyevjBatched: syevd,
}

var cpu gonum.Implementation

var (
	fills      = map[cublas.Fill]blas.Uplo{cublas.Lower: blas.Lower, cublas.Upper: blas.Upper}
	transposes = map[cublas.Operation]blas.Transpose{cublas.NoTranspose: blas.NoTrans, cublas.Transpose: blas.Trans}
	sides      = map[cublas.Side]blas.Side{cublas.Left: blas.Left, cublas.Right: blas.Right}
)

// work is room for gonum, for more than any routine asks for.
func work(c *cusolver.Call) []float64 { return make([]float64, 8*(c.M+c.N+c.K)+64) }

func potrf(c *cusolver.Call, m []Matrix, _ []float64) int32 {
	a, fill := m[0], fills[c.Fill]
	before := append([]float64(nil), a.V...)
	if cpu.Dpotrf(fill, a.Rows, a.V, a.LD) {
		return 0
	}
	for n := 1; ; n++ { // the first part that has no factor
		if part := append([]float64(nil), before...); n == a.Rows || !cpu.Dpotrf(fill, n, part, a.LD) {
			return int32(n)
		}
	}
}

func potrs(c *cusolver.Call, m []Matrix, _ []float64) int32 {
	cpu.Dpotrs(fills[c.Fill], m[0].Rows, m[1].Cols, m[0].V, m[0].LD, m[1].V, m[1].LD)
	return 0
}

func getrf(_ *cusolver.Call, m []Matrix, v []float64) int32 {
	a, pivots := m[0], make([]int, len(v))
	cpu.Dgetrf(a.Rows, a.Cols, a.V, a.LD, pivots)
	for i, p := range pivots {
		v[i] = float64(p + 1)
	}
	return firstZero(a)
}

// getri inverts what getrf has factored.
func getri(c *cusolver.Call, m []Matrix, v []float64) int32 {
	pivots := make([]int, len(v))
	for i, p := range v {
		pivots[i] = int(p) - 1
	}
	copy(m[1].V, m[0].V)
	w := work(c)
	if cpu.Dgetri(m[1].Rows, m[1].V, m[1].LD, pivots, w, len(w)) {
		return 0
	}
	return firstZero(m[0])
}

// firstZero is the first place of the diagonal with a 0, from 1 on, or 0.
func firstZero(a Matrix) int32 {
	for i := range min(a.Rows, a.Cols) {
		if a.V[i*a.LD+i] == 0 {
			return int32(i + 1)
		}
	}
	return 0
}

// gels finds least squares. Columns that are 0 are found as on the device.
func gels(c *cusolver.Call, m []Matrix, _ []float64) int32 {
	w := work(c)
	if cpu.Dgels(blas.NoTrans, m[0].Rows, m[0].Cols, m[1].Cols, m[0].V, m[0].LD, m[1].V, m[1].LD, w, len(w)) {
		return 0
	}
	return firstZero(m[0])
}

func getrs(c *cusolver.Call, m []Matrix, v []float64) int32 {
	pivots := make([]int, len(v))
	for i, p := range v {
		pivots[i] = int(p) - 1
	}
	cpu.Dgetrs(transposes[c.Trans], m[0].Rows, m[1].Cols, m[0].V, m[0].LD, pivots, m[1].V, m[1].LD)
	return 0
}

func geqrf(c *cusolver.Call, m []Matrix, v []float64) int32 {
	w := work(c)
	cpu.Dgeqrf(m[0].Rows, m[0].Cols, m[0].V, m[0].LD, v, w, len(w))
	return 0
}

func ormqr(c *cusolver.Call, m []Matrix, v []float64) int32 {
	w := work(c)
	cpu.Dormqr(sides[c.Side], transposes[c.Trans], m[1].Rows, m[1].Cols, m[0].Cols, m[0].V, m[0].LD, v, m[1].V, m[1].LD, w, len(w))
	return 0
}

func syevd(c *cusolver.Call, m []Matrix, v []float64) int32 {
	job := lapack.EVNone
	if c.Vectors {
		job = lapack.EVCompute
	}
	w := work(c)
	if !cpu.Dsyev(job, fills[c.Fill], m[0].Rows, m[0].V, m[0].LD, v, w, len(w)) {
		return 1
	}
	return 0
}

func gesvd(c *cusolver.Call, m []Matrix, v []float64) int32 {
	jobs := map[cusolver.Job]lapack.SVDJob{cusolver.None: lapack.SVDNone, cusolver.Thin: lapack.SVDStore, cusolver.All: lapack.SVDAll}
	u, vt, rest := Matrix{LD: 1}, Matrix{LD: 1}, m[1:]
	if c.JobU != cusolver.None {
		u, rest = rest[0], rest[1:]
	}
	if c.JobVT != cusolver.None {
		vt = rest[0]
	}
	w := work(c)
	if !cpu.Dgesvd(jobs[c.JobU], jobs[c.JobVT], m[0].Rows, m[0].Cols, m[0].V, m[0].LD, v, u.V, u.LD, vt.V, vt.LD, w, len(w)) {
		return 2
	}
	return 0
}
