package kernels

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// openReducer opens a Reducer whose blocks are small.
func openReducer(t *testing.T, api driver.API, options ...ReducerOptions) *Reducer {
	t.Helper()
	rt, err := runtime.Open(runtime.WithDriver(api), runtime.WithPolicy(runtime.PolicyAuto))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	r, err := OpenReducer(rt, options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	r.sumBlock, r.histogramBlock, r.gramRows = 3000, 2000, 50
	return r
}

// overDevices runs a test with the CPU alone, with one, two and three simulated devices, and
// on hardware. The same seed comes each time, and has to give the same bits.
func overDevices(t *testing.T, test func(t *testing.T, r *Reducer, where pool.Place)) {
	t.Run("cpu", func(t *testing.T) {
		test(t, openReducer(t, drivertest.ForTest(t, drivertest.Config{InitResult: driver.ResultNoDevice})), pool.OnCPU)
	})
	for n, name := range []string{1: "one", 2: "two", 3: "three"} {
		if n == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(n, drivertest.H100())})
			test(t, openReducer(t, gpu, ReducerOptions{MinPerDevice: 1}), pool.OnGPU)
		})
	}
	t.Run("hardware", func(t *testing.T) {
		test(t, openReducer(t, hardware.Open(t), ReducerOptions{MinPerDevice: 1}), pool.OnGPU)
	})
}

func TestReducerSum(t *testing.T) {
	for _, n := range []int{0, 1, 2999, 3000, 3001, 50_000} {
		x := floats(rand.New(rand.NewPCG(1, uint64(n))), n)
		exact, size := new(big.Float).SetPrec(2000), 0.0
		for _, v := range x {
			exact.Add(exact, big.NewFloat(float64(v)))
			size += math.Abs(float64(v))
		}
		blocks := make([]float64, 0, n/3000+1)
		for lo := 0; lo < n; lo += 3000 {
			partials := make([]float64, sumPartials)
			SumPartialsCPU(x[lo:min(lo+3000, n)], partials)
			blocks = append(blocks, AddPartials(partials))
		}
		for len(blocks) > 1 {
			next := []float64{}
			for i := 0; i+1 < len(blocks); i += 2 {
				next = append(next, blocks[i]+blocks[i+1])
			}
			if len(blocks)%2 == 1 {
				next = append(next, blocks[len(blocks)-1])
			}
			blocks = next
		}
		want := append(blocks, 0)[0]
		overDevices(t, func(t *testing.T, r *Reducer, where pool.Place) {
			got, report, err := r.Sum(context.Background(), x)
			require.NoError(t, err)
			assert.Equal(t, math.Float64bits(want), math.Float64bits(got), "n = %d: %g and %g", n, want, got)
			if n > 0 {
				assert.Equal(t, where, report.Where)
			}
			difference, _ := new(big.Float).Sub(exact, big.NewFloat(got)).Float64()
			assert.LessOrEqual(t, math.Abs(difference), (16+10+256+math.Log2(float64(n/3000+1))+1)*0x1p-53*size)
		})
	}
}

