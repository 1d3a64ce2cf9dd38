package curand

import (
	"errors"
	"fmt"
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// Options of [New] and [NewCPU]. The zero value is [Philox] with the seed 0, in an order that stays.
type Options struct {
	Kind Kind // 0 means Philox
	// Seed chooses the numbers: with the same one they are the same in each run.
	Seed uint64
	// Offset is how many numbers are left out at the beginning. MTGP32 and MT19937 have none.
	Offset   uint64
	Ordering Ordering // 0 means Legacy
}

func (o Options) complete() Options {
	if o.Kind == 0 {
		o.Kind = Philox
	}
	if o.Ordering == 0 {
		o.Ordering = Legacy
	}
	return o
}

// Generator makes random numbers on a stream. It is safe for concurrent use; calls of one generator run in the order in
// which they come, and go on in its sequence. What needs to run at the same time needs a generator each, with a seed or an
// offset of its own.
type Generator struct {
	api     API
	s       *runtime.Stream
	library *runtime.LibraryHandle
	raw     RawGenerator
	kind    Kind
	mu      sync.Mutex // held over each call
	call    Call       // the call that is made
}

// New makes a generator for a stream, with its states on the device. cuRAND allocates them itself: some megabytes, which do not
// come from the memory of the context. This may wait for the device, and cannot be captured.
//
// It ends with the context: after Context.Reset its calls return driver.ErrRefStale, and a new one has to
// be made.
func New(api API, s *runtime.Stream, o Options) (*Generator, error) {
	switch {
	case api == nil:
		return nil, wrong("curand.New takes a library: see Open")
	case s == nil || s.Context() == nil:
		return nil, wrong("curand.New takes a stream that is not nil")
	}
	o = o.complete()
	g := &Generator{api: api, s: s, kind: o.Kind}
	if err := g.open(o); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func (g *Generator) open(o Options) (err error) {
	api := g.api // what destroys must not refer to g
	g.library, err = g.s.Context().NewLibraryHandle("curandCreateGenerator", func() (func() error, error) {
		raw, status := api.Create(o.Kind)
		g.raw = raw
		if status != StatusSuccess {
			return nil, failed(api, "curandCreateGenerator", status)
		}
		return func() error { return failed(api, "curandDestroyGenerator", api.Destroy(raw)) }, nil
	})
	if err != nil {
		return err
	}
	g.api = in(api, g.library)
	return g.submit("curand.New", func(s driver.Stream, _ driver.DevicePtr) error {
		if status := g.api.SetStream(g.raw, s); status != StatusSuccess {
			return g.stopped("curandSetStream", status)
		}
		if status := g.api.SetOrdering(g.raw, o.Ordering); status != StatusSuccess {
			return g.stopped("curandSetGeneratorOrdering", status)
		}
		return g.start(o.Seed, o.Offset)
	})
}

// start sets where the sequence begins. g.mu is held.
func (g *Generator) start(seed, offset uint64) error {
	if s := g.api.SetSeed(g.raw, seed); s != StatusSuccess {
		return g.stopped("curandSetPseudoRandomGeneratorSeed", s)
	}
	// An offset of 0 is set as well: it takes the generator back to the beginning.
	if noOffset := g.kind == MTGP32 || g.kind == MT19937; !noOffset || offset != 0 {
		if s := g.api.SetOffset(g.raw, offset); s != StatusSuccess {
			return g.stopped("curandSetGeneratorOffset", s)
		}
	}
	if s := g.api.GenerateSeeds(g.raw); s != StatusSuccess {
		return g.stopped("curandGenerateSeeds", s)
	}
	return nil
}

// stopped is why the last of several functions failed.
func (g *Generator) stopped(function string, s Status) error {
	return fmt.Errorf("%s: %w", function, failed(g.api, function, s))
}

// Reset takes the generator to the given seed and offset, behind the work that is on the stream. It may wait for the device. It
// is not for captures: what cuRAND notes on the host a replay does not repeat. MTGP32 is driver.ErrUnsupported: cuRAND 10.4 goes on
// elsewhere in its sequence.
func (g *Generator) Reset(seed, offset uint64) error {
	if g != nil && g.kind == MTGP32 {
		return driver.Errorf(driver.ErrUnsupported, "cuRAND does not take MTGP32 back to the beginning: make a new generator")
	}
	return g.submit("curand.Reset", func(driver.Stream, driver.DevicePtr) error { return g.start(seed, offset) })
}

// Close waits for the device, and frees the generator with its states. It may be called twice. What a graph uses is freed after
// the graph.
func (g *Generator) Close() error {
	if g == nil {
		return nil
	}
	return g.library.Close()
}

// Stream is the stream that it generates on.
func (g *Generator) Stream() *runtime.Stream {
	if g == nil {
		return nil
	}
	return g.s
}

// Uint32 fills to with numbers all of whose bits are random.
func (g *Generator) Uint32(to *runtime.Ref[uint32]) error { return generate(g, Uint32, to, 0, 0) }

// Uniform fills to with numbers above 0, up to 1: 0 does not occur, and 1 does. math/rand has it the other way around.
func (g *Generator) Uniform(to *runtime.Ref[float32]) error { return generate(g, Uniform, to, 0, 0) }

// UniformDouble is [Generator.Uniform] of float64.
func (g *Generator) UniformDouble(to *runtime.Ref[float64]) error {
	return generate(g, UniformDouble, to, 0, 0)
}

// Normal fills to with numbers of a normal distribution. They are made in pairs: to has an even count.
func (g *Generator) Normal(to *runtime.Ref[float32], mean, stddev float32) error {
	return generate(g, Normal, to, float64(mean), float64(stddev))
}

// NormalDouble is [Generator.Normal] of float64.
func (g *Generator) NormalDouble(to *runtime.Ref[float64], mean, stddev float64) error {
	return generate(g, NormalDouble, to, mean, stddev)
}

// LogNormal fills to with numbers whose logarithms are those of [Generator.Normal]. The count is even.
func (g *Generator) LogNormal(to *runtime.Ref[float32], mean, stddev float32) error {
	return generate(g, LogNormal, to, float64(mean), float64(stddev))
}

// LogNormalDouble is [Generator.LogNormal] of float64.
func (g *Generator) LogNormalDouble(to *runtime.Ref[float64], mean, stddev float64) error {
	return generate(g, LogNormalDouble, to, mean, stddev)
}

// maxLambda is the largest that cuRAND takes.
const maxLambda = 400_000

// Poisson fills to with numbers of a Poisson distribution with the mean lambda, which is above 0 and at most 400,000. For a
// lambda that is new cuRAND makes tables, which allocates and may wait for the device: call it once before a capture.
func (g *Generator) Poisson(to *runtime.Ref[uint32], lambda float64) error {
	if !(lambda > 0 && lambda <= maxLambda) {
		return wrong("%v of lambda %v: want above 0, at most %d", Poisson, lambda, maxLambda)
	}
	return generate(g, Poisson, to, lambda, 0)
}

// vector is what addresses are multiples of: kernels of cuRAND write so many bytes at a time, and one that is not would lose
// the device.
const vector = 16

// generate puts a call on the stream.
func generate[T uint32 | float32 | float64](g *Generator, d Distribution, to *runtime.Ref[T], a, b float64) error {
	switch {
	case g == nil || g.s == nil:
		return wrong("%v with no generator: see curand.New", d)
	case to == nil:
		return wrong("%v has no memory: the Ref is nil", d)
	case d.pairs() && to.Len()%2 != 0:
		return wrong("%v of %d numbers: want an even count, because they are made in pairs: allocate one more, or take a Slice", d, to.Len())
	case to.Len() == 0:
		return nil
	}
	return g.submit(d.String(), func(_ driver.Stream, at driver.DevicePtr) error {
		if at%vector != 0 {
			return wrong("memory at %#x: want a multiple of %d, such as a Slice from a multiple of %d elements on", at, vector, vector/4)
		}
		g.call = Call{Distribution: d, To: at, N: uint64(to.Len()), A: a, B: b}
		return failed(g.api, d.String(), g.api.Generate(g.raw, &g.call))
	}, runtime.InOut(to))
}

// submit runs f, which calls cuRAND, ordered with what it uses. at is the address of the first use, or 0.
func (g *Generator) submit(name string, f func(s driver.Stream, at driver.DevicePtr) error, uses ...runtime.Arg) error {
	if g == nil || g.s == nil {
		return wrong("%s with no generator: see curand.New", name)
	}
	all := append(make([]runtime.Arg, 0, 2), uses...)
	return g.s.Submit(name, func(s driver.Stream, at []driver.DevicePtr) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		return f(s, at[0])
	}, append(all, g.library.Arg())...)
}
