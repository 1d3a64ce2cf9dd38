package curand_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/libs/curand"
	"github.com/purecuda/purecuda/libs/curand/curandtest"
	"github.com/purecuda/purecuda/runtime"
)

// counts are multiples of 4, of the results of all sequences, and none of these.
var counts = []int{1, 2, 3, 4, 1000, 65537, 4*65536 + 6}

// The numbers are those of the CPU, of each call and of the calls behind it.
func TestSameNumbersOnTheCPU(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		for _, n := range counts {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				b.TB = t
				o := curand.Options{Seed: 0x1234_5678_9abc_def0}
				sameNumbers(b, b.generator(o), cpu(t, o), n, (n+3)&^3)
			})
		}
	})
}

// sameNumbers compares all distributions. Each begins at the seed and an offset, and is drawn a few times.
func sameNumbers(b bench, g *curand.Generator, c *curand.CPU, sizes ...int) {
	b.Helper()
	restart := func() {
		require.NoError(b, g.Reset(99, 8))
		c.Reset(99, 8)
	}
	restart()
	for i, n := range sizes {
		same(b, fmt.Sprintf("Uint32, call %d", i), drawn(n, c.Uint32), made(b, n, g.Uint32))
	}
	restart()
	for i, n := range sizes {
		same(b, fmt.Sprintf("Uniform, call %d", i), drawn(n, c.Uniform), made(b, n, g.Uniform))
	}
	restart()
	for i, n := range sizes {
		same(b, fmt.Sprintf("UniformDouble, call %d", i), drawn(n, c.UniformDouble), made(b, n, g.UniformDouble))
	}
	for _, name := range []string{"Normal", "LogNormal"} {
		restart()
		for _, n := range sizes {
			n &^= 1
			cn, gn, scale := c.Normal, g.Normal, func(float32) float64 { return 1 }
			cd, gd := c.NormalDouble, g.NormalDouble
			if name == "LogNormal" { // whose logarithms are compared
				cn, gn, cd, gd = c.LogNormal, g.LogNormal, c.LogNormalDouble, g.LogNormalDouble
				scale = func(x float32) float64 { return float64(x) }
			}
			want := drawn(n, func(to []float32) { cn(to, 3, 2) })
			for i, x := range made(b, n, func(to *runtime.Ref[float32]) error { return gn(to, 3, 2) }) {
				if math.Abs(float64(x)-float64(want[i])) > (2*curand.NormalTolerance+1e-6)*max(scale(want[i]), 1) {
					b.Fatalf("%s: number %d of %d is %v: want %v", name, i, n, x, want[i])
				}
			}
			wantDouble := drawn(n, func(to []float64) { cd(to, -3, 0.5) })
			for i, x := range made(b, n, func(to *runtime.Ref[float64]) error { return gd(to, -3, 0.5) }) {
				if math.Abs(x-wantDouble[i]) > 2e-13*max(math.Abs(wantDouble[i]), 1) {
					b.Fatalf("%sDouble: number %d of %d is %v: want %v", name, i, n, x, wantDouble[i])
				}
			}
		}
	}
}

// drawn are n numbers of the CPU.
func drawn[T any](n int, f func(to []T)) []T {
	to := make([]T, n)
	f(to)
	return to
}

// same compares bit for bit, and says where the first difference is.
func same[T comparable](b testing.TB, what string, want, got []T) {
	b.Helper()
	require.Len(b, got, len(want), what)
	for i := range want {
		if want[i] != got[i] {
			b.Errorf("%s: of %d numbers, number %d is the first that differs: %v on the device, %v on the CPU", what, len(want), i, got[i], want[i])
			return
		}
	}
}

