package gpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// oneWarp is a shape of 32 threads.
var oneWarp = Shape{Grid: Dim3{X: 1}, Block: Dim3{X: 32}}

// testMMA compares the product of two fragments with the sum of the products, in the order that MMA states.
func testMMA[T Element, S Sum](t *testing.T, random func(r *rand.Rand) T, add func(c S, a, b []T) S) {
	t.Run(fmt.Sprintf("%T", *new(T)), func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		k := 32 / elementSize[T]()
		a, b := make([]T, 16*k), make([]T, 8*k)
		for i := range a {
			a[i] = random(r)
		}
		for i := range b {
			b[i] = random(r)
		}
		var got, want [16][8]S
		require.NoError(t, Run(oneWarp, func(t *Thread) {
			var c FragmentC[S]
			for i := range c {
				row, col := c.Place(t.Lane(), i)
				c[i] = S(row - col)
			}
			MMA(t, &c, LoadA(t, a, k), LoadB(t, b, k))
			for i := range c {
				row, col := c.Place(t.Lane(), i)
				got[row][col] = c[i]
			}
		}))
		for row := range want {
			for col := range want[row] {
				want[row][col] = add(S(row-col), a[row*k:][:k], b[col*k:][:k])
			}
		}
		assert.Equal(t, want, got)
	})
}

func addInts[T int8 | uint8](c int32, a, b []T) int32 {
	for i := range a {
		c += int32(a[i]) * int32(b[i])
	}
	return c
}

func addFloats[T interface{ Float32() float32 }](c float32, a, b []T) float32 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i].Float32()) * float64(b[i].Float32())
	}
	return float32(sum + float64(c))
}

func TestMMA(t *testing.T) {
	normal := func(r *rand.Rand) float32 { return float32(r.NormFloat64()) }
	testMMA(t, func(r *rand.Rand) Float16 { return ToFloat16(normal(r)) }, addFloats[Float16])
	testMMA(t, func(r *rand.Rand) BFloat16 { return ToBFloat16(normal(r)) }, addFloats[BFloat16])
	testMMA(t, func(r *rand.Rand) TF32 { return ToTF32(normal(r)) }, addFloats[TF32])
	testMMA(t, func(r *rand.Rand) Float8E4M3 { return ToFloat8E4M3(normal(r)) }, addFloats[Float8E4M3])
	testMMA(t, func(r *rand.Rand) Float8E5M2 { return ToFloat8E5M2(normal(r)) }, addFloats[Float8E5M2])
	testMMA(t, func(r *rand.Rand) int8 { return int8(r.Uint32()) }, addInts[int8])
	testMMA(t, func(r *rand.Rand) uint8 { return uint8(r.Uint32()) }, addInts[uint8])
	testMMA(t, func(r *rand.Rand) float64 { return r.NormFloat64() }, func(c float64, a, b []float64) float64 {
		for i := range a {
			c = math.FMA(a[i], b[i], c)
		}
		return c
	})
}

// TestPlaces looks that the lanes of a warp have each element of each fragment once.
func TestPlaces(t *testing.T) {
	places[Float16](t)
	places[int8](t)
	places[TF32](t)
	places[float64](t)
}

func places[T Element](t *testing.T) {
	size := elementSize[T]()
	a, b, c := map[[2]int]bool{}, map[[2]int]bool{}, map[[2]int]bool{}
	for lane := range 32 {
		for i := range 16 / size {
			row, k := FragmentA[T]{}.Place(lane, i)
			a[[2]int{row, k}] = row < 16 && k < 32/size
		}
		for i := range 8 / size {
			k, col := FragmentB[T]{}.Place(lane, i)
			b[[2]int{k, col}] = col < 8 && k < 32/size
		}
		for i := range 4 {
			row, col := FragmentC[float32]{}.Place(lane, i)
			c[[2]int{row, col}] = row < 16 && col < 8
		}
	}
	assert.Len(t, a, 16*32/size)
	assert.Len(t, b, 8*32/size)
	assert.Len(t, c, 16*8)
	for _, m := range []map[[2]int]bool{a, b, c} {
		for at, inside := range m {
			assert.True(t, inside, at)
		}
	}
}

// TestLoadMatrix loads fragments from shared memory in all ways, and from slices.
func TestLoadMatrix(t *testing.T) {
	var x [16][16]BFloat16
	flat := make([]BFloat16, 256)
	for i := range 256 {
		x[i/16][i%16] = BFloat16{uint16(i)}
		flat[i] = x[i/16][i%16]
	}
	var turned []BFloat16
	for i := range flat {
		turned = append(turned, x[i%16][i/16])
	}
	require.NoError(t, Run(oneWarp, func(t *Thread) {
		shared := Shared[[32]Uint4](t)
		lane := t.Lane()
		for i := range 8 {
			shared[lane].set(i, x[lane/2][lane%2*8+i])
		}
		WarpBarrier(t)
		// Row r of 16 elements is shared[2*r] and the next.
		a, tb := LoadMatrixA[BFloat16](t, &shared[lane%16*2+lane/16]), LoadTransposedB[BFloat16](t, &shared[lane%16*2+lane/16])
		b, ta := LoadMatrixB[BFloat16](t, &shared[(lane%8+lane/16*8)*2+lane/8%2]), LoadTransposedA[BFloat16](t, &shared[(lane%8+lane/16*8)*2+lane/8%2])
		same := a == LoadA(t, flat, 16) && ta == LoadA(t, turned, 16)
		for i := range 2 {
			same = same && b[i] == LoadB(t, flat[i*128:], 16) && tb[i] == LoadB(t, turned[i*128:], 16)
		}
		if !same {
			panic(fmt.Sprint("lane ", lane, a, ta, b, tb))
		}
		for i := range 8 {
			if row, k := a.Place(lane, i); a.At(i) != x[row][k] {
				panic("At is not what Place says")
			}
		}
	}))
}

