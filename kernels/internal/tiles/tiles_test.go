package tiles_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
)

// The kernels run here on the CPU, on all cores: blocks begin in any order and wait for each other.

func TestScanOnTheCPU(t *testing.T) {
	for _, n := range []int{1, 8192, 70_001} {
		in, out := make([]uint32, n), make([]uint32, n)
		for i := range in {
			in[i] = rand.Uint32()
		}
		count := (n + 8191) / 8192
		words := make([]uint64, tiles.Words+tiles.TotalsLen(count))
		shape := gpu.Shape1D(count*tiles.TileThreads, tiles.TileThreads)
		shape.SharedBytes = tiles.TileShared(4)
		require.NoError(t, gpu.Run(shape, func(t *gpu.Thread) {
			tiles.Scan(t, block.Add[uint32]{}, false, n%2 == 0, out, in, words, nil, 0, nil)
		}))
		sum := uint32(0)
		for i := range in {
			sum += in[i]
			require.Equal(t, sum, out[i], i)
		}
	}
}

// TestByKeyOnTheCPU has elements that go through shared memory, and some that do not.
func TestByKeyOnTheCPU(t *testing.T) {
	byKey(t, func(i int) uint32 { return uint32(i / 3) }, func(i int) uint32 { return uint32(i) })
	byKey(t, func(i int) uint32 { return uint32(i / 3) }, func(i int) uint64 { return uint64(i) })
	byKey(t, func(i int) [9]uint64 { return [9]uint64{8: uint64(i / 3)} }, func(i int) uint32 { return uint32(i) })
}

// byKey adds the values of runs of three.
func byKey[K comparable, V uint32 | uint64](t *testing.T, key func(i int) K, value func(i int) V) {
	var k K
	var v V
	tile := tiles.RunTile(unsafe.Sizeof(k), unsafe.Sizeof(v))
	for _, n := range []int{1, tile, 3*tile + 77} {
		keys, values, outKeys, outValues, count := make([]K, n), make([]V, n), make([]K, n), make([]V, n), make([]uint64, 1)
		for i := range keys {
			keys[i], values[i] = key(i), value(i)
		}
		blocks := (n + tile - 1) / tile
		open := make([]tiles.Open[V], tiles.TotalsLen(blocks))
		words := make([]uint64, tiles.Words+2*len(open))
		shape := gpu.Shape1D(blocks*tiles.TileThreads, tiles.TileThreads)
		shape.SharedBytes = tiles.RunShared(unsafe.Sizeof(k), unsafe.Sizeof(v))
		require.NoError(t, gpu.Run(shape, func(t *gpu.Thread) {
			tiles.ByKey(t, block.Add[V]{}, tiles.Values[V]{V: values}, true, outKeys, outValues, keys, count, words, open)
		}))
		require.EqualValues(t, (n+2)/3, count[0])
		for i := range n / 3 {
			require.Equal(t, key(3*i), outKeys[i])
			require.Equal(t, value(3*i)+value(3*i+1)+value(3*i+2), outValues[i], i)
		}
	}
}

type even struct{}

func (even) Keep(v uint64) bool { return v%2 == 0 }

func TestKeepAndReduceOnTheCPU(t *testing.T) {
	const n = 9001
	in, out, count, sum := make([]uint64, n), make([]uint64, n), make([]uint64, 1), make([]uint64, 3)
	want, total := []uint64(nil), uint64(0)
	for i := range in {
		in[i] = rand.Uint64()
		total += in[i]
		if in[i]%2 == 0 {
			want = append(want, in[i])
		}
	}
	tile := tiles.Tile(8)
	blocks := (n + tile - 1) / tile
	words := make([]uint64, tiles.Words+2*tiles.TotalsLen(blocks))
	shape := gpu.Shape1D(blocks*tiles.TileThreads, tiles.TileThreads)
	shape.SharedBytes = 8 * tile
	require.NoError(t, gpu.Run(shape, func(t *gpu.Thread) { tiles.Keep(t, tiles.Condition[uint64, even]{}, true, out, nil, in, count, words) }))
	assert.Equal(t, uint64(len(want)), count[0])
	assert.True(t, slices.Equal(want, out[:len(want)]))
	require.NoError(t, gpu.Run(gpu.Shape1D(3*tiles.TileThreads, tiles.TileThreads), func(t *gpu.Thread) { tiles.Reduce(t, block.Add[uint64]{}, true, sum, in) }))
	assert.Equal(t, total, sum[0]+sum[1]+sum[2])
}

// One portion has one tile here, so that each tile of the keys is a launch of its own.
func TestSortInPortionsOnTheCPU(t *testing.T) {
	const n = 20_000
	keys, values, want := make([]int32, n), make([]uint32, n), make([]int32, n)
	for i := range keys {
		keys[i], values[i] = int32(rand.Uint32N(1000))-500, uint32(i)
		want[i] = keys[i]
	}
	original := slices.Clone(keys)
	outKeys, outValues := make([]int32, n), make([]uint32, n)
	tile := tiles.SortThreads * tiles.SortItems(4)
	for _, portion := range []int{tile, 2 * tile, n + tile} {
		copy(keys, original)
		for i := range values {
			values[i] = uint32(i)
		}
		portions := (n + portion - 1) / portion
		w := tiles.Work{Passes: 4, Portions: portions}
		work := make([]uint32, w.Len())
		rows := 256 * ((min(n, portion) + tile - 1) / tile)
		status := [2][]uint32{make([]uint32, rows), make([]uint32, rows)}
		for i := range status[0] {
			status[0][i], status[1][i] = rand.Uint32(), rand.Uint32()
		}
		require.NoError(t, gpu.Run(gpu.Shape1D(3*tiles.SortThreads, tiles.SortThreads), func(t *gpu.Thread) {
			tiles.CountKeys(t, tiles.Signed, portions, work, status[0], keys)
		}))
		from, fromV, to, toV := keys, values, outKeys, outValues
		for pass := range 4 {
			for p := range portions {
				launch := pass*portions + p
				size := min(portion, n-p*portion)
				shape := gpu.Shape1D((size+tile-1)/tile*tiles.SortThreads, tiles.SortThreads)
				shape.SharedBytes = tiles.SortShared(4)
				step := tiles.Pass{Order: tiles.Signed, Pass: pass, Passes: 4, Portion: p, Portions: portions, From: p * portion}
				require.NoError(t, gpu.Run(shape, func(t *gpu.Thread) {
					tiles.SortKeys(t, step, to, from, toV, fromV, work, status[launch%2], status[(launch+1)%2])
				}))
			}
			from, fromV, to, toV = to, toV, from, fromV
		}
		slices.Sort(want)
		assert.True(t, slices.Equal(want, keys), portion)
		for i := range values {
			require.Equal(t, original[values[i]], keys[i])
			if i > 0 && keys[i] == keys[i-1] {
				require.Less(t, values[i-1], values[i], "equal keys keep their order")
			}
		}
	}
}
