package cublas_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cublas/cublastest"
	"github.com/purecuda/purecuda/runtime"
)

// square makes three matrices of n x n.
func square(b bench, n int) (x, y, z operand[float32]) {
	r := rand.New(rand.NewPCG(uint64(n), 23))
	return randomAs[float32](b, r, n, n, false, 0, 0), randomAs[float32](b, r, n, n, false, 0, 0), randomAs[float32](b, r, n, n, false, 0, 0)
}

// All routines work in a capture, and each launch of the graph computes again.
func TestCapture(t *testing.T) {
	conform(t, cublas.Options{}, func(t *testing.T, b bench) {
		b.TB = t
		x, y, z := square(b, 8)
		require.NoError(t, cublas.Matmul(b.h, cublas.Product[float32, float32]{Alpha: 1, A: x.Matrix, B: y.Matrix, D: z.Matrix}), "the way is looked for outside")
		require.NoError(t, runtime.Upload(bg, b.s, z.Ref, z.host))
		sum, err := runtime.Alloc[float32](b.s, 1)
		require.NoError(t, err)
		defer sum.Close()
		graph, err := b.s.Capture(func(*runtime.Stream) error {
			for _, err := range []error{
				cublas.Gemm(b.h, 1, x.Matrix, y.Matrix, 1, z.Matrix),
				cublas.GemmEach(b.h, 1, []cublas.Matrix[float32]{x.Matrix}, []cublas.Matrix[float32]{y.Matrix}, 1, []cublas.Matrix[float32]{z.Matrix}),
				cublas.Matmul(b.h, cublas.Product[float32, float32]{Alpha: 1, Beta: 1, A: x.Matrix, B: y.Matrix, D: z.Matrix}),
				cublas.Dot(b.h, cublas.Vector[float32]{Ref: x.Ref, N: 8, Inc: 1}, cublas.Vector[float32]{Ref: y.Ref, N: 8, Inc: 1}, sum),
			} {
				if err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(t, err)
		defer graph.Close()
		run, err := graph.Instantiate()
		require.NoError(t, err)
		defer run.Close()
		const launches = 3
		for range launches {
			require.NoError(t, run.Launch(b.s))
		}
		one := product(1, x, y, 0, z, 0x1p-23)
		z.expect(b, func(i, j int) (float64, float64, bool) {
			v, tolerance, _ := one(i, j)
			return 3*launches*v + z.at(i, j), 20 * (tolerance + 0x1p-20), true
		})
	})
}

// Each call is ordered with the work of other streams by its Refs, and Refs may be closed behind it.
func TestOrderAcrossStreams(t *testing.T) {
	conform(t, cublas.Options{}, func(t *testing.T, b bench) {
		b.TB = t
		other, err := b.s.Context().NewStream()
		require.NoError(t, err)
		defer other.Close()
		h, err := cublas.New(b.api, other, cublas.Options{})
		require.NoError(t, err)
		defer h.Close()
		x, y, z := square(b, 16)
		between, err := runtime.Alloc[float32](b.s, 256)
		require.NoError(t, err)
		m := cublas.Dense(between, 16, 16)
		require.NoError(t, cublas.Gemm(b.h, 1, x.Matrix, y.Matrix, 0, m))
		require.NoError(t, cublas.Gemm(h, 2, m, y.Matrix, 0, z.Matrix))
		require.NoError(t, between.Close())
		xy := operand[float32]{cublas.Dense(between, 16, 16), make([]float32, 256)}
		first := product(1, x, y, 0, z, 0)
		for i := range 16 {
			for j := range 16 {
				v, _, _ := first(i, j)
				xy.host[16*i+j] = float32(v)
			}
		}
		z.expect(b, product(2, xy, y, 0, z, 0x1p-20))
	})
}

func TestConcurrentUseOfAHandle(t *testing.T) {
	conform(t, cublas.Options{}, func(t *testing.T, b bench) {
		b.TB = t
		x, y, _ := square(b, 8)
		var wg sync.WaitGroup
		results := make([]operand[float32], 8)
		for i := range results {
			_, _, results[i] = square(b, 8)
			wg.Go(func() {
				sum, err := runtime.Alloc[float32](b.s, 1)
				if !assert.NoError(t, err) {
					return
				}
				defer sum.Close()
				for range 5 { // device and host scalars in turns
					assert.NoError(t, cublas.Gemm(b.h, 1, x.Matrix, y.Matrix, 0, results[i].Matrix))
					assert.NoError(t, cublas.Nrm2(b.h, cublas.Vector[float32]{Ref: x.Ref, N: 8, Inc: 1}, sum))
					assert.NoError(t, cublas.Matmul(b.h, cublas.Product[float32, float32]{Alpha: 1, A: x.Matrix, B: y.Matrix, D: results[i].Matrix}))
				}
			})
		}
		wg.Wait()
		for _, z := range results {
			z.expect(b, product(1, x, y, 0, z, 0x1p-23))
		}
	})
}

func TestHandleEnds(t *testing.T) {
	b, _, lib := simulated(t)
	x, y, z := square(b, 4)
	multiply := func(h *cublas.Handle) error { return cublas.Gemm(h, 1, x.Matrix, y.Matrix, 0, z.Matrix) }
	h, err := cublas.New(lib, b.s, cublas.Options{Workspace: 1 << 20})
	require.NoError(t, err)
	assert.Same(t, b.s, h.Stream())
	require.NoError(t, multiply(h))
	require.NoError(t, h.Close())
	require.NoError(t, h.Close())
	require.ErrorIs(t, multiply(h), driver.ErrClosed)
	for _, none := range []*cublas.Handle{nil, {}} {
		assert.NoError(t, none.Close())
		assert.Nil(t, none.Stream())
		assert.ErrorIs(t, multiply(none), driver.ErrInvalidArgument)
		assert.ErrorIs(t, cublas.Matmul(none, cublas.Product[float32, float32]{A: x.Matrix, B: y.Matrix, D: z.Matrix}), driver.ErrInvalidArgument)
		assert.ErrorIs(t, cublas.Scal(none, 1, cublas.Elements(x.Ref)), driver.ErrInvalidArgument)
	}
	assert.ErrorIs(t, cublas.Scal(b.h, 1, cublas.Elements[float32](nil)), driver.ErrInvalidArgument)

	require.NoError(t, b.s.Context().Reset(bg))
	handles, _ := lib.Left()
	assert.Zero(t, handles, "they end with the context")
	assert.ErrorIs(t, multiply(b.h), driver.ErrRefStale)

	s, err := b.s.Context().NewStream()
	require.NoError(t, err)
	defer s.Close()
	h, err = cublas.New(lib, s, cublas.Options{})
	require.NoError(t, err)
	defer h.Close()
	after := bench{t, lib, s, h}
	x, y, z = square(after, 4)
	require.NoError(t, multiply(h))
	z.expect(after, product(1, x, y, 0, z, 0x1p-23))
}

func TestHandleThatCannotBeMade(t *testing.T) {
	b, _, lib := simulated(t)
	for name, c := range map[string]struct {
		api  cublas.API
		s    *runtime.Stream
		o    cublas.Options
		want driver.Kind
	}{
		"no library":         {nil, b.s, cublas.Options{}, driver.ErrInvalidArgument},
		"no stream":          {lib, nil, cublas.Options{}, driver.ErrInvalidArgument},
		"empty stream":       {lib, new(runtime.Stream), cublas.Options{}, driver.ErrInvalidArgument},
		"negative workspace": {lib, b.s, cublas.Options{Workspace: -1}, driver.ErrInvalidArgument},
		"vast workspace":     {lib, b.s, cublas.Options{Workspace: math.MaxInt >> 17}, driver.ErrOutOfMemory},
	} {
		_, err := cublas.New(c.api, c.s, c.o)
		assert.ErrorIs(t, err, c.want, name)
	}
	for method, name := range map[string]string{"Create": "cublasCreate", "SetStream": "cublasSetStream"} {
		lib.Fail(method, cublas.StatusAllocFailed)
		_, err := cublas.New(lib, b.s, cublas.Options{})
		require.ErrorIs(t, err, cublas.StatusAllocFailed)
		assert.ErrorIs(t, err, driver.ErrOutOfMemory)
		assert.ErrorContains(t, err, name+": ")
		lib.Fail(method, cublas.StatusSuccess)
	}
}

func TestFailures(t *testing.T) {
	b, _, lib := simulated(t)
	x, y, z := square(b, 16)
	multiply := func() error { return cublas.Gemm(b.h, 1, x.Matrix, y.Matrix, 0, z.Matrix) }
	for status, kind := range map[cublas.Status]driver.Kind{
		cublas.StatusNotSupported: driver.ErrUnsupported, cublas.StatusArchMismatch: driver.ErrUnsupported,
		cublas.StatusAllocFailed: driver.ErrOutOfMemory, cublas.StatusInternalError: driver.ErrDriverCallFailed,
		cublas.StatusSymbolMissing: driver.ErrSymbolMissing, 99: driver.ErrDriverCallFailed,
	} {
		lib.Fail("Gemm", status)
		err := multiply()
		require.ErrorIs(t, err, status)
		assert.ErrorIs(t, err, kind)
		assert.ErrorContains(t, err, "cublasGemmEx: ")
	}
	lib.SetVersion([3]int{11, 2, 1})
	lib.Fail("Gemm", cublas.StatusSymbolMissing)
	assert.ErrorContains(t, multiply(), "cublasGemmEx needs cuBLAS 11.4, found 11.2.1")
	lib.Fail("Gemm", cublas.StatusSuccess)
	require.NoError(t, multiply())

	r := rand.New(rand.NewPCG(1, 1))
	a8, b8, d := randomAs[cublas.Float8E4M3](b, r, 16, 16, false, 0, 0), randomAs[cublas.Float8E4M3](b, r, 16, 16, true, 0, 0), z
	float8 := cublas.Product[cublas.Float8E4M3, float32]{Alpha: 1, A: a8.Matrix, B: b8.Matrix, D: d.Matrix}
	err := cublas.Matmul(b.h, float8)
	require.ErrorIs(t, err, driver.ErrSymbolMissing)
	assert.ErrorContains(t, err, "cublasLtMatmul of fp8 needs cuBLAS 11.8, found 11.2.1")
	lib.SetVersion([3]int{12, 0, 0})
	require.NoError(t, cublas.Matmul(b.h, float8))
	float8.B = float8.A
	assert.ErrorContains(t, cublas.Matmul(b.h, float8), "B is the transposed view")
	float8.A, float8.B, float8.D = a8.Slice(0, 8, 0, 16), b8.Matrix, z.Slice(0, 8, 0, 16)
	err = cublas.Matmul(b.h, float8)
	require.ErrorIs(t, err, cublas.StatusNotSupported)
	assert.ErrorIs(t, err, driver.ErrUnsupported)

	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: cublastest.Kernels(), Devices: []drivertest.DeviceConfig{drivertest.A100()}})
	older := on(t, gpu, cublastest.New(gpu), cublas.Options{})
	a8, b8 = randomAs[cublas.Float8E4M3](older, r, 16, 16, false, 0, 0), randomAs[cublas.Float8E4M3](older, r, 16, 16, true, 0, 0)
	_, _, z = square(older, 16)
	err = cublas.Matmul(older.h, cublas.Product[cublas.Float8E4M3, float32]{A: a8.Matrix, B: b8.Matrix, D: z.Matrix})
	require.ErrorIs(t, err, driver.ErrUnsupported)
	assert.ErrorContains(t, err, "fp8 needs compute capability 8.9, found 8.0")
}

// What goes around the checks of this package the simulated library finds: operands that are too small or
// were freed are faults of the device, as on hardware, and name the allocation.
func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*cublas.GemmCall)
		freed bool
		want  string
	}{
		"small":        {func(c *cublas.GemmCall) { c.M = 5 }, false, "beyond the end of the allocation"},
		"stride":       {func(c *cublas.GemmCall) { c.B.LD = 9 }, false, "beyond the end of the allocation"},
		"misaligned":   {func(c *cublas.GemmCall) { c.A.At += 2 }, false, "is not a multiple of 4"},
		"overlap":      {func(c *cublas.GemmCall) { c.C.At = c.B.At }, false, "the result overlaps an operand"},
		"after a free": {func(*cublas.GemmCall) {}, true, "freed"},
	} {
		t.Run(name, func(t *testing.T) {
			gpu := drivertest.New(drivertest.Config{Kernels: cublastest.Kernels()})
			defer gpu.Close()
			lib := cublastest.New(gpu)
			rt, err := runtime.Open(runtime.WithDriver(gpu))
			require.NoError(t, err)
			defer rt.Close()
			ctx, err := rt.Context(0)
			require.NoError(t, err)
			require.NoError(t, ctx.Do(func() error {
				h, status := lib.Create()
				require.Equal(t, cublas.StatusSuccess, status)
				s, r := gpu.StreamCreate(driver.StreamNonBlocking)
				require.Equal(t, driver.Success, r)
				require.Equal(t, cublas.StatusSuccess, lib.SetStream(h, s, 0, 0))
				call := cublas.GemmCall{M: 4, N: 4, K: 4, Alpha: 1, Batch: 1, Compute: cublas.Compute32}
				for _, o := range []*cublas.Operand{&call.A, &call.B, &call.C} {
					at, r := gpu.MemAlloc(64)
					require.Equal(t, driver.Success, r)
					*o = cublas.Operand{At: at, LD: 4}
				}
				call.C.LD = 5
				assert.Equal(t, cublas.StatusInvalidValue, lib.Gemm(h, &cublas.GemmCall{M: 9, N: 1, K: 1, A: call.A, B: call.B, C: call.C}))
				call.C.LD = 4
				if c.freed {
					require.Equal(t, driver.Success, gpu.MemFree(call.B.At))
				}
				c.spoil(&call)
				if call.M == 5 {
					call.A.LD, call.C.LD = 5, 5
				}
				assert.Equal(t, cublas.StatusSuccess, lib.Gemm(h, &call), "as on hardware: the fault comes later")
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
	gpu := drivertest.New(drivertest.Config{Kernels: cublastest.Kernels()})
	defer gpu.Close()
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer rt.Close()
	ctx, err := rt.Context(0)
	require.NoError(t, err)
	s, err := ctx.NewStream()
	require.NoError(t, err)
	h, err := cublas.New(cublastest.New(gpu), s, cublas.Options{})
	require.NoError(t, err)
	x, err := runtime.UploadNew(bg, s, make([]float32, 16))
	require.NoError(t, err)
	m := cublas.Dense(x, 4, 4)
	gpu.Fail("cuMemsetD8Async", 1, driver.ResultIllegalAddress)
	require.Error(t, runtime.Zero(s, x))
	err = cublas.Gemm(h, 1, m, m, 0, m)
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	assert.ErrorIs(t, err, driver.ResultIllegalAddress)
	assert.NoError(t, h.Close())
}
