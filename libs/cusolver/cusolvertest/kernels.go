package cusolvertest

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/gonum"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver"
)

// routine computes with matrices by rows, in float64, and returns the info. The matrices are operands, and v is the vector.
type routine func(c *launched, m []matrix, v []float64) (info int32)

var routines = [...]routine{
	cusolver.Potrf: potrf, cusolver.Potrs: potrs, cusolver.Getrf: getrf, cusolver.Getrs: getrs,
	cusolver.Geqrf: geqrf, cusolver.Ormqr: ormqr, cusolver.Syevd: syevd, cusolver.Gesvd: gesvd,
	cusolver.PotrfBatched: potrf, cusolver.PotrsBatched: potrs, cusolver.GetrfBatched: getrf, cusolver.GetrsBatched: getrs,
	cusolver.GetriBatched: getri, cusolver.GelsBatched: gels, cusolver.SyevjBatched: syevd,
}

// cpu computes all, in float64: what is stored is rounded once.
var cpu gonum.Implementation

// shaped is an operand with its rows and columns.
type shaped struct {
	cusolver.Operand
	rows, cols int64
}

// operands are the matrices of a call.
func operands(c *cusolver.Call) []shaped {
	a := shaped{c.A, c.N, c.N}
	switch c.Routine {
	case cusolver.Potrs, cusolver.Getrs, cusolver.GetrsBatched:
		return []shaped{a, {c.B, c.N, c.K}}
	case cusolver.PotrsBatched:
		return []shaped{a, {c.B, c.N, 1}}
	case cusolver.GetriBatched:
		return []shaped{a, {c.B, c.N, c.N}}
	case cusolver.GelsBatched:
		a.rows = c.M
		return []shaped{a, {c.B, c.M, c.K}}
	case cusolver.Getrf, cusolver.Geqrf:
		a.rows = c.M
	case cusolver.Ormqr:
		a.rows, a.cols = c.M, c.K
		if c.Side == cublas.Right {
			a.rows = c.N
		}
		return []shaped{a, {c.B, c.M, c.N}}
	case cusolver.Gesvd:
		a.rows = c.M
		all := []shaped{a}
		if c.JobU != cusolver.None {
			all = append(all, shaped{c.U, c.M, vectors(c.JobU, c.M, c.N)})
		}
		if c.JobVT != cusolver.None {
			all = append(all, shaped{c.VT, vectors(c.JobVT, c.N, c.N), c.N})
		}
		return all
	}
	return []shaped{a}
}

func vectors(j cusolver.Job, all, thin int64) int64 {
	if j == cusolver.All {
		return all
	}
	return thin
}

// vectorLength is how many elements the vector of a call has.
func vectorLength(c *cusolver.Call) int64 {
	switch c.Routine {
	case cusolver.Potrf, cusolver.Potrs, cusolver.PotrfBatched, cusolver.PotrsBatched, cusolver.GelsBatched:
		return 0
	case cusolver.Ormqr:
		return c.K
	case cusolver.Getrf, cusolver.Geqrf:
		return min(c.M, c.N)
	}
	return c.N
}

// matrix is device memory by rows, without gaps.
type matrix struct {
	rows, cols, ld int
	v              []float64
}

// run reads the operands of a call, runs it, and writes back what has changed.
func run(k *drivertest.Launch, f routine) error {
	c := drivertest.Param[launched](k, 0)
	workspace, err := drivertest.Slice[byte](k, c.Device, c.DeviceBytes)
	if err != nil {
		return err
	}
	clear(workspace)
	info := make([]int32, 1)
	if c.Routine != cusolver.GetrsBatched {
		infos := uint64(1)
		if c.Routine > cusolver.PotrsBatched || c.Routine == cusolver.PotrfBatched {
			infos = uint64(c.Batch)
		}
		if info, err = drivertest.Slice[int32](k, c.Info, infos); err != nil {
			return err
		}
	}
	one := compute[float32]
	if c.Type == cublas.TypeFloat64 {
		one = compute[float64]
	}
	if c.Routine < cusolver.PotrfBatched {
		return one(k, &c, f, &info[0])
	}
	for i := range c.Batch {
		call, err := c.matrix(k, i)
		if err != nil {
			return err
		}
		if err := one(k, &call, f, &info[min(i, int64(len(info))-1)]); err != nil {
			return err
		}
	}
	return nil
}