// FuzzNumbers compares with the CPU for any counts, seeds and offsets, in any order of calls.
func FuzzNumbers(f *testing.F) {
	f.Add(uint64(1), uint64(0), uint16(3), uint16(4))
	f.Add(uint64(0), uint64(5), uint16(1000), uint16(1))
	f.Add(uint64(math.MaxUint64), uint64(math.MaxUint64-5), uint16(9), uint16(65535))
	f.Fuzz(func(t *testing.T, seed, offset uint64, first, second uint16) {
		b, _, _ := simulated(t)
		o := curand.Options{Seed: seed, Offset: offset}
		g, c, r := b.generator(o), cpu(t, o), rand.New(rand.NewPCG(seed, offset))
		for range 4 {
			for _, n := range []int{int(first), int(second)} {
				switch r.IntN(4) {
				case 0:
					same(t, "Uint32", drawn(n, c.Uint32), made(b, n, g.Uint32))
				case 1:
					same(t, "Uniform", drawn(n, c.Uniform), made(b, n, g.Uniform))
				case 2:
					same(t, "UniformDouble", drawn(n, c.UniformDouble), made(b, n, g.UniformDouble))
				case 3:
					seed := r.Uint64()
					require.NoError(t, g.Reset(seed, offset))
					c.Reset(seed, offset)
				}
			}
		}
	})
}

func TestStatistics(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		const n = 1 << 16
		seeds.Each(t, 2, func(t *testing.T, seed uint64) {
			b.TB = t
			g := b.generator(curand.Options{Seed: seed})
			statistics(t, n, made(b, n, g.Uniform), made(b, n, g.UniformDouble),
				made(b, n, func(to *runtime.Ref[float32]) error { return g.Normal(to, 3, 2) }),
				made(b, n, func(to *runtime.Ref[float64]) error { return g.NormalDouble(to, -3, 0.5) }),
				made(b, n, func(to *runtime.Ref[float32]) error { return g.LogNormal(to, 1, 2) }),
				made(b, n, func(to *runtime.Ref[float64]) error { return g.LogNormalDouble(to, -1, 0.25) }))
			for _, lambda := range []float64{0.5, 10, 300, 3000} {
				mean, stddev := moments(made(b, n, func(to *runtime.Ref[uint32]) error { return g.Poisson(to, lambda) }))
				assert.InDelta(t, lambda, mean, 6*math.Sqrt(lambda/n), "lambda %v", lambda)
				assert.InDelta(t, math.Sqrt(lambda), stddev, 0.05*math.Sqrt(lambda), "lambda %v", lambda)
			}
		})
	})
}

// The other kinds and orderings are there on hardware alone. Their numbers are uniform, and come again with the seed.
func TestKindsAndOrderings(t *testing.T) {
	b := real(t)
	const n = 1 << 16
	for _, o := range []curand.Options{{Kind: curand.XORWOW}, {Kind: curand.MRG32k3a}, {Kind: curand.MTGP32, Ordering: curand.Default}, {Kind: curand.MT19937},
		{Ordering: curand.Default}, {Ordering: curand.Best}, {Ordering: curand.Dynamic}, {Kind: curand.XORWOW, Ordering: curand.Seeded}} {
		t.Run(fmt.Sprintf("%d-%d", o.Kind, o.Ordering), func(t *testing.T) {
			b.TB = t
			g := b.generator(o)
			first := made(b, n, g.Uniform)
			chiSquare(t, first)
			if o.Kind == curand.MTGP32 {
				require.ErrorIs(t, g.Reset(o.Seed, 0), driver.ErrUnsupported)
				g = b.generator(o)
			} else {
				require.NoError(t, g.Reset(o.Seed, 0))
			}
			same(t, "from the beginning", first, made(b, n, g.Uniform))
			made(b, n, func(to *runtime.Ref[float32]) error { return g.Normal(to, 0, 1) })
		})
	}
}

func TestKindsThatAreNotSimulated(t *testing.T) {
	b, _, lib := simulated(t)
	for _, o := range []curand.Options{{Kind: curand.XORWOW}, {Kind: curand.MT19937}, {Kind: 7}} {
		_, err := curand.New(lib, b.s, o)
		require.ErrorIs(t, err, curand.StatusTypeError)
		assert.ErrorIs(t, err, driver.ErrUnsupported)
	}
	for _, ordering := range []curand.Ordering{curand.Dynamic, 7} {
		_, err := curand.New(lib, b.s, curand.Options{Ordering: ordering})
		require.ErrorIs(t, err, curand.StatusOutOfRange)
		assert.ErrorContains(t, err, "curandSetGeneratorOrdering: ")
	}
}

