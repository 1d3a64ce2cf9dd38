package curand

import (
	"strconv"

	"github.com/purecuda/purecuda/driver"
)

// RawGenerator is a curandGenerator_t. It belongs to the context that was current when it was made.
type RawGenerator uintptr

// API is cuRAND as this package calls it: [*Library] is the real one, and package curandtest has one that is
// simulated. A function that this cuRAND lacks returns [StatusSymbolMissing].
//
// No two methods may run at the same time with one generator. All but Version need the context of the generator
// current. https://docs.nvidia.com/cuda/curand
type API interface {
	// Version returns the version of cuRAND: major, minor, patch; 0 where it is not known.
	Version() [3]int
	// Create makes a generator, which Destroy frees. Destroy waits for the device.
	Create(k Kind) (RawGenerator, Status)
	Destroy(g RawGenerator) Status
	SetStream(g RawGenerator, s driver.Stream) Status
	SetOrdering(g RawGenerator, o Ordering) Status
	SetSeed(g RawGenerator, seed uint64) Status
	SetOffset(g RawGenerator, offset uint64) Status
	// GenerateSeeds sets up the states on the device. Without it the first Generate does that.
	GenerateSeeds(g RawGenerator) Status
	// Generate puts numbers into device memory, on the stream of the generator.
	Generate(g RawGenerator, c *Call) Status
}

// Kind is a curandRngType_t: an algorithm.
type Kind int32

// The kinds. On the CPU there is [Philox] alone.
const (
	XORWOW   Kind = 101
	MRG32k3a Kind = 121
	MTGP32   Kind = 141 // has no offset
	MT19937  Kind = 142 // has no offset
	Philox   Kind = 161 // Philox4x32-10
)

// Ordering is a curandOrdering_t: in which order results are taken from the sequences of a generator.
type Ordering int32

// The orderings.
const (
	Best    Ordering = 100
	Default Ordering = 101
	Seeded  Ordering = 102 // of XORWOW: set up faster, with weaker statistics
	// Legacy gives the same numbers on all devices and with all versions of cuRAND.
	Legacy  Ordering = 103
	Dynamic Ordering = 104 // the fastest; the numbers depend on the device
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
	if d < 0 || int(d) >= len(generates) {
		return "distribution " + strconv.Itoa(int(d))
	}
	return functions[generates[d]]
}

// pairs tells whether numbers are made two at a time.
func (d Distribution) pairs() bool { return d >= Normal && d <= LogNormalDouble }

// Call is what is generated.
type Call struct {
	Distribution Distribution
	To           driver.DevicePtr
	N            uint64 // numbers; even for those of a normal distribution
	A, B         float64
}
