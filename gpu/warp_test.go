package gpu_test

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
)

func TestWarpFunctions(t *testing.T) {
	failed := make([]string, 64)
	require.NoError(t, gpu.Run(gpu.Shape{Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: 64}}, func(th *gpu.Thread) {
		lane, warp := th.Lane(), th.Warp()
		v := 100*warp + lane
		want := func(name string, got, want int) {
			if got != want {
				failed[th.Rank()] += name + " "
			}
		}
		want("Shuffle", gpu.Shuffle(th, v, lane+5), 100*warp+(lane+5)%32)
		want("ShuffleXor", gpu.ShuffleXor(th, v, 21), 100*warp+(lane^21))
		up, down := lane-3, lane+7
		if up < 0 {
			up = lane
		}
		if down > 31 {
			down = lane
		}
		want("ShuffleUp", gpu.ShuffleUp(th, v, 3), 100*warp+up)
		want("ShuffleDown", int(gpu.ShuffleDown(th, float64(v), 7)), 100*warp+down)
		want("a bool", b2i(gpu.ShuffleXor(th, lane < 3, 1)), b2i(lane^1 < 3))
		want("Ballot", int(gpu.Ballot(th, lane%3 == warp)), func() (m int) {
			for i := range 32 {
				if i%3 == warp {
					m |= 1 << i
				}
			}
			return m
		}())
		want("All", b2i(gpu.All(th, lane < 32)), 1)
		want("not All", b2i(gpu.All(th, lane != 4)), 0)
		want("Any", b2i(gpu.Any(th, lane == 4)), 1)
		want("not Any", b2i(gpu.Any(th, lane > 31)), 0)
		want("MatchAny", int(gpu.MatchAny(th, uint32(lane%4))), 0x11111111<<(lane%4))
		want("ReduceAdd", gpu.ReduceAdd(th, v), 3200*warp+31*16)
		want("ReduceMin", int(gpu.ReduceMin(th, float32(v))), 100*warp)
		want("ReduceMax", int(gpu.ReduceMax(th, uint32(v))), 100*warp+31)
		want("LaneMaskBelow", bits.OnesCount32(gpu.LaneMaskBelow(th)), lane)
	}))
	for i, names := range failed {
		assert.Empty(t, names, "thread %d", i)
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestAtomics(t *testing.T) {
	var u uint32 = 7
	assert.EqualValues(t, 7, gpu.AtomicInc(&u, 8))
	assert.EqualValues(t, 8, gpu.AtomicInc(&u, 8))
	assert.EqualValues(t, 0, gpu.AtomicDec(&u, 5))
	assert.EqualValues(t, 5, u)
	u = 100
	gpu.AtomicDec(&u, 5)
	assert.EqualValues(t, 5, u)
	i := int64(-5)
	assert.EqualValues(t, -5, gpu.AtomicMin(&i, 3))
	assert.EqualValues(t, -5, gpu.AtomicMax(&i, 3))
	assert.EqualValues(t, 3, gpu.AtomicAnd(&i, 6))
	assert.EqualValues(t, 2, gpu.AtomicOr(&i, 9))
	assert.EqualValues(t, 11, gpu.AtomicXor(&i, 1))
	assert.EqualValues(t, 10, i)
	f := float32(1.5)
	assert.EqualValues(t, 1.5, gpu.AtomicAdd(&f, 2))
	assert.EqualValues(t, 3.5, gpu.AtomicExchange(&f, 9))
	assert.EqualValues(t, 9, gpu.AtomicCompareAndSwap(&f, 8, 1))
	assert.EqualValues(t, 9, gpu.AtomicCompareAndSwap(&f, 9, 1))
	assert.EqualValues(t, 1, f)
}

// TestFMA32 compares with math.FMA, which is exact, rounded to float32 by way of a big exponent range: where the
// float64 is a middle of two float32, an odd last bit of a wider sum decides.
func TestFMA32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	value := func() float32 {
		for {
			f := math.Float32frombits(r.Uint32() & (r.Uint32() | 0xff800000))
			if f == f {
				return f
			}
		}
	}
	for range 300_000 {
		x, y, z := value(), value(), value()
		if r.Uint32()&1 == 0 { // near cancellation, and near the end of the range
			z = -x * y * (1 + float32(r.Uint32()&3)*0x1p-23)
		}
		want := fma32(x, y, z)
		got := gpu.FMA32(x, y, z)
		if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
			t.Fatalf("FMA32(%x, %x, %x) is %x, want %x", x, y, z, got, want)
		}
	}
}

func TestBitFunctions(t *testing.T) {
	assert.EqualValues(t, 0x34567812, gpu.FunnelShiftLeft(0x12345678, 0x12345678, 8))
	assert.EqualValues(t, 0x78123456, gpu.FunnelShiftRight(0x12345678, 0x12345678, 40))
	assert.EqualValues(t, uint32(0x88_44_11_55), gpu.BytePermute(0x44332211, 0x88776655, 0x7304))
	assert.EqualValues(t, uint32(0xfffffffe), gpu.MulHigh32(math.MaxUint32, math.MaxUint32))
}

func TestMath32(t *testing.T) {
	for name, c := range map[string][2]float32{
		"Sqrt32":        {gpu.Sqrt32(2), 1.4142135},
		"Abs32":         {gpu.Abs32(-2.5), 2.5},
		"Copysign32":    {gpu.Copysign32(2.5, -1), -2.5},
		"Floor32":       {gpu.Floor32(-2.5), -3},
		"Ceil32":        {gpu.Ceil32(-2.5), -2},
		"Trunc32":       {gpu.Trunc32(-2.5), -2},
		"RoundToEven32": {gpu.RoundToEven32(2.5), 2},
		"FastDiv32":     {gpu.FastDiv32(1, 4), 0.25},
		"FastSqrt32":    {gpu.FastSqrt32(9), 3},
		"FastRsqrt32":   {gpu.FastRsqrt32(4), 0.5},
		"FastRcp32":     {gpu.FastRcp32(8), 0.125},
		"FastSin32":     {gpu.FastSin32(math.Pi / 2), 1},
		"FastCos32":     {gpu.FastCos32(0), 1},
		"FastTanh32":    {gpu.FastTanh32(0), 0},
		"FastExp2":      {gpu.FastExp2(3), 8},
		"FastLog2":      {gpu.FastLog2(8), 3},
		"FastExp32":     {gpu.FastExp32(0), 1},
		"FastLog32":     {gpu.FastLog32(1), 0},
	} {
		assert.Equal(t, c[1], c[0], name)
	}
}

// fma32 is the sum in so many bits that it is exact, rounded once.
func fma32(x, y, z float32) float32 {
	if p := float64(x) * float64(y); math.IsInf(float64(x), 0) || math.IsInf(float64(y), 0) || math.IsInf(float64(z), 0) || p == 0 || z == 0 {
		return float32(p + float64(z)) // nothing to round, or Go's rules for infinities and zeros
	}
	wide := func(v float32) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(float64(v)) }
	sum := wide(x)
	sum.Mul(sum, wide(y)).Add(sum, wide(z))
	if sum.Sign() == 0 {
		return 0
	}
	f, _ := sum.Float32()
	return f
}