func TestReducerHistogram256(t *testing.T) {
	for _, n := range []int{0, 1, 1999, 2000, 30_001} {
		r := rand.New(rand.NewPCG(2, uint64(n)))
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(r.Uint32() & r.Uint32())
		}
		var want [256]uint64
		Histogram256CPU(data, &want)
		overDevices(t, func(t *testing.T, r *Reducer, _ pool.Place) {
			got, _, err := r.Histogram256(context.Background(), data)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

func TestReducerGram(t *testing.T) {
	for _, shape := range []struct{ rows, columns int }{{0, 3}, {1, 1}, {49, 2}, {50, 2}, {51, 2}, {1000, 3}, {300, 20}, {450, 40}} {
		rnd := rand.New(rand.NewPCG(3, uint64(shape.rows)))
		x, w := wide(rnd, shape.rows*shape.columns), wide(rnd, shape.rows)
		var want []float64 // that of the CPU, which comes first
		overDevices(t, func(t *testing.T, r *Reducer, _ pool.Place) {
			got, _, err := r.Gram(context.Background(), x, w, shape.columns)
			require.NoError(t, err)
			if want == nil {
				want = got
				checkGram(t, x, w, shape.columns, got)
			}
			require.Equal(t, len(want), len(got))
			for i := range got {
				require.Equal(t, math.Float64bits(want[i]), math.Float64bits(got[i]), "%+v, entry %d", shape, i)
			}
		})
	}
}

// checkGram compares with the exact result.
func checkGram(t *testing.T, x, w []float64, columns int, got []float64) {
	t.Helper()
	block := max(50, 4*columns)
	strips := gramBlockStrips(columns)
	bound := float64(block/strips+1+strips+3) + math.Log2(float64(len(w)/block+1))
	for i := range columns {
		for j := range columns {
			exact, size := new(big.Float).SetPrec(1000), 0.0
			for row := range w {
				a, b := x[row*columns+i], x[row*columns+j]
				product := new(big.Float).SetPrec(1000).Mul(big.NewFloat(a), big.NewFloat(b))
				exact.Add(exact, product.Mul(product, big.NewFloat(w[row])))
				size += math.Abs(a * b * w[row])
			}
			difference, _ := new(big.Float).Sub(exact, big.NewFloat(got[i*columns+j])).Float64()
			require.LessOrEqual(t, math.Abs(difference), bound*0x1p-53*size)
		}
	}
}

// A device that fails in the middle: another one, or the CPU, gives the same bits.
func TestReducerWithADeviceThatFails(t *testing.T) {
	x := floats(rand.New(rand.NewPCG(4, 4)), 40_000)
	cpu := openReducer(t, drivertest.ForTest(t, drivertest.Config{InitResult: driver.ResultNoDevice}))
	want, _, err := cpu.Sum(context.Background(), x)
	require.NoError(t, err)
	for _, retries := range []int{0, 1} {
		config := drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())}
		gpu := drivertest.ForTest(t, config)
		r := openReducer(t, gpu, ReducerOptions{MinPerDevice: 1, Retry: retries})
		gpu.Fail("cuLaunchKernel", 3, driver.ResultLaunchOutOfResources)
		got, report, err := r.Sum(context.Background(), x)
		require.NoError(t, err)
		assert.Equal(t, math.Float64bits(want), math.Float64bits(got))
		if retries == 0 {
			assert.Equal(t, pool.OnCPU, report.Where)
			assert.ErrorIs(t, report.Err, driver.ResultLaunchOutOfResources)
		} else {
			assert.Equal(t, pool.OnGPU, report.Where)
		}
	}
}

// Memory that the driver does not take back is no reason to do finished work again.
func TestReducerWithMemoryThatIsNotFreed(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{})
	defer gpu.Close()
	rt, err := runtime.Open(runtime.WithDriver(gpu), runtime.WithMemory(arena.DeviceConfig{Poison: true}))
	require.NoError(t, err)
	defer rt.Close()
	r, err := OpenReducer(rt, ReducerOptions{Retry: 1})
	require.NoError(t, err)
	defer r.Close()
	gpu.Fail("cuMemsetD8Async", 1, driver.ResultUnknown) // which is a Close
	total, report, err := r.Sum(context.Background(), []float32{1, 2, 3})
	require.NoError(t, err)
	assert.Equal(t, 6.0, total)
	assert.Equal(t, pool.OnGPU, report.Where, "%v", report.Err)
	assert.Len(t, gpu.Injected(), 1)
}

func TestReducerRefuses(t *testing.T) {
	r := openReducer(t, drivertest.ForTest(t, drivertest.Config{}))
	_, _, err := r.Gram(context.Background(), make([]float64, 5), make([]float64, 2), 2)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, err = OpenReducer(nil)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	require.NoError(t, r.Close())
	_, _, err = r.Sum(context.Background(), make([]float32, 10))
	assert.ErrorIs(t, err, driver.ErrClosed)
}

func TestGramBlockStrips(t *testing.T) {
	for columns, want := range map[int]int{1: 16, 16: 16, 17: 5, 32: 5, 33: 2, 48: 2, 49: 1, maxGramColumns: 1} {
		assert.Equal(t, want, gramBlockStrips(columns), "%d columns", columns)
	}
}

// The sizes of blocks are part of what a result is.
func TestReducerBlocksAreTheSame(t *testing.T) {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff))
	require.NoError(t, err)
	defer rt.Close()
	r, err := OpenReducer(rt)
	require.NoError(t, err)
	defer r.Close()
	assert.Equal(t, []int{1 << 20, 4 << 20, 4096}, []int{r.sumBlock, r.histogramBlock, r.gramRows})
	x := floats(rand.New(rand.NewPCG(5, 5)), 3_000_000)
	got, report, err := r.Sum(context.Background(), x)
	require.NoError(t, err)
	assert.Equal(t, pool.OnCPU, report.Where)
	want := 0.0
	for _, v := range x {
		want += float64(v)
	}
	assert.InEpsilon(t, want, got, 1e-9)
}