// matrix is the call for matrix i of a batch.
func (c *launched) matrix(k *drivertest.Launch, i int64) (launched, error) {
	call, element := *c, driver.DevicePtr(4)
	if c.Type == cublas.TypeFloat64 {
		element = 8
	}
	switch c.Routine {
	case cusolver.SyevjBatched:
		call.A.At += driver.DevicePtr(i*c.A.LD*c.N) * element
		call.Vector += driver.DevicePtr(i*c.N) * element
		return call, nil
	case cusolver.GetrfBatched, cusolver.GetrsBatched, cusolver.GetriBatched:
		call.Vector += driver.DevicePtr(4 * i * c.N)
	}
	for _, o := range []*cusolver.Operand{&call.A, &call.B} {
		if o.At == 0 { // the routine has no B
			continue
		}
		at, err := drivertest.Slice[driver.DevicePtr](k, o.At, uint64(c.Batch))
		if err != nil {
			return call, err
		}
		o.At = at[i]
	}
	return call, nil
}

func compute[T float32 | float64](k *drivertest.Launch, c *launched, f routine, info *int32) error {
	var all []matrix
	var stores []func()
	for _, o := range operands(&c.Call) {
		memory, err := drivertest.Slice[T](k, o.At, uint64(max((o.cols-1)*o.LD+o.rows, 0)))
		if err != nil {
			return err
		}
		m := matrix{int(o.rows), int(o.cols), max(int(o.cols), 1), make([]float64, o.rows*o.cols)}
		each := func(f func(stored *T, value *float64)) {
			for i := range m.rows {
				for j := range m.cols {
					f(&memory[j*int(o.LD)+i], &m.v[i*m.ld+j])
				}
			}
		}
		each(func(stored *T, value *float64) { *value = float64(*stored) })
		all = append(all, m)
		stores = append(stores, func() {
			each(func(stored *T, value *float64) {
				if float64(*stored) != *value { // others may read what is not changed
					*stored = T(*value)
				}
			})
		})
	}
	n := vectorLength(&c.Call)
	v := make([]float64, n)
	var err error
	var vector func()
	switch c.Routine {
	case cusolver.Getrf, cusolver.Getrs:
		vector, err = load[int64](k, c.Vector, v)
	case cusolver.GetrfBatched, cusolver.GetrsBatched, cusolver.GetriBatched:
		vector, err = load[int32](k, c.Vector, v)
	default:
		if n > 0 {
			vector, err = load[T](k, c.Vector, v)
		}
	}
	if err != nil {
		return err
	}
	*info = f(c, all, v)
	for _, store := range stores {
		store()
	}
	if vector != nil {
		vector()
	}
	return nil
}

// load reads a vector, and returns what stores it.
func load[T float32 | float64 | int32 | int64](k *drivertest.Launch, at driver.DevicePtr, v []float64) (func(), error) {
	memory, err := drivertest.Slice[T](k, at, uint64(len(v)))
	if err != nil {
		return nil, err
	}
	for i, x := range memory {
		v[i] = float64(x)
	}
	return func() {
		for i, x := range v {
			if float64(memory[i]) != x { // others may read it
				memory[i] = T(x)
			}
		}
	}, nil
}

var (
	fills      = map[cublas.Fill]blas.Uplo{cublas.Lower: blas.Lower, cublas.Upper: blas.Upper}
	transposes = map[cublas.Operation]blas.Transpose{cublas.NoTranspose: blas.NoTrans, cublas.Transpose: blas.Trans}
	sides      = map[cublas.Side]blas.Side{cublas.Left: blas.Left, cublas.Right: blas.Right}
)

// work is room for gonum, for more than any routine asks for.
func work(c *launched) []float64 { return make([]float64, 8*(c.M+c.N+c.K)+64) }

