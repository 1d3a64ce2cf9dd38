package curand

import (
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ffi"
)

// The functions in the argument order of curand.h.

// generates are the functions of the distributions.
var generates = [...]function{
	Uint32: fnGenerate, Uniform: fnUniform, UniformDouble: fnUniformDouble, Normal: fnNormal, NormalDouble: fnNormalDouble,
	LogNormal: fnLogNormal, LogNormalDouble: fnLogNormalDouble, Poisson: fnPoisson,
}

// Create implements [API].
func (l *Library) Create(k Kind) (RawGenerator, Status) {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	b.out = 0
	s := l.call(fnCreate, b, 0, uintptr(unsafe.Pointer(&b.out)), uintptr(k))
	if s == StatusSuccess && b.out == 0 {
		s = StatusImpossibleValue
	}
	return RawGenerator(b.out), s
}

// Destroy implements [API].
func (l *Library) Destroy(g RawGenerator) Status { return l.do(fnDestroy, 0, uintptr(g)) }

// SetStream implements [API].
func (l *Library) SetStream(g RawGenerator, s driver.Stream) Status {
	return l.do(fnSetStream, 0, uintptr(g), uintptr(s))
}

// SetOrdering implements [API].
func (l *Library) SetOrdering(g RawGenerator, o Ordering) Status {
	return l.do(fnSetOrdering, 0, uintptr(g), uintptr(o))
}

// SetSeed implements [API].
func (l *Library) SetSeed(g RawGenerator, seed uint64) Status {
	return l.do(fnSetSeed, 0, uintptr(g), uintptr(seed))
}

// SetOffset implements [API].
func (l *Library) SetOffset(g RawGenerator, offset uint64) Status {
	return l.do(fnSetOffset, 0, uintptr(g), uintptr(offset))
}

// GenerateSeeds implements [API].
func (l *Library) GenerateSeeds(g RawGenerator) Status { return l.do(fnSeeds, 0, uintptr(g)) }

// Generate implements [API].
func (l *Library) Generate(g RawGenerator, c *Call) Status {
	if c.Distribution < 0 || int(c.Distribution) >= len(generates) {
		return StatusOutOfRange
	}
	f, to, n := generates[c.Distribution], uintptr(c.To), uintptr(c.N)
	const third, fourth = 1 << 3, 1 << 4 // words after the generator, the address and the count
	switch c.Distribution {
	case Normal, LogNormal:
		return l.do(f, third|fourth, uintptr(g), to, n, ffi.Float32(float32(c.A)), ffi.Float32(float32(c.B)))
	case NormalDouble, LogNormalDouble:
		return l.do(f, third|fourth, uintptr(g), to, n, ffi.Float64(c.A), ffi.Float64(c.B))
	case Poisson:
		return l.do(f, third, uintptr(g), to, n, ffi.Float64(c.A))
	}
	return l.do(f, 0, uintptr(g), to, n)
}
