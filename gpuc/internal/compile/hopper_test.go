package compile_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/hopper"
	"github.com/purecuda/purecuda/internal/race"
)

func tilesOf[T gpu.Half](rows, cols, box int, seed uint64) gpu.Tiles[T] {
	r := rand.New(rand.NewPCG(seed, 3))
	data := make([]T, rows*cols)
	for i := range data {
		data[i] = gpu.ToHalf[T](float32(r.NormFloat64()))
	}
	return gpu.Tiles[T]{Data: data, Rows: rows, Cols: cols, Pitch: cols, Box: box}
}

func hopperDevice(t *testing.T, kernel string) *device.Device {
	t.Helper()
	m, err := program(t, "../testdata/hopper").Compile(compile.Options{Arch: 90, Only: true, Checks: compile.ChecksOff}, kernel)
	require.NoError(t, err)
	return device.Open(t, device.Of(m))
}

// TestWGMMA compares products of four warps on the simulated driver with the CPU, bit for bit, and both with float64. Then it looks that
// both find each mistake with waits.
func TestWGMMA(t *testing.T) {
	const steps = 5
	shape := gpu.Shape{Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: 160}, SharedBytes: hopper.SharedBytes}
	a, b := tilesOf[gpu.BFloat16](64, 64*steps, 64, 1), tilesOf[gpu.BFloat16](64, 64*steps, 64, 2)
	result := func() gpu.Tiles[gpu.BFloat16] { // two matrices
		c := tilesOf[gpu.BFloat16](128, 64, 16, 4)
		c.Rows, c.Matrices, c.Stride = 64, 2, 64*64
		return c
	}
	want := result()
	for i := range 64 {
		for j := range 64 {
			sum := 0.0
			for k := range 64 * steps {
				sum += float64(a.Data[i*a.Pitch+k].Float32()) * float64(b.Data[j*b.Pitch+k].Float32())
			}
			want.Data[i*64+j], want.Data[(64+i)*64+j] = gpu.ToBFloat16(float32(sum)), gpu.ToBFloat16(float32(2*sum))
		}
	}
	wrong := func(c gpu.Tiles[gpu.BFloat16]) (n int) {
		for i, x := range c.Data {
			if d := x.Float32() - want.Data[i].Float32(); d > 0.5 || d < -0.5 || d != d {
				n++
			}
		}
		return n
	}
	d := hopperDevice(t, "Product")
	for mistake := hopper.None; mistake <= hopper.StoreTooEarly; mistake++ {
		onCPU, onDevice := result(), result()
		var err error
		if mistake == hopper.None || !race.Enabled { // a mistake is a race, which the detector finds
			err = gpu.Run(shape, func(t *gpu.Thread) { hopper.Product(t, a, b, onCPU, steps, mistake) })
		}
		if mistake == hopper.None {
			require.NoError(t, err)
		}
		_, failed := d.Run("Product", shape, a, b, onDevice, int32(steps), mistake)
		if mistake != hopper.None {
			assert.True(t, race.Enabled || err != nil || wrong(onCPU) > 0, "mistake %d: the CPU does not find it", mistake)
			assert.True(t, failed != nil || wrong(onDevice) > 0, "mistake %d: the simulated driver does not find it", mistake)
			continue
		}
		require.NoError(t, failed)
		assert.Zero(t, wrong(onDevice))
		assert.Equal(t, onCPU, onDevice)
	}
}

// TestStoreTileInUnits stores 52 of 64 columns, which are 6.5 times 16 bytes: four more change on the CPU and on the simulated driver, as they do on an
// H200, and those behind them stay. Without memory for the four of the last row both refuse.
func TestStoreTileInUnits(t *testing.T) {
	shape := gpu.Shape{Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: 160}, SharedBytes: hopper.SharedBytes}
	a, b := tilesOf[gpu.BFloat16](64, 64, 64, 1), tilesOf[gpu.BFloat16](64, 64, 64, 2)
	result := func() gpu.Tiles[gpu.BFloat16] {
		c := tilesOf[gpu.BFloat16](64, 64, 16, 4)
		c.Cols = 52
		return c
	}
	d := hopperDevice(t, "Product")
	before, onCPU, onDevice := result(), result(), result()
	require.NoError(t, gpu.Run(shape, func(t *gpu.Thread) { hopper.Product(t, a, b, onCPU, 1, hopper.None) }))
	_, err := d.Run("Product", shape, a, b, onDevice, int32(1), hopper.None)
	require.NoError(t, err)
	assert.Equal(t, onCPU, onDevice)
	for i, was := range before.Data {
		assert.Equal(t, i%64 < 56, was != onCPU.Data[i], "element %d", i)
	}
	short := result()
	short.Data = short.Data[:63*64+52]
	assert.ErrorContains(t, gpu.Run(shape, func(t *gpu.Thread) { hopper.Product(t, a, b, short, 1, hopper.None) }), "too few for 64 rows of 56")
	_, err = d.Run("Product", shape, a, b, short, int32(1), hopper.None)
	assert.ErrorContains(t, err, "4 elements too few behind the last row")
}

