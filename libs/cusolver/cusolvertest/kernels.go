package cusolvertest

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/libs/cusolver/internal/lapack"
)

// iterates tells whether a routine may end without a result.
func iterates(r cusolver.Routine) bool {
	return r == cusolver.Syevd || r == cusolver.Gesvd || r == cusolver.SyevjBatched
}

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

// run reads the operands of a call, runs it, and writes back what has changed.
func run(k *drivertest.Launch) error {
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
		return one(k, &c, &info[0])
	}
	for i := range c.Batch {
		call, err := c.matrix(k, i)
		if err != nil {
			return err
		}
		if err := one(k, &call, &info[min(i, int64(len(info))-1)]); err != nil {
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

func compute[T float32 | float64](k *drivertest.Launch, c *launched, info *int32) error {
	var all []lapack.Matrix
	var stores []func()
	for _, o := range operands(&c.Call) {
		memory, err := drivertest.Slice[T](k, o.At, uint64(max((o.cols-1)*o.LD+o.rows, 0)))
		if err != nil {
			return err
		}
		m := lapack.New(int(o.rows), int(o.cols))
		each := func(f func(stored *T, value *float64)) {
			for i := range m.Rows {
				for j := range m.Cols {
					f(&memory[j*int(o.LD)+i], &m.V[i*m.LD+j])
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
	*info = lapack.Run(&c.Call, all, v)
	if c.diverge && *info == 0 && iterates(c.Routine) {
		*info = 1
	}
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