// set sets an element of 16 bits.
func (x *Uint4) set(i int, v BFloat16) {
	w := [4]*uint32{&x.X, &x.Y, &x.Z, &x.W}[i/2]
	*w = *w&^(0xffff<<(i%2*16)) | uint32(v.bits)<<(i%2*16)
}

func TestFragmentFaults(t *testing.T) {
	var c32 FragmentC[float32]
	for _, c := range []struct {
		name    string
		threads int
		kernel  func(t *Thread)
		want    string
	}{
		{"the wrong sums", 32, func(t *Thread) { MMA(t, &FragmentC[float64]{}, FragmentA[int8]{}, FragmentB[int8]{}) }, "gpu.MMA: the sums of int8 are int32, not float64"},
		{"the wrong sums of four warps", 32, func(t *Thread) { WGMMA[int32](t, &[32]int32{}, SharedTile[Float16]{}, nil, false) }, "gpu.WGMMA: the sums of gpu.Float16 are float32, not int32"},
		{"transposes of bytes", 32, func(t *Thread) { WGMMATurned[int32](t, &[32]int32{}, SharedTile[int8]{}, nil, true, false, false) }, "gpu.WGMMATurned: no device has it for int8, only for elements of 16 bits"},
		{"four warps and float64", 32, func(t *Thread) { WGMMA[float64](t, &[32]float64{}, SharedTile[float64]{}, nil, false) }, "gpu.WGMMA: no device has it for float64: take gpu.MMA"},
		{"half a warp", 16, func(t *Thread) { c := c32; MMA(t, &c, FragmentA[Float16]{}, FragmentB[Float16]{}) }, "the warp has 16 lanes, not 32"},
		{"a lane that has returned", 32, func(t *Thread) {
			if t.Lane() < 31 {
				c := c32
				MMA(t, &c, FragmentA[Float16]{}, FragmentB[Float16]{})
			}
		}, "while lane 31 has returned"},
		{"a load of float64", 32, func(t *Thread) { LoadMatrixA[float64](t, &Shared[[32]Uint4](t)[0]) }, "wider than a word"},
		{"a copy of too much", 32, func(t *Thread) { CopyAsyncPart(t, nil, nil, 17) }, "17 bytes are not 0 to 16"},
		{"a wait for less than nothing", 32, func(t *Thread) { CopyWait(t, -1) }, "-1 groups"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Run(Shape{Grid: Dim3{X: 1}, Block: Dim3{X: c.threads}}, c.kernel)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// TestCopyAsync looks that data arrive where the thread waits for them, and not before.
func TestCopyAsync(t *testing.T) {
	from := []Uint4{{1, 2, 3, 4}, {5, 6, 7, 8}}
	var seen [3][2]Uint4
	require.NoError(t, Run(Shape{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, func(t *Thread) {
		to := Shared[[2]Uint4](t)
		CopyAsync(t, &to[0], &from[0])
		CopyCommit(t)
		CopyAsyncPart(t, &to[1], &from[1], 6)
		CopyCommit(t)
		seen[0] = *to
		CopyWait(t, 1)
		seen[1] = *to
		CopyWait(t, 0)
		seen[2] = *to
	}))
	junk := Uint4{1<<32 - 1, 1<<32 - 1, 1<<32 - 1, 1<<32 - 1}
	assert.Equal(t, [3][2]Uint4{{junk, junk}, {from[0], junk}, {from[0], {5, 6, 0, 0}}}, seen)
}

func TestFloat8(t *testing.T) {
	for bits := range 256 {
		if x := Float8E4M3FromBits(uint8(bits)); bits&0x7f != 0x7f {
			assert.Equal(t, x, ToFloat8E4M3(x.Float32()), "%v", x)
		} else {
			assert.True(t, math.IsNaN(float64(x.Float32())))
		}
		if x := Float8E5M2FromBits(uint8(bits)); bits&0x7f <= 0x7b {
			assert.Equal(t, x, ToFloat8E5M2(x.Float32()), "%v", x)
		}
	}
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		x          float32
		e4m3, e5m2 string
	}{
		{0, "0", "0"}, {1, "1", "1"}, {-448, "-448", "-448"}, {449, "448", "448"}, {1e9, "448", "57344"}, {-inf, "-448", "-57344"},
		{1.0625, "1", "1"}, {1.1875, "1.25", "1.25"}, {1.125, "1.125", "1"}, {1.375, "1.375", "1.5"},
		{0x1p-9, "0.001953125", "0.001953125"}, {0x1p-10, "0", "0.0009765625"}, {0x1.8p-10, "0.001953125", "0.0014648438"},
		{0x1p-16, "0", "1.5258789e-05"}, {0x1p-17, "0", "0"},
	} {
		assert.Equal(t, [2]string{c.e4m3, c.e5m2}, [2]string{ToFloat8E4M3(c.x).String(), ToFloat8E5M2(c.x).String()}, "%v", c.x)
	}
	nan := float32(math.NaN())
	assert.Equal(t, [2]uint8{0x7f, 0x7f}, [2]uint8{ToFloat8E4M3(nan).Bits(), ToFloat8E5M2(nan).Bits()})
	assert.Equal(t, float32(1), ToTF32(1+0x1p-12).Float32())
	assert.Equal(t, float32(1+0x1p-10), ToTF32(1+0x1p-11).Float32(), "away from zero in the middle")
	assert.Equal(t, inf, ToTF32(inf).Float32())
	assert.Equal(t, "1", ToTF32(1).String())
}