func TestWGMMARows(t *testing.T) {
	shape := gpu.Shape{Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: 128}, SharedBytes: 192*128 + 16}
	a, b := tilesOf[gpu.Float16](60, 64, 64, 1), tilesOf[gpu.Float16](64, 120, 64, 2)
	c := make([]float32, 128*64)
	hopperDevice(t, "Rows").Same(t, "Rows", shape, func(t *gpu.Thread, args []any) {
		hopper.Rows(t, args[0].(gpu.Tiles[gpu.Float16]), args[1].(gpu.Tiles[gpu.Float16]), args[2].([]float32))
	}, a, b, c)
	for thread := range 128 {
		for i := range 64 {
			row, col, sum := thread/32*16+thread%32/4+i>>1&1*8, i>>2*8+thread&3*2+i&1, 0.0
			for k := 0; k < 64 && row < 60 && col < 120; k++ {
				sum += float64(a.Data[row*64+k].Float32()) * float64(b.Data[k*120+col].Float32())
			}
			require.InDelta(t, sum, c[thread*64+i], 1e-3, "row %d, column %d", row, col)
		}
	}
}

// TestWGMMAOfAll compares products of all elements on the simulated driver with the CPU, bit for bit, and with a plain sum: integers exactly.
func TestWGMMAOfAll(t *testing.T) {
	ofAll(t, "IntegersInt8", hopper.Integers[int8], func(x float32) int8 { return int8(x * 40) }, func(x int8) float64 { return float64(x) })
	ofAll(t, "IntegersUint8", hopper.Integers[uint8], func(x float32) uint8 { return uint8(int(x * 80)) }, func(x uint8) float64 { return float64(x) })
	ofAll(t, "FloatsFloat8E4M3", hopper.Floats[gpu.Float8E4M3], gpu.ToFloat8E4M3, func(x gpu.Float8E4M3) float64 { return float64(x.Float32()) })
	ofAll(t, "FloatsFloat8E5M2", hopper.Floats[gpu.Float8E5M2], gpu.ToFloat8E5M2, func(x gpu.Float8E5M2) float64 { return float64(x.Float32()) })
	ofAll(t, "FloatsTF32", hopper.Floats[gpu.TF32], gpu.ToTF32, func(x gpu.TF32) float64 { return float64(x.Float32()) })
	ofAll(t, "FloatsFloat16", hopper.Floats[gpu.Float16], gpu.ToFloat16, func(x gpu.Float16) float64 { return float64(x.Float32()) })
}

func ofAll[T gpu.Element, S gpu.Sum](t *testing.T, name string, kernel func(t *gpu.Thread, a, b gpu.Tiles[T], c []S, steps int32), element func(float32) T, number func(T) float64) {
	const steps = 3
	size := int(unsafe.Sizeof(*new(T)))
	r := rand.New(rand.NewPCG(7, 7))
	matrix := func(rows int) gpu.Tiles[T] {
		m := gpu.Tiles[T]{Rows: rows, Cols: steps*128/size - 3, Pitch: steps * 128 / size, Box: 64}
		m.Data = elements(rows*m.Pitch, func() T { return element(float32(r.NormFloat64())) })
		return m
	}
	a, b, c := matrix(64), matrix(60), make([]S, 128*32)
	shape := gpu.Shape{Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: 128}, SharedBytes: 128*128 + 16}
	hopperDevice(t, name).Same(t, name, shape, func(t *gpu.Thread, args []any) {
		kernel(t, args[0].(gpu.Tiles[T]), args[1].(gpu.Tiles[T]), args[2].([]S), steps)
	}, a, b, c, int32(steps))
	for thread := range 128 {
		for i := range 32 {
			row, col, sum, all := thread/32*16+thread%32/4+i>>1&1*8, i>>2*8+thread&3*2+i&1, 0.0, 0.0
			for k := 0; k < a.Cols && col < b.Rows; k++ {
				x := number(a.Data[row*a.Pitch+k]) * number(b.Data[col*b.Pitch+k])
				sum, all = sum+x, all+math.Abs(x)
			}
			require.InDelta(t, sum, float64(c[thread*32+i]), gpu.MMAError[T]()*all, "%s: row %d, column %d", name, row, col)
		}
	}
}

