package kernels

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGramByHand(t *testing.T) {
	// Rows (1, 2) and (3, 5) with the weights 10 and 100.
	partials := make([]float64, 8)
	require.NoError(t, GramPartialsCPU([]float64{1, 2, 3, 5}, []float64{10, 100}, 2, partials))
	assert.Equal(t, []float64{10, 20, 20, 40, 900, 1500, 1500, 2500}, partials)
	total := make([]float64, 4)
	require.NoError(t, AddGram(partials, total))
	assert.Equal(t, []float64{910, 1520, 1520, 2540}, total)
}

func TestGramIsWithinItsBound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		rows, columns, strips := 1+r.IntN(500), 1+r.IntN(5), 1+r.IntN(5)
		x, w := wide(r, rows*columns), wide(r, rows)
		partials, total := make([]float64, strips*columns*columns), make([]float64, columns*columns)
		require.NoError(t, GramPartialsCPU(x, w, columns, partials))
		require.NoError(t, AddGram(partials, total))
		for i := range columns {
			for j := range columns {
				exact, size := new(big.Float).SetPrec(1000), 0.0
				for row := range rows {
					a, b := x[row*columns+i], x[row*columns+j]
					product := new(big.Float).SetPrec(1000).Mul(big.NewFloat(a), big.NewFloat(b))
					exact.Add(exact, product.Mul(product, big.NewFloat(w[row])))
					size += math.Abs(a * b * w[row])
				}
				difference, _ := new(big.Float).Sub(exact, big.NewFloat(total[i*columns+j])).Float64()
				bound := float64(rows/strips+1+strips+2) * 0x1p-53 * size
				require.LessOrEqual(t, math.Abs(difference), bound)
			}
		}
	}
}

func wide(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64() * math.Exp(3*r.NormFloat64())
	}
	return x
}

func TestGramRefusesWhatDoesNotFit(t *testing.T) {
	four := make([]float64, 4)
	for name, err := range map[string]error{
		"no column":        GramPartialsCPU(four, four, 0, four),
		"too many columns": GramPartialsCPU(four, nil, maxGramColumns+1, four),
		"a row too few":    GramPartialsCPU(four, four[:1], 2, four),
		"part of a row":    GramPartialsCPU(four[:3], four[:1], 2, four),
		"part of a strip":  GramPartialsCPU(four, four[:2], 2, make([]float64, 6)),
		"no strip":         GramPartialsCPU(four, four[:2], 2, nil),
		"sum of nothing":   AddGram(four, nil),
		"sum of a part":    AddGram(four, four[:3]),
	} {
		assert.ErrorContains(t, err, "InvalidArgument", name)
	}
}

func TestGramStrips(t *testing.T) {
	assert.Equal(t, 1, gramStrips(0, 1, 132))
	assert.Equal(t, 1, gramStrips(511, 1, 132))
	assert.Equal(t, 2, gramStrips(512, 16, 132))
	assert.Equal(t, 132*8, gramStrips(1<<40, 16, 132))
	assert.Equal(t, 132*8/3, gramStrips(1<<40, 17, 132))
	assert.Equal(t, 1, gramStrips(1<<40, maxGramColumns, 132))
	assert.Equal(t, 1, gramStrips(1<<40, 0, 0))
}
