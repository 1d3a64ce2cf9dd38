package curand

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/curand/internal/philox"
)

// CPU makes the numbers of a [Generator] with [Philox] on the CPU, in plain Go: it needs no cuRAND and no GPU. The same calls, in
// the same order, give the same numbers: bit for bit those of Uint32, Uniform and UniformDouble. Numbers of a normal
// distribution differ by the functions of the device: at most by [NormalTolerance], or [NormalDoubleTolerance], times the standard
// deviation, and the rounding of the mean. There is no Poisson.
//
// A CPU is half a megabyte. It is not safe for concurrent use.
type CPU struct{ state philox.State }

// How far numbers of a normal distribution on the device are from those of [CPU], for a standard deviation of 1. Logarithms of
// log-normal numbers are as far.
const (
	NormalTolerance       = 2e-5 // cuRAND takes the fast sine
	NormalDoubleTolerance = 1e-13
)

// NewCPU makes a generator on the CPU. Kinds other than Philox, and the orderings Seeded and Dynamic, are
// driver.ErrUnsupported. Best and Default are Legacy in all versions of cuRAND so far.
func NewCPU(o Options) (*CPU, error) {
	switch o = o.complete(); {
	case o.Kind != Philox:
		return nil, driver.Errorf(driver.ErrUnsupported, "kind %d on the CPU: only Philox, %d, is there", o.Kind, Philox)
	case o.Ordering != Legacy && o.Ordering != Best && o.Ordering != Default:
		return nil, driver.Errorf(driver.ErrUnsupported, "ordering %d on the CPU: only Legacy, %d, is there", o.Ordering, Legacy)
	}
	c := new(CPU)
	c.Reset(o.Seed, o.Offset)
	return c, nil
}

// Reset takes the generator to the given seed and offset.
func (c *CPU) Reset(seed, offset uint64) { c.state.Reset(seed, offset) }

// Uint32 fills to with numbers all of whose bits are random.
func (c *CPU) Uint32(to []uint32) { c.state.Uint32(to) }

// Uniform fills to with numbers above 0, up to 1.
func (c *CPU) Uniform(to []float32) { c.state.Uniform(to) }

// UniformDouble is [CPU.Uniform] of float64.
func (c *CPU) UniformDouble(to []float64) { c.state.UniformDouble(to) }

// Normal fills to with numbers of a normal distribution. On the device the count has to be even.
func (c *CPU) Normal(to []float32, mean, stddev float32) { c.state.Normal(to, mean, stddev) }

// NormalDouble is [CPU.Normal] of float64.
func (c *CPU) NormalDouble(to []float64, mean, stddev float64) {
	c.state.NormalDouble(to, mean, stddev)
}

// LogNormal fills to with numbers whose logarithms are those of [CPU.Normal].
func (c *CPU) LogNormal(to []float32, mean, stddev float32) { c.state.LogNormal(to, mean, stddev) }

// LogNormalDouble is [CPU.LogNormal] of float64.
func (c *CPU) LogNormalDouble(to []float64, mean, stddev float64) {
	c.state.LogNormalDouble(to, mean, stddev)
}
