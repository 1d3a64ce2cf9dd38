package curand

import (
	"strconv"

	"github.com/purecuda/purecuda/driver"
)

// Distribution is a function that generates.
type Distribution int32

// The distributions, and the fields of a [Call] that they read beside To and N.
const (
	Uint32 Distribution = iota // all bits are random
	Uniform
	UniformDouble
	Normal          // A is the mean, B the standard deviation
	NormalDouble    // A, B
	LogNormal       // A, B of the logarithm
	LogNormalDouble // A, B of the logarithm
	Poisson         // A is lambda
)

// String is the function of cuRAND.
func (d Distribution) String() string {
	if d < Uint32 || d > Poisson {
		return "distribution " + strconv.Itoa(int(d))
	}
	return functions[fnGenerate+function(d)]
}

// pairs tells whether numbers are made two at a time.
func (d Distribution) pairs() bool { return d >= Normal && d <= LogNormalDouble }

// Call is what is generated.
type Call struct {
	Distribution Distribution
	To           driver.DevicePtr
	N            uint64 // numbers; even for a normal distribution
	A, B         float64
}

// Generate implements [API].
func (l *Library) Generate(g RawGenerator, c *Call) Status {
	switch c.Distribution {
	case Uint32:
		return l.generate(g, c.To, c.N)
	case Uniform:
		return l.uniform(g, c.To, c.N)
	case UniformDouble:
		return l.uniformDouble(g, c.To, c.N)
	case Normal:
		return l.normal(g, c.To, c.N, float32(c.A), float32(c.B))
	case NormalDouble:
		return l.normalDouble(g, c.To, c.N, c.A, c.B)
	case LogNormal:
		return l.logNormal(g, c.To, c.N, float32(c.A), float32(c.B))
	case LogNormalDouble:
		return l.logNormalDouble(g, c.To, c.N, c.A, c.B)
	case Poisson:
		return l.poisson(g, c.To, c.N, c.A)
	}
	return StatusOutOfRange
}
