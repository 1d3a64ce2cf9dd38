package gonumblas_test

import (
	"errors"
	"math"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/promises"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cublas/cublastest"
	"github.com/purecuda/purecuda/libs/cublas/gonumblas"
	"github.com/purecuda/purecuda/runtime"
)

// product computes a product whose result is known.
func product(t *testing.T, b *gonumblas.BLAS) {
	t.Helper()
	z := []float64{1, 1, 1, 1}
	b.Dgemm(blas.NoTrans, blas.NoTrans, 2, 2, 2, 1, []float64{1, 2, 3, 4}, 2, []float64{5, 6, 7, 8}, 2, 1, z, 2)
	assert.Equal(t, []float64{20, 23, 44, 51}, z)
}

// opened opens a BLAS where CUDA cannot be used. It computes on the CPU, and the error says why.
func opened(t *testing.T, rt *runtime.Runtime, says driver.Kind) {
	t.Helper()
	b, err := gonumblas.Open(rt, gonumblas.Options{BreakEven: 1})
	assert.ErrorIs(t, err, says)
	product(t, b)
	assert.Zero(t, b.OnGPU())
	assert.NoError(t, b.Close())
}

// without opens a runtime with a driver that starts with a result.
func without(t *testing.T, policy runtime.Policy, result driver.Result) *runtime.Runtime {
	rt, err := runtime.Open(runtime.WithPolicy(policy), runtime.WithDriver(drivertest.New(drivertest.Config{InitResult: result})))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	return rt
}

// faulty opens a BLAS on a device that cannot be opened: Open says why.
func faulty(t *testing.T, policy runtime.Policy) {
	gpu := drivertest.New(drivertest.Config{})
	rt, err := runtime.Open(runtime.WithPolicy(policy), runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	gpu.Fail("cuDevicePrimaryCtxRetain", 1, driver.ResultDeviceUnavailable)
	b, err := gonumblas.Open(rt, gonumblas.Options{BreakEven: 1})
	assert.ErrorIs(t, err, driver.ResultDeviceUnavailable)
	product(t, b)
	assert.Zero(t, b.OnGPU())
}

func TestPromises(t *testing.T) {
	mine := errors.New("mine")
	promises.Test(t, "gonumblas.BLAS", map[string]func(t *testing.T){
		"off": func(t *testing.T) {
			opened(t, without(t, runtime.PolicyOff, driver.Success), driver.ErrDriverLibraryUnavailable)
		},
		"absent": func(t *testing.T) {
			opened(t, without(t, runtime.PolicyAuto, driver.ResultNoDevice), driver.ErrDriverLibraryUnavailable)
		},
		"faulty":          func(t *testing.T) { faulty(t, runtime.PolicyAuto) },
		"required-faulty": func(t *testing.T) { faulty(t, runtime.PolicyRequired) },
		"required-absent": func(t *testing.T) {
			rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(drivertest.New(drivertest.Config{InitResult: driver.ResultNoDevice})))
			assert.ErrorIs(t, err, driver.ErrRequired)
			opened(t, rt, driver.ErrInvalidArgument) // there is no runtime
		},
		"bound": func(t *testing.T) { // four calls use the device, and the others wait for them
			const most = 4
			inside, leave := make(chan struct{}, 100), make(chan struct{})
			gpu := drivertest.ForTest(t, drivertest.Config{Kernels: cublastest.Kernels(), OnCall: func(op string) driver.Result {
				if op == "cuLaunchKernel" {
					inside <- struct{}{}
					<-leave
				}
				return driver.Success
			}})
			b, _ := on(t, gpu, cublastest.New(gpu), gonumblas.Options{BreakEven: 1})
			var all sync.WaitGroup
			for range 3 * most {
				all.Go(func() { product(t, b) })
			}
			for range most {
				<-inside
			}
			time.Sleep(10 * time.Millisecond) // no other call comes
			assert.Empty(t, inside)
			close(leave)
			all.Wait()
			assert.EqualValues(t, 3*most, b.OnGPU())
		},
		"lost": func(t *testing.T) {
			var heard atomic.Int64
			b, c, _ := simulated(t, gonumblas.Options{BreakEven: 1, OnError: func(error) { heard.Add(1) }})
			product(t, b)
			gpu := c.Runtime().Driver().(*drivertest.Driver)
			gpu.Fail("cuStreamCreateWithPriority", 1, driver.ResultIllegalAddress)
			_, err := c.NewStream()
			require.ErrorIs(t, err, driver.ResultIllegalAddress)
			product(t, b)
			assert.ErrorIs(t, b.Err(), driver.ResultIllegalAddress)
			assert.EqualValues(t, 1, heard.Load())
		},
		"says-so": func(t *testing.T) {
			var heard []error
			b, _, lib := simulated(t, gonumblas.Options{BreakEven: 1, OnError: func(err error) { heard = append(heard, err) }})
			lib.Fail("Gemm", cublas.StatusInternalError)
			product(t, b)
			require.Len(t, heard, 1)
			assert.ErrorIs(t, heard[0], cublas.StatusInternalError)
			assert.ErrorIs(t, b.Err(), cublas.StatusInternalError)
			lib.Fail("Gemm", cublas.StatusSuccess)
		},
		"own-error": func(t *testing.T) { // of many calls at the same time each gets its own result
			b, _, _ := simulated(t, gonumblas.Options{BreakEven: 1})
			var all sync.WaitGroup
			for range 32 {
				all.Go(func() { product(t, b) })
			}
			all.Wait()
			assert.EqualValues(t, 32, b.OnGPU())
		},
		"panic": func(t *testing.T) {
			b, _, lib := simulated(t, gonumblas.Options{BreakEven: 1, OnError: func(error) { panic(mine) }})
			lib.Fail("Gemm", cublas.StatusInternalError)
			assert.NotPanics(t, func() { product(t, b) })
			lib.Fail("Gemm", cublas.StatusSuccess)
			product(t, b)
		},
		"goexit": func(t *testing.T) {
			b, _, lib := simulated(t, gonumblas.Options{BreakEven: 1, OnError: func(error) { goruntime.Goexit() }})
			lib.Fail("Gemm", cublas.StatusInternalError)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				product(t, b)
			}()
			<-ended
			lib.Fail("Gemm", cublas.StatusSuccess)
			product(t, b)
			assert.EqualValues(t, 1, b.OnGPU())
		},
		"empty": func(t *testing.T) {
			b, _, _ := simulated(t, gonumblas.Options{BreakEven: 1})
			assert.NotPanics(t, func() { b.Dgemm(blas.NoTrans, blas.NoTrans, 0, 0, 0, 1, nil, 1, nil, 1, 0, nil, 1) })
			assert.Zero(t, b.OnGPU())
		},
		"huge": func(t *testing.T) { // gonum itself refuses it
			b, _, _ := simulated(t, gonumblas.Options{BreakEven: 1})
			assert.PanicsWithValue(t, "blas: insufficient length of a", func() {
				b.Dgemm(blas.NoTrans, blas.NoTrans, math.MaxInt, 1, 1, 1, []float64{1}, 1, []float64{1}, 1, 0, []float64{1}, 1)
			})
		},
		"overlap": func(t *testing.T) { // as gonum does, which says nothing of it: the GPU gets copies
			b, _, _ := simulated(t, gonumblas.Options{BreakEven: 1})
			x := []float64{1, 2, 3, 4}
			b.Dgemm(blas.NoTrans, blas.NoTrans, 2, 2, 2, 1, x, 2, x, 2, 0, x, 2)
			assert.Equal(t, []float64{7, 10, 15, 22}, x)
		},
	})
}