// kind is a cuRAND whose generators are of any kind, and that notes whether an offset was set.
type kind struct {
	*curandtest.Library
	offsets *int
}

func (k kind) Create(curand.Kind) (curand.RawGenerator, curand.Status) {
	return k.Library.Create(curand.Philox)
}

func (k kind) SetOffset(g curand.RawGenerator, offset uint64) curand.Status {
	*k.offsets++
	return k.Library.SetOffset(g, offset)
}

// Generators that have no offset are not asked for one, unless the caller wants it.
func TestKindsWithoutOffset(t *testing.T) {
	b, _, lib := simulated(t)
	for k, want := range map[curand.Kind]int{curand.MTGP32: 0, curand.MT19937: 0, curand.XORWOW: 1, 0: 1} {
		offsets := 0
		b.api = kind{lib, &offsets}
		g := b.generator(curand.Options{Kind: k})
		assert.Equal(t, want, offsets)
		if k == curand.MTGP32 {
			require.ErrorIs(t, g.Reset(1, 0), driver.ErrUnsupported)
			continue
		}
		require.NoError(t, g.Reset(1, 2))
		assert.Equal(t, want+1, offsets)
	}
}

func TestConcurrentUseOfAGenerator(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		b.TB = t
		const n, calls = 1024, 8
		o := curand.Options{Seed: 3}
		g := b.generator(o)
		want := map[[n]uint32]bool{}
		for c := cpu(t, o); len(want) < calls; {
			want[[n]uint32(drawn(n, c.Uint32))] = true
		}
		got, wg := make([]*runtime.Ref[uint32], calls), sync.WaitGroup{}
		for i := range got {
			var err error
			got[i], err = runtime.Alloc[uint32](b.s, n)
			require.NoError(t, err)
			wg.Go(func() { assert.NoError(t, g.Uint32(got[i])) })
		}
		wg.Wait()
		for _, ref := range got { // each call has a part of the sequence, in some order
			part, err := runtime.DownloadNew(bg, b.s, ref)
			require.NoError(t, err)
			require.True(t, want[[n]uint32(part)])
			delete(want, [n]uint32(part))
			require.NoError(t, ref.Close())
		}
	})
}

// Each call is ordered with the work of other streams by its Refs, and Refs may be closed behind it.
func TestOrderAcrossStreams(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		b.TB = t
		const n = 1 << 16
		other, err := b.s.Context().NewStream()
		require.NoError(t, err)
		defer other.Close()
		o := curand.Options{Seed: 8}
		g, c := b.generator(o), cpu(t, o)
		for range 8 {
			between, err := runtime.Alloc[uint32](b.s, n)
			require.NoError(t, err)
			to, err := runtime.Alloc[uint32](other, n)
			require.NoError(t, err)
			require.NoError(t, g.Uint32(between))
			require.NoError(t, runtime.Copy(other, to, between))
			require.NoError(t, between.Close())
			got, err := runtime.DownloadNew(bg, other, to)
			require.NoError(t, err)
			require.NoError(t, to.Close())
			same(t, "behind the other stream", drawn(n, c.Uint32), got)
		}
	})
}

// A call is recorded. What replays give is not promised; the log says what it is. In the simulated library each goes on in the
// sequence.
func TestCapture(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		b.TB = t
		const n = 1000
		o := curand.Options{Seed: 21}
		g, c := b.generator(o), cpu(t, o)
		to, err := runtime.Alloc[uint32](b.s, n)
		require.NoError(t, err)
		defer to.Close()
		graph, err := b.s.Capture(func(*runtime.Stream) error { return g.Uint32(to) })
		require.NoError(t, err)
		defer graph.Close()
		exec, err := graph.Instantiate()
		require.NoError(t, err)
		defer exec.Close()
		var replays [3][]uint32
		for i := range replays {
			require.NoError(t, exec.Launch(b.s))
			replays[i], err = runtime.DownloadNew(bg, b.s, to)
			require.NoError(t, err)
		}
		first, second := drawn(n, c.Uint32), drawn(n, c.Uint32)
		if _, ok := b.api.(*curandtest.Library); ok {
			same(t, "the first replay", first, replays[0])
			same(t, "the second replay", second, replays[1])
			return
		}
		t.Logf("the sequence: %08x..., then %08x...", first[:4], second[:4])
		for i, replay := range replays {
			t.Logf("replay %d: %08x..., the first of the sequence: %v, the second: %v", i, replay[:4], slices.Equal(replay, first), slices.Equal(replay, second))
		}
		t.Logf("after the replays: %08x...", made(b, n, g.Uint32)[:4])
	})
}

