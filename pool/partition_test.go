package pool_test

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/pool"
)

func TestPartitionKnownAnswers(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	const most = 1 << 62
	for _, c := range []struct {
		name    string
		weights []float64
		n       int
		want    []pool.Tile
	}{
		{"no device", nil, 10, nil},
		{"nothing", []float64{1, 1}, 0, nil},
		{"less than nothing", []float64{1}, -1, nil},
		{"one device", []float64{3}, 7, []pool.Tile{{0, 0, 7}}},
		{"one device without weight", []float64{0}, 7, []pool.Tile{{0, 0, 7}}},
		{"99 over three", []float64{1, 1, 1}, 99, []pool.Tile{{0, 0, 33}, {1, 33, 66}, {2, 66, 99}}},
		{"100 over three", []float64{1, 1, 1}, 100, []pool.Tile{{0, 0, 34}, {1, 34, 67}, {2, 67, 100}}},
		{"2 over five", []float64{1, 1, 1, 1, 1}, 2, []pool.Tile{{0, 0, 1}, {1, 1, 2}}},
		{"largest fraction first", []float64{1, 2, 4}, 3, []pool.Tile{{1, 0, 1}, {2, 1, 3}}},
		{"weights that do not count", []float64{nan, 1, -5, inf, 1, -inf}, 4, []pool.Tile{{1, 0, 2}, {4, 2, 4}}},
		{"none that counts", []float64{nan, -1, inf, 0}, 6, []pool.Tile{{0, 0, 2}, {1, 2, 4}, {2, 4, 5}, {3, 5, 6}}},
		{"far apart", []float64{1e-300, 1e300}, 100, []pool.Tile{{1, 0, 100}}},
		{"far apart, and a unit for the middle", []float64{1e-300, 1e300, 1e300}, 101, []pool.Tile{{1, 0, 51}, {2, 51, 101}}},
		{"the smallest decides", []float64{1, 1 + 0x1p-52}, 1, []pool.Tile{{1, 0, 1}}},
		{"subnormal", []float64{5e-324, 1e-323}, 3, []pool.Tile{{0, 0, 1}, {1, 1, 3}}},
		{"sum beyond float64", []float64{math.MaxFloat64, math.MaxFloat64}, 10, []pool.Tile{{0, 0, 5}, {1, 5, 10}}},
		{"most items", []float64{1, 1, 1}, most, []pool.Tile{
			{0, 0, most/3 + 1}, {1, most/3 + 1, 2*(most/3) + 1}, {2, 2*(most/3) + 1, most}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, pool.Partition(c.weights, c.n))
		})
	}
}

// checkPartition compares with the specification in rational numbers.
func checkPartition(t *testing.T, weights []float64, n int) {
	t.Helper()
	tiles := pool.Partition(weights, n)
	require.Equal(t, tiles, pool.Partition(weights, n), "the same arguments give the same tiles")
	if n <= 0 || len(weights) == 0 {
		require.Empty(t, tiles)
		return
	}
	exact, sum := make([]*big.Rat, len(weights)), new(big.Rat)
	for i, w := range weights {
		exact[i] = new(big.Rat)
		if w > 0 && !math.IsInf(w, 0) {
			exact[i].SetFloat64(w)
		}
		sum.Add(sum, exact[i])
	}
	if sum.Sign() == 0 {
		for i := range exact {
			exact[i].SetInt64(1)
		}
		sum.SetInt64(int64(len(weights)))
	}
	lengths := make([]int, len(weights))
	at, before := 0, -1
	for _, tile := range tiles {
		require.Equal(t, at, tile.Lo, "no gap and no overlap")
		require.Greater(t, tile.Hi, tile.Lo, "no empty tile")
		require.Greater(t, tile.Index, before, "in the order of the devices")
		require.Less(t, tile.Index, len(weights))
		lengths[tile.Index] = tile.Len()
		at, before = tile.Hi, tile.Index
	}
	require.Equal(t, n, at, "all is covered")

	// Whoever got a unit for its fraction has a fraction at least as large as those who
	// got none, and stands before those with the same one.
	one := big.NewRat(1, 1)
	fractions, extra := make([]*big.Rat, len(weights)), make([]bool, len(weights))
	for i, w := range exact {
		quota := new(big.Rat).Mul(w, new(big.Rat).SetInt64(int64(n)))
		quota.Quo(quota, sum)
		whole := new(big.Int).Quo(quota.Num(), quota.Denom())
		fractions[i] = new(big.Rat).Sub(quota, new(big.Rat).SetInt(whole))
		off := new(big.Rat).Sub(new(big.Rat).SetInt64(int64(lengths[i])), quota)
		require.Negative(t, off.Abs(off).Cmp(one), "device %d of %v, n=%d: less than one unit from its quota", i, weights, n)
		more := int64(lengths[i]) - whole.Int64()
		require.Contains(t, []int64{0, 1}, more)
		extra[i] = more == 1
	}
	for i := range weights {
		for j := range weights {
			if extra[i] && !extra[j] {
				order := fractions[i].Cmp(fractions[j])
				require.False(t, order < 0 || order == 0 && i > j, "%v, n=%d: device %d got a unit before device %d", weights, n, i, j)
			}
		}
	}
}

func TestPartitionProperties(t *testing.T) {
	chance := rand.New(rand.NewPCG(7, 7))
	weights := []func() float64{
		func() float64 { return 1 },
		func() float64 { return float64(chance.IntN(5)) },
		func() float64 { return 100 + 200*chance.Float64() },
		func() float64 { return math.Ldexp(chance.Float64(), chance.IntN(60)-30) },
		func() float64 { return math.Float64frombits(chance.Uint64()) },
		func() float64 { return math.Float64frombits(chance.Uint64N(1 << 53)) }, // subnormal and just above
		func() float64 {
			return []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, 1e-300, 1e300, math.MaxFloat64, 5e-324}[chance.IntN(9)]
		},
	}
	for range 4000 {
		list := make([]float64, chance.IntN(12))
		kind := weights[chance.IntN(len(weights))]
		for i := range list {
			list[i] = kind()
		}
		n := chance.IntN(1 << (1 + chance.IntN(62)))
		if chance.IntN(10) == 0 {
			n = 1<<62 - chance.IntN(3)
		}
		checkPartition(t, list, n)
	}
}

func FuzzPartition(f *testing.F) {
	f.Add([]byte{}, 3)
	f.Add(binary.LittleEndian.AppendUint64(nil, math.Float64bits(1e300)), 1<<62)
	f.Add(make([]byte, 64), 100)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		if n > 1<<62 || len(data) > 1024 {
			return
		}
		var weights []float64
		for ; len(data) >= 8; data = data[8:] {
			weights = append(weights, math.Float64frombits(binary.LittleEndian.Uint64(data)))
		}
		checkPartition(t, weights, n)
	})
}