func potrf(c *launched, m []matrix, _ []float64) int32 {
	a, fill := m[0], fills[c.Fill]
	before := append([]float64(nil), a.v...)
	if cpu.Dpotrf(fill, a.rows, a.v, a.ld) {
		return 0
	}
	for n := 1; ; n++ { // the first part that has no factor
		if part := append([]float64(nil), before...); n == a.rows || !cpu.Dpotrf(fill, n, part, a.ld) {
			return int32(n)
		}
	}
}

func potrs(c *launched, m []matrix, _ []float64) int32 {
	cpu.Dpotrs(fills[c.Fill], m[0].rows, m[1].cols, m[0].v, m[0].ld, m[1].v, m[1].ld)
	return 0
}

func getrf(_ *launched, m []matrix, v []float64) int32 {
	a, pivots := m[0], make([]int, len(v))
	cpu.Dgetrf(a.rows, a.cols, a.v, a.ld, pivots)
	for i, p := range pivots {
		v[i] = float64(p + 1)
	}
	return firstZero(a)
}

// getri inverts what getrf has factored.
func getri(c *launched, m []matrix, v []float64) int32 {
	pivots := make([]int, len(v))
	for i, p := range v {
		pivots[i] = int(p) - 1
	}
	copy(m[1].v, m[0].v)
	w := work(c)
	if cpu.Dgetri(m[1].rows, m[1].v, m[1].ld, pivots, w, len(w)) {
		return 0
	}
	return firstZero(m[0])
}

// firstZero is the first place of the diagonal with a 0, from 1 on, or 0.
func firstZero(a matrix) int32 {
	for i := range min(a.rows, a.cols) {
		if a.v[i*a.ld+i] == 0 {
			return int32(i + 1)
		}
	}
	return 0
}

// gels finds least squares. Columns that are 0 are found as on the device.
func gels(c *launched, m []matrix, _ []float64) int32 {
	w := work(c)
	if cpu.Dgels(blas.NoTrans, m[0].rows, m[0].cols, m[1].cols, m[0].v, m[0].ld, m[1].v, m[1].ld, w, len(w)) {
		return 0
	}
	return firstZero(m[0])
}

func getrs(c *launched, m []matrix, v []float64) int32 {
	pivots := make([]int, len(v))
	for i, p := range v {
		pivots[i] = int(p) - 1
	}
	cpu.Dgetrs(transposes[c.Trans], m[0].rows, m[1].cols, m[0].v, m[0].ld, pivots, m[1].v, m[1].ld)
	return 0
}

func geqrf(c *launched, m []matrix, v []float64) int32 {
	w := work(c)
	cpu.Dgeqrf(m[0].rows, m[0].cols, m[0].v, m[0].ld, v, w, len(w))
	return 0
}

func ormqr(c *launched, m []matrix, v []float64) int32 {
	w := work(c)
	cpu.Dormqr(sides[c.Side], transposes[c.Trans], m[1].rows, m[1].cols, m[0].cols, m[0].v, m[0].ld, v, m[1].v, m[1].ld, w, len(w))
	return 0
}

func syevd(c *launched, m []matrix, v []float64) int32 {
	job := lapack.EVNone
	if c.Vectors {
		job = lapack.EVCompute
	}
	w := work(c)
	if !cpu.Dsyev(job, fills[c.Fill], m[0].rows, m[0].v, m[0].ld, v, w, len(w)) || c.diverge {
		return 1
	}
	return 0
}

func gesvd(c *launched, m []matrix, v []float64) int32 {
	jobs := map[cusolver.Job]lapack.SVDJob{cusolver.None: lapack.SVDNone, cusolver.Thin: lapack.SVDStore, cusolver.All: lapack.SVDAll}
	u, vt, rest := matrix{ld: 1}, matrix{ld: 1}, m[1:]
	if c.JobU != cusolver.None {
		u, rest = rest[0], rest[1:]
	}
	if c.JobVT != cusolver.None {
		vt = rest[0]
	}
	w := work(c)
	if !cpu.Dgesvd(jobs[c.JobU], jobs[c.JobVT], m[0].rows, m[0].cols, m[0].v, m[0].ld, v, u.v, u.ld, vt.v, vt.ld, w, len(w)) || c.diverge {
		return 2
	}
	return 0
}