func TestGeneratorEnds(t *testing.T) {
	b, _, lib := simulated(t)
	x, err := runtime.Alloc[float32](b.s, 8)
	require.NoError(t, err)
	g, err := curand.New(lib, b.s, curand.Options{})
	require.NoError(t, err)
	assert.Same(t, b.s, g.Stream())
	require.NoError(t, g.Uniform(x))
	require.NoError(t, g.Close())
	require.NoError(t, g.Close())
	require.ErrorIs(t, g.Uniform(x), driver.ErrClosed)
	require.ErrorIs(t, g.Reset(0, 0), driver.ErrClosed)
	var none *curand.Generator
	assert.NoError(t, none.Close())
	assert.NoError(t, new(curand.Generator).Close())
	assert.Nil(t, none.Stream())

	g = b.generator(curand.Options{})
	require.NoError(t, b.s.Context().Reset(bg))
	assert.Zero(t, lib.Left(), "they end with the context")
	s, err := b.s.Context().NewStream()
	require.NoError(t, err)
	defer s.Close()
	fresh, err := runtime.Alloc[float32](s, 8)
	require.NoError(t, err)
	defer fresh.Close()
	assert.ErrorIs(t, g.Uniform(fresh), driver.ErrRefStale)
	g, err = curand.New(lib, s, curand.Options{})
	require.NoError(t, err)
	defer g.Close()
	require.ErrorIs(t, g.Uniform(x), driver.ErrRefStale)
	require.NoError(t, g.Uniform(fresh))
	require.NoError(t, s.Synchronize(bg))
}

func TestGeneratorThatCannotBeMade(t *testing.T) {
	b, gpu, lib := simulated(t)
	for name, c := range map[string]struct {
		api curand.API
		s   *runtime.Stream
	}{"no library": {nil, b.s}, "no stream": {lib, nil}, "empty stream": {lib, new(runtime.Stream)}} {
		_, err := curand.New(c.api, c.s, curand.Options{})
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, name)
	}
	for method, name := range map[string]string{"Create": "curandCreateGenerator", "SetStream": "curandSetStream", "SetOrdering": "curandSetGeneratorOrdering",
		"SetSeed": "curandSetPseudoRandomGeneratorSeed", "SetOffset": "curandSetGeneratorOffset", "GenerateSeeds": "curandGenerateSeeds"} {
		lib.Fail(method, curand.StatusAllocationFailed)
		_, err := curand.New(lib, b.s, curand.Options{})
		require.ErrorIs(t, err, curand.StatusAllocationFailed)
		assert.ErrorIs(t, err, driver.ErrOutOfMemory)
		assert.ErrorContains(t, err, name+": ")
		lib.Fail(method, curand.StatusSuccess)
		assert.Zero(t, lib.Left())
	}
	gpu.Fail("cuMemAlloc", 1, driver.ResultOutOfMemory)
	_, err := curand.New(lib, b.s, curand.Options{})
	assert.ErrorIs(t, err, driver.ErrOutOfMemory, "the states")
}