// TestTxBarrierDeadlock looks that a phase that nobody ends is an error, and no hang.
func TestTxBarrierDeadlock(t *testing.T) {
	shape := gpu.Shape{Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: 64}}
	x := make([]float32, 64)
	assert.ErrorContains(t, gpu.Run(shape, func(t *gpu.Thread) { hopper.Deadlock(t, x) }), "64 threads of the block wait for a TxBarrier")
}

// TestTilesOfOldTargets looks that a kernel may have tiles that it does not use for a target without tensor maps.
func TestTilesOfOldTargets(t *testing.T) {
	p, err := load(t, "//purecuda:kernel block=128\nfunc K(t *gpu.Thread, m gpu.Tiles[gpu.Float16], x []float32) {\n\tx[0] = 1\n}\n")
	require.NoError(t, err)
	for _, arch := range []int{75, 80, 90} {
		m, err := p.Compile(compile.Options{Arch: arch, Checks: compile.ChecksOff})
		require.NoError(t, err)
		assert.Equal(t, arch == 90, strings.Contains(string(m.PTX), "prefetch.tensormap"), arch)
		assert.Equal(t, arch == 90, strings.Contains(string(m.PTX), ".version 8.0"), arch)
	}
}

func TestHopperErrors(t *testing.T) {
	const tile = "tile := gpu.DynamicShared[gpu.TileRow[gpu.Float16]](t); "
	for source, want := range map[string]string{
		"gpu.MoreRegisters(t, 232)":         "gpu.MoreRegisters needs registers=N in the kernel's directive",
		"gpu.WGMMAWait(t, len(x))":          "the number that gpu.WGMMAWait takes is a constant, 0 to 7",
		"gpu.StoreWait(t, -1)":              "the number that gpu.StoreWait takes is a constant, 0 to 63",
		"var b gpu.TxBarrier; b.Init(t, 1)": "a gpu.TxBarrier lies in shared memory",
		tile + "var acc [32]float32; gpu.WGMMATurned[float32](t, &acc, tile, tile, len(x) > 1, false, false)": "turnedA and turnedB of gpu.WGMMATurned are constants",
		tile + "var acc [32]float32; gpu.WGMMA[float32](t, &acc, tile, tile, false); x[0] = acc[len(x)]":      "acc of gpu.WGMMA has to be a variable in registers",
		"var acc [32]float32; gpu.StoreMatrix[gpu.Float16](t, &y[0], &acc, 8)":                                "the column that gpu.StoreMatrix takes is a constant, a multiple of 16",
	} {
		p, err := load(t, "//purecuda:kernel block=128\nfunc K(t *gpu.Thread, x []float32, y []gpu.Uint4) { "+strings.ReplaceAll(source, ";", "\n")+" }\n")
		require.NoError(t, err, source)
		_, err = p.Compile(compile.Options{Arch: 90, Only: true, Checks: compile.ChecksOff})
		assert.ErrorContains(t, err, want, source)
		if _, err = p.Compile(compile.Options{Arch: 90, Checks: compile.ChecksOff}); strings.Contains(want, "WGMMA") {
			assert.ErrorContains(t, err, "needs sm_90a, and this is compiled for sm_90: give gpuc -arch sm_90a", source)
		}
		_, err = p.Compile(compile.Options{Arch: 80, Checks: compile.ChecksOff})
		assert.ErrorContains(t, err, "needs sm_90", source)
	}
	for name, ok := range map[string]bool{"sm_75": true, "sm_90a": true, "sm_9": true, "90": false, "sm_": false, "sm_90b": false, "sm_090": false, "": false} {
		target, err := compile.ParseTarget(name)
		assert.Equal(t, ok, err == nil, name)
		assert.True(t, !ok || target.String() == name, name)
	}
	a90, s90, s100 := compile.Target{Arch: 90, Only: true}, compile.Target{Arch: 90}, compile.Target{Arch: 100}
	assert.True(t, a90.Has(s90) && a90.Has(a90) && s100.Has(s90) && !s100.Has(a90) && !s90.Has(a90) && !s90.Has(s100))
}
