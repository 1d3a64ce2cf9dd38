package kernels

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

// bigFMA is a*x+y of finite operands by exact arithmetic and one rounding. 1024 bits hold
// every exact result: its lowest bit is 2^-298, its highest below 2^257.
func bigFMA(a, x, y float32) float32 {
	exact := func(v float32) *big.Float { return new(big.Float).SetPrec(1024).SetFloat64(float64(v)) }
	product := new(big.Float).SetPrec(1024).Mul(exact(a), exact(x))
	result, _ := new(big.Float).SetPrec(1024).Add(product, exact(y)).Float32()
	return result
}

func requireFMA(t *testing.T, a, x, y float32) {
	t.Helper()
	want, got := math.Float32bits(bigFMA(a, x, y)), math.Float32bits(fma32(a, x, y))
	if want != got { // Equal on every one of millions of cases would be slow.
		require.Failf(t, "wrong rounding", "fma32(%b, %b, %b) = %#08x, want %#08x", a, x, y, got, want)
	}
}

func finite(v float32) bool { return !math.IsInf(float64(v), 0) && !math.IsNaN(float64(v)) }

func TestFMAKnownAnswers(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	minusZero := float32(math.Copysign(0, -1))
	for _, c := range []struct {
		name    string
		a, x, y float32
		want    float32
	}{
		{"plain", 2, 3, 4, 10},
		{"product is not rounded", 1 + 0x1p-12, 1 - 0x1p-12, -1, -0x1p-24},
		// 12576771*683 is 2^33+1: exactly 1 + 2^-24 + 2^-57, just above the middle of 1 and
		// the next float32. The nearest float64 is that middle, which would go to 1.
		{"two roundings end too low", 12576771, 683 * 0x1p-57, 1, 1 + 0x1p-23},
		{"two roundings end too high, negative", -12576771, 683 * 0x1p-57, -1, -1 - 0x1p-23},
		// 13788017*623 is 2^33-1: exactly 1 + 2^-23 + 2^-24 - 2^-57, just below a middle that
		// would go up.
		{"two roundings end too high", 13788017, 623 * 0x1p-57, 1 + 0x1p-23, 1 + 0x1p-23},
		{"two roundings end too low, negative", -13788017, 623 * 0x1p-57, -1 - 0x1p-23, -1 - 0x1p-23},
		{"infinity", inf, 1, 1, inf},
		{"overflow", math.MaxFloat32, 2, 0, inf},
		{"overflow undone before rounding", math.MaxFloat32, 2, -math.MaxFloat32, math.MaxFloat32},
		{"underflow keeps the sign", -0x1p-149, 0x1p-149, 0, minusZero},
		{"zeros of both signs", 0, -1, 0, 0},
		{"negative zeros", 0, -1, minusZero, minusZero},
		{"exact cancellation", 3, 5, -15, 0},
		{"not a number", nan, 1, 1, nan},
		{"infinity minus infinity", inf, 1, -inf, nan},
		{"zero times infinity", 0, inf, 1, nan},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := fma32(c.a, c.x, c.y)
			if math.IsNaN(float64(c.want)) {
				assert.True(t, math.IsNaN(float64(got)), "%v", got)
				return
			}
			assert.Equal(t, math.Float32bits(c.want), math.Float32bits(got), "want %b, got %b", c.want, got)
		})
	}
}

func TestFMAAgainstExactArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	anyFloat := func() float32 {
		for {
			if v := math.Float32frombits(r.Uint32()); finite(v) {
				return v
			}
		}
	}
	// sparse has few significant bits, so that sums fall on and next to middles.
	sparse := func() float32 {
		return float32(math.Ldexp(float64(r.IntN(17)-8), r.IntN(60)-30)) +
			float32(math.Ldexp(float64(r.IntN(3)-1), r.IntN(60)-30))
	}
	for range 20_000 {
		requireFMA(t, anyFloat(), anyFloat(), anyFloat())
		requireFMA(t, sparse(), sparse(), sparse())
		a, x := anyFloat(), anyFloat()
		if y := -a * x; finite(y) {
			requireFMA(t, a, x, y) // cancellation of all leading bits
		}
	}
}

func FuzzFMA(f *testing.F) {
	// The product's last bits lie below float64's resolution of the sum.
	f.Add(math.Float32bits(12576771), math.Float32bits(683*0x1p-57), math.Float32bits(1))
	f.Add(uint32(0x3f800001), uint32(0x3f7fffff), uint32(0xbf800000))
	f.Add(uint32(0x00000001), uint32(0x80000001), uint32(0x00000000))
	f.Add(uint32(0x7f7fffff), uint32(0x40000000), uint32(0xff7fffff))
	f.Fuzz(func(t *testing.T, a, x, y uint32) {
		fa, fx, fy := math.Float32frombits(a), math.Float32frombits(x), math.Float32frombits(y)
		if !finite(fa) || !finite(fx) || !finite(fy) {
			t.Skip("big.Float has no NaN, and 0 times infinity panics")
		}
		requireFMA(t, fa, fx, fy)
	})
}

func TestSaxpyCPU(t *testing.T) {
	y := []float32{1, 2, 3}
	require.NoError(t, SaxpyCPU(2, []float32{10, 20, 30}, y))
	assert.Equal(t, []float32{21, 42, 63}, y)
	require.NoError(t, SaxpyCPU(1, y, y), "in place")
	assert.Equal(t, []float32{42, 84, 126}, y)
	require.NoError(t, SaxpyCPU(2, nil, nil))
	require.ErrorIs(t, SaxpyCPU(2, y[:2], y), driver.ErrInvalidArgument)
}