func TestFailures(t *testing.T) {
	b, _, lib := simulated(t)
	g := b.generator(curand.Options{})
	x, err := runtime.Alloc[float32](b.s, 8)
	require.NoError(t, err)
	defer x.Close()
	for status, kind := range map[curand.Status]driver.Kind{
		curand.StatusTypeError: driver.ErrUnsupported, curand.StatusArchMismatch: driver.ErrUnsupported, curand.StatusDoublePrecisionRequired: driver.ErrUnsupported,
		curand.StatusAllocationFailed: driver.ErrOutOfMemory, curand.StatusOutOfRange: driver.ErrInvalidArgument, curand.StatusLengthNotMultiple: driver.ErrInvalidArgument,
		curand.StatusLaunchFailure: driver.ErrDriverCallFailed, curand.StatusSymbolMissing: driver.ErrSymbolMissing, 99: driver.ErrDriverCallFailed,
	} {
		lib.Fail("curandGenerateUniform", status)
		err := g.Uniform(x)
		require.ErrorIs(t, err, status)
		assert.ErrorIs(t, err, kind)
		assert.ErrorContains(t, err, "curandGenerateUniform: ")
	}
	lib.SetVersion([3]int{10, 1, 2})
	lib.Fail("curandGenerateUniform", curand.StatusSymbolMissing)
	assert.ErrorContains(t, g.Uniform(x), "curandGenerateUniform needs cuRAND 10.2, found 10.1.2")
	lib.Fail("curandGenerateUniform", curand.StatusSuccess)
	require.NoError(t, g.Uniform(x))
	lib.Fail("SetSeed", curand.StatusInternalError)
	assert.ErrorIs(t, g.Reset(1, 1), curand.StatusInternalError)
	lib.Fail("SetSeed", curand.StatusSuccess)
	require.NoError(t, g.Reset(1, 1))
}

func TestWrongArguments(t *testing.T) {
	b, gpu, _ := simulated(t)
	g := b.generator(curand.Options{})
	require.NoError(t, b.s.Synchronize(bg))
	words, err := runtime.Alloc[uint32](b.s, 9)
	require.NoError(t, err)
	defer words.Close()
	floats, err := runtime.Alloc[float32](b.s, 9)
	require.NoError(t, err)
	defer floats.Close()
	doubles, err := runtime.Alloc[float64](b.s, 9)
	require.NoError(t, err)
	defer doubles.Close()
	var none *curand.Generator
	before := gpu.Calls("cuLaunchKernel")
	for want, err := range map[string]error{
		"curandGenerateNormal of 9 numbers: want an even count": g.Normal(floats, 0, 1),
		"curandGenerateNormalDouble of 9 numbers":               g.NormalDouble(doubles, 0, 1),
		"curandGenerateLogNormal of 9 numbers":                  g.LogNormal(floats, 0, 1),
		"curandGenerateLogNormalDouble of 9 numbers":            g.LogNormalDouble(doubles, 0, 1),
		"curandGenerateUniform has no memory":                   g.Uniform(nil),
		"curandGenerate with no generator":                      none.Uint32(words),
		"curand.Reset with no generator":                        new(curand.Generator).Reset(1, 2),
		"curandGenerateUniformDouble with no generator":         new(curand.Generator).UniformDouble(doubles),
		"lambda 0: want above 0, at most 400000":                g.Poisson(words, 0),
		"lambda NaN: want":                                      g.Poisson(words, math.NaN()),
		"lambda 400001: want":                                   g.Poisson(words, 400001),
		"want a multiple of 16, such as a Slice from a":         g.Uint32(words.Slice(1, 9)),
	} {
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, want)
		assert.ErrorContains(t, err, want)
	}
	for _, err := range []error{g.Uint32(words.Slice(4, 4)), g.Normal(floats.Slice(2, 2), 0, 1), g.Poisson(words.Slice(0, 0), 1)} {
		assert.NoError(t, err, "nothing to do")
	}
	assert.Equal(t, before, gpu.Calls("cuLaunchKernel"))
	assert.NoError(t, g.Uint32(words.Slice(4, 9)))
}

// Memory of another device is refused by name.
func TestWrongDevice(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: curandtest.Kernels(), Devices: []drivertest.DeviceConfig{drivertest.A100(), drivertest.A100()}})
	b := on(t, gpu, curandtest.New(gpu))
	other, err := b.s.Context().Runtime().Context(1)
	require.NoError(t, err)
	s, err := other.NewStream()
	require.NoError(t, err)
	defer s.Close()
	there, err := runtime.Alloc[uint32](s, 4)
	require.NoError(t, err)
	defer there.Close()
	err = b.generator(curand.Options{}).Uint32(there)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "curandGenerate uses memory of device 1")
}

