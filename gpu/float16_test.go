package gpu_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/gpu"
)

// half is one of the types, by bits.
type half struct {
	name     string
	mantissa uint
	toFloat  func(uint16) float32
	from     func(float32) uint16
	ops      map[string]func(x, y, z uint16) uint16
}

var halves = []half{
	{"Float16", 10, func(b uint16) float32 { return gpu.Float16FromBits(b).Float32() }, func(f float32) uint16 { return gpu.ToFloat16(f).Bits() },
		map[string]func(x, y, z uint16) uint16{
			"+": func(x, y, z uint16) uint16 { return gpu.Float16FromBits(x).Add(gpu.Float16FromBits(y)).Bits() },
			"-": func(x, y, z uint16) uint16 { return gpu.Float16FromBits(x).Sub(gpu.Float16FromBits(y)).Bits() },
			"*": func(x, y, z uint16) uint16 { return gpu.Float16FromBits(x).Mul(gpu.Float16FromBits(y)).Bits() },
			"/": func(x, y, z uint16) uint16 { return gpu.Float16FromBits(x).Div(gpu.Float16FromBits(y)).Bits() },
			"fma": func(x, y, z uint16) uint16 {
				return gpu.Float16FromBits(x).FMA(gpu.Float16FromBits(y), gpu.Float16FromBits(z)).Bits()
			},
		}},
	{"BFloat16", 7, func(b uint16) float32 { return gpu.BFloat16FromBits(b).Float32() }, func(f float32) uint16 { return gpu.ToBFloat16(f).Bits() },
		map[string]func(x, y, z uint16) uint16{
			"+": func(x, y, z uint16) uint16 { return gpu.BFloat16FromBits(x).Add(gpu.BFloat16FromBits(y)).Bits() },
			"-": func(x, y, z uint16) uint16 { return gpu.BFloat16FromBits(x).Sub(gpu.BFloat16FromBits(y)).Bits() },
			"*": func(x, y, z uint16) uint16 { return gpu.BFloat16FromBits(x).Mul(gpu.BFloat16FromBits(y)).Bits() },
			"/": func(x, y, z uint16) uint16 { return gpu.BFloat16FromBits(x).Div(gpu.BFloat16FromBits(y)).Bits() },
			"fma": func(x, y, z uint16) uint16 {
				return gpu.BFloat16FromBits(x).FMA(gpu.BFloat16FromBits(y), gpu.BFloat16FromBits(z)).Bits()
			},
		}},
}

// value is what bits mean, computed from their fields.
func (h half) value(b uint16) float64 {
	bias := 1<<(14-h.mantissa) - 1
	e, m := int(b&0x7fff>>h.mantissa), float64(b&(1<<h.mantissa-1))
	v := math.Ldexp(m, 1-bias-int(h.mantissa))
	if e > 0 {
		v = math.Ldexp(m+float64(int(1)<<h.mantissa), e-bias-int(h.mantissa))
	}
	if b&0x8000 != 0 {
		return -v
	}
	return v
}

// nearest searches all values for the nearest one.
func (h half) nearest(exact *big.Float) uint16 {
	inf := uint16(0x7fff) &^ (1<<h.mantissa - 1)
	abs := new(big.Float).Abs(exact)
	up := uint16(sort.Search(int(inf), func(b int) bool { return abs.Cmp(big.NewFloat(h.value(uint16(b)))) <= 0 }))
	r := up
	if up > 0 && abs.Cmp(big.NewFloat(h.value(up))) != 0 { // inf's value is the next one that there would be
		middle := new(big.Float).SetPrec(200).Add(big.NewFloat(h.value(up)), big.NewFloat(h.value(up-1)))
		if c := abs.Cmp(middle.Quo(middle, big.NewFloat(2))); c < 0 || c == 0 && up&1 == 1 {
			r = up - 1
		}
	}
	if exact.Signbit() {
		r |= 0x8000
	}
	return r
}

func TestHalfConversions(t *testing.T) {
	for _, h := range halves {
		inf := uint16(0x7fff) &^ (1<<h.mantissa - 1)
		for b := range 1 << 16 {
			b := uint16(b)
			f := h.toFloat(b)
			switch {
			case b&0x7fff > inf:
				assert.True(t, f != f && h.toFloat(h.from(f)) != h.toFloat(h.from(f)), "%s %x", h.name, b)
				continue
			case b&0x7fff == inf:
				assert.True(t, math.IsInf(float64(f), 1-2*int(b>>15)), "%s %x", h.name, b)
			case float64(f) != h.value(b) || math.Signbit(float64(f)) != (b&0x8000 != 0):
				t.Fatalf("%s %x is %g, want %g", h.name, b, f, h.value(b))
			}
			if got := h.from(f); got != b {
				t.Fatalf("%s %x becomes %x by way of float32", h.name, b, got)
			}
		}
		r := rand.New(rand.NewPCG(1, 3))
		for range 50_000 {
			f := h.toFloat(uint16(r.Uint32()))
			f = math.Float32frombits(math.Float32bits(f) + r.Uint32()>>(r.Uint32()%32))
			if r.Uint32()&1 == 0 { // a middle, or beside one
				f = math.Float32frombits(math.Float32bits(h.toFloat(uint16(r.Uint32())&0x7fff)) + 1<<(22-h.mantissa) + r.Uint32()%3 - 1)
			}
			if f != f || math.IsInf(float64(f), 0) {
				continue
			}
			if got, want := h.from(f), h.nearest(big.NewFloat(float64(f))); got != want {
				t.Fatalf("%s of %g is %x, want %x", h.name, f, got, want)
			}
		}
	}
	assert.Equal(t, "0.33325195", gpu.ToFloat16(1.0/3).String())
	assert.Equal(t, "-2", gpu.ToBFloat16(2).Neg().String())
	assert.Equal(t, "-2", gpu.ToFloat16(2).Neg().String())
}

// TestHalfArithmetic compares with exact arithmetic.
func TestHalfArithmetic(t *testing.T) {
	for _, h := range halves {
		inf := uint16(0x7fff) &^ (1<<h.mantissa - 1)
		r := rand.New(rand.NewPCG(2, 4))
		for range 30_000 {
			x, y, z := uint16(r.Uint32()), uint16(r.Uint32()), uint16(r.Uint32())
			if r.Uint32()&1 == 0 { // near the smallest values
				x, y, z = x&0x9fff, y&0x9fff|0x3000, z&0x83ff
			}
			if x&0x7fff >= inf || y&0x7fff >= inf || z&0x7fff >= inf {
				continue
			}
			a, b, c := big.NewFloat(h.value(x)).SetPrec(900), big.NewFloat(h.value(y)), big.NewFloat(h.value(z))
			n := func() *big.Float { return new(big.Float).SetPrec(900) }
			for op, f := range h.ops {
				var exact *big.Float
				switch op {
				case "+":
					exact = n().Add(a, b)
				case "-":
					exact = n().Sub(a, b)
				case "*":
					exact = n().Mul(a, b)
				case "/":
					if b.Sign() == 0 {
						continue
					}
					exact = n().Quo(a, b)
				default:
					exact = n().Add(n().Mul(a, b), c)
				}
				got, want := f(x, y, z), h.nearest(exact)
				if got != want && got|want != 0x8000 { // the sign of 0 is that of float64
					t.Fatalf("%s %x %s %x (%x) is %x, want %x", h.name, x, op, y, z, got, want)
				}
			}
		}
	}
}