// What goes around the checks of this package the simulated library finds: memory that is too small or was
// freed is a fault of the device, as on hardware, and names the allocation.
func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*curand.Call)
		freed bool
		want  string
	}{
		"small":        {func(c *curand.Call) { c.N = 17 }, false, "beyond the end of the allocation"},
		"double":       {func(c *curand.Call) { c.Distribution = curand.UniformDouble }, false, "beyond the end of the allocation"},
		"huge":         {func(c *curand.Call) { c.N = math.MaxUint64 }, false, "beyond the end of the allocation"},
		"misaligned":   {func(c *curand.Call) { c.To += 2 }, false, "is not a multiple of 4"},
		"after a free": {func(*curand.Call) {}, true, "freed"},
	} {
		t.Run(name, func(t *testing.T) {
			gpu := drivertest.New(drivertest.Config{Kernels: curandtest.Kernels()})
			defer gpu.Close()
			lib := curandtest.New(gpu)
			rt, err := runtime.Open(runtime.WithDriver(gpu))
			require.NoError(t, err)
			defer rt.Close()
			ctx, err := rt.Context(0)
			require.NoError(t, err)
			require.NoError(t, ctx.Do(func() error {
				assert.Equal(t, curand.StatusNotInitialized, lib.Destroy(7))
				g, status := lib.Create(curand.Philox)
				require.Equal(t, curand.StatusSuccess, status)
				s, r := gpu.StreamCreate(driver.StreamNonBlocking)
				require.Equal(t, driver.Success, r)
				require.Equal(t, curand.StatusSuccess, lib.SetStream(g, s))
				at, r := gpu.MemAlloc(64)
				require.Equal(t, driver.Success, r)
				call := curand.Call{Distribution: curand.Uint32, To: at, N: 16}
				for wrong, c := range map[curand.Status][]curand.Call{
					curand.StatusOutOfRange: {{To: at, N: 1, Distribution: 99}, {To: at, N: 1, Distribution: -1}, {N: 1},
						{To: at, N: 1, Distribution: curand.Poisson}, {To: at, N: 1, A: 400001, Distribution: curand.Poisson}},
					curand.StatusLengthNotMultiple: {{To: at, N: 1, Distribution: curand.Normal}, {To: at, N: 1, Distribution: curand.LogNormalDouble}},
				} {
					for _, c := range c {
						assert.Equal(t, wrong, lib.Generate(g, &c))
					}
				}
				if c.freed {
					require.Equal(t, driver.Success, gpu.MemFree(call.To))
				}
				c.spoil(&call)
				assert.Equal(t, curand.StatusSuccess, lib.Generate(g, &call), "as on hardware: the fault comes later")
				assert.True(t, gpu.StreamSynchronize(s).Sticky())
				return nil
			}))
			require.NotEmpty(t, gpu.Findings())
			assert.Contains(t, gpu.Findings()[0].Detail, c.want)
		})
	}
}

// After a loss nothing is submitted any more, and the error has the first cause.
func TestAfterALoss(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{Kernels: curandtest.Kernels()})
	defer gpu.Close()
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer rt.Close()
	ctx, err := rt.Context(0)
	require.NoError(t, err)
	s, err := ctx.NewStream()
	require.NoError(t, err)
	g, err := curand.New(curandtest.New(gpu), s, curand.Options{})
	require.NoError(t, err)
	x, err := runtime.UploadNew(bg, s, make([]float32, 4))
	require.NoError(t, err)
	gpu.Fail("cuMemsetD8Async", 1, driver.ResultIllegalAddress)
	require.Error(t, runtime.Zero(s, x))
	for _, err := range []error{g.Uniform(x), g.Reset(1, 1)} {
		require.ErrorIs(t, err, driver.ErrDeviceLost)
		assert.ErrorIs(t, err, driver.ResultIllegalAddress)
	}
	assert.NoError(t, g.Close())
}
