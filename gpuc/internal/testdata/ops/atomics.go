package testops

import "github.com/purecuda/purecuda/gpu"

func integerAtomics[T gpu.AtomicInteger](t *gpu.Thread, s *[8]T, g, v []T, i int) {
	gpu.AtomicMin(&g[1], v[i])
	gpu.AtomicMax(&s[2], v[i])
	gpu.AtomicAnd(&g[3], v[i]|0x55)
	gpu.AtomicOr(&s[4], v[i])
	gpu.AtomicXor(&g[5], v[i])
}

func atomics[T gpu.AtomicNumber](t *gpu.Thread, s *[8]T, g, v []T, i int) {
	gpu.AtomicAdd(&g[0], v[i])
	gpu.AtomicAdd(&s[1], v[i])
	for old := s[6]; ; { // an addition by compare and swap
		before := gpu.AtomicCompareAndSwap(&s[6], old, old+v[i])
		if before == old {
			break
		}
		old = before
	}
	if i == 0 {
		v[i] = gpu.AtomicExchange(&g[7], v[i])
	}
}

//purecuda:kernel
func AtomicInt32(t *gpu.Thread, g, v []int32) {
	i := t.GlobalX()
	s := gpu.Shared[[8]int32](t)
	if t.ThreadX() < 8 {
		s[t.ThreadX()] = 0
	}
	t.Barrier()
	atomics(t, s, g, v, i)
	integerAtomics(t, s, g, v, i)
	t.Barrier()
	if t.ThreadX() < 8 {
		gpu.AtomicAdd(&g[8+t.ThreadX()], s[t.ThreadX()])
	}
}

//purecuda:kernel
func AtomicUint32(t *gpu.Thread, g, v []uint32) {
	i := t.GlobalX()
	s := gpu.Shared[[8]uint32](t)
	if t.ThreadX() < 8 {
		s[t.ThreadX()] = 0
	}
	t.Barrier()
	atomics(t, s, g, v, i)
	integerAtomics(t, s, g, v, i)
	t.Barrier()
	if t.ThreadX() < 8 {
		gpu.AtomicAdd(&g[8+t.ThreadX()], s[t.ThreadX()])
	}
}

//purecuda:kernel
func AtomicInt64(t *gpu.Thread, g, v []int64) {
	i := t.GlobalX()
	s := gpu.Shared[[8]int64](t)
	if t.ThreadX() < 8 {
		s[t.ThreadX()] = 0
	}
	t.Barrier()
	atomics(t, s, g, v, i)
	integerAtomics(t, s, g, v, i)
	t.Barrier()
	if t.ThreadX() < 8 {
		gpu.AtomicAdd(&g[8+t.ThreadX()], s[t.ThreadX()])
	}
}

//purecuda:kernel
func AtomicUint64(t *gpu.Thread, g, v []uint64) {
	i := t.GlobalX()
	s := gpu.Shared[[8]uint64](t)
	if t.ThreadX() < 8 {
		s[t.ThreadX()] = 0
	}
	t.Barrier()
	atomics(t, s, g, v, i)
	integerAtomics(t, s, g, v, i)
	t.Barrier()
	if t.ThreadX() < 8 {
		gpu.AtomicAdd(&g[8+t.ThreadX()], s[t.ThreadX()])
	}
}

//purecuda:kernel
func AtomicInt(t *gpu.Thread, g, v []int) {
	i := t.GlobalX()
	s := gpu.Shared[[8]int](t)
	if t.ThreadX() < 8 {
		s[t.ThreadX()] = 0
	}
	t.Barrier()
	atomics(t, s, g, v, i)
	integerAtomics(t, s, g, v, i)
	t.Barrier()
	if t.ThreadX() < 8 {
		gpu.AtomicAdd(&g[8+t.ThreadX()], s[t.ThreadX()])
	}
}

//purecuda:kernel
func AtomicUint(t *gpu.Thread, g, v []uint) {
	i := t.GlobalX()
	s := gpu.Shared[[8]uint](t)
	if t.ThreadX() < 8 {
		s[t.ThreadX()] = 0
	}
	t.Barrier()
	atomics(t, s, g, v, i)
	integerAtomics(t, s, g, v, i)
	t.Barrier()
	if t.ThreadX() < 8 {
		gpu.AtomicAdd(&g[8+t.ThreadX()], s[t.ThreadX()])
	}
}

//purecuda:kernel
func AtomicFloat32(t *gpu.Thread, g, v []float32) {
	i := t.GlobalX()
	s := gpu.Shared[[8]float32](t)
	if t.ThreadX() < 8 {
		s[t.ThreadX()] = 0
	}
	t.Barrier()
	atomics(t, s, g, v, i)

	t.Barrier()
	if t.ThreadX() < 8 {
		gpu.AtomicAdd(&g[8+t.ThreadX()], s[t.ThreadX()])
	}
}

//purecuda:kernel
func AtomicFloat64(t *gpu.Thread, g, v []float64) {
	i := t.GlobalX()
	s := gpu.Shared[[8]float64](t)
	if t.ThreadX() < 8 {
		s[t.ThreadX()] = 0
	}
	t.Barrier()
	atomics(t, s, g, v, i)

	t.Barrier()
	if t.ThreadX() < 8 {
		gpu.AtomicAdd(&g[8+t.ThreadX()], s[t.ThreadX()])
	}
}

// Counters counts around.
//
//purecuda:kernel
func Counters(t *gpu.Thread, c []uint32) {
	gpu.AtomicInc(&c[0], 6)
	gpu.AtomicDec(&c[1], 9)
}

//purecuda:kernel
func AtomicInt16(t *gpu.Thread, g, v []int16) {
	i := t.GlobalX()
	s := gpu.Shared[[8]int16](t)
	if t.ThreadX() < 8 {
		s[t.ThreadX()] = 0
	}
	t.Barrier()
	atomics(t, s, g, v, i)
	integerAtomics(t, s, g, v, i)
	t.Barrier()
	if t.ThreadX() < 8 {
		gpu.AtomicAdd(&g[8+t.ThreadX()], s[t.ThreadX()])
	}
}

//purecuda:kernel
func AtomicUint16(t *gpu.Thread, g, v []uint16) {
	i := t.GlobalX()
	s := gpu.Shared[[8]uint16](t)
	if t.ThreadX() < 8 {
		s[t.ThreadX()] = 0
	}
	t.Barrier()
	atomics(t, s, g, v, i)
	integerAtomics(t, s, g, v, i)
	t.Barrier()
	if t.ThreadX() < 8 {
		gpu.AtomicAdd(&g[8+t.ThreadX()], s[t.ThreadX()])
	}
}

// AtomicHalves adds small integers, whose sums are exact.
//
//purecuda:kernel block=64
func AtomicHalves(t *gpu.Thread, g, v []gpu.Float16) {
	s := gpu.Shared[[4]gpu.Float16](t)
	if t.ThreadX() < 4 {
		s[t.ThreadX()] = gpu.ToFloat16(0)
	}
	t.Barrier()
	i := t.GlobalX()
	gpu.AtomicAddHalf(&g[i&3], v[i])
	gpu.AtomicAddHalf(&s[i&3], v[i])
	t.Barrier()
	if t.ThreadX() < 4 {
		gpu.AtomicAddHalf(&g[4+t.ThreadX()], s[t.ThreadX()])
	}
}

// Parts has arrays of several types in dynamic shared memory.
//
//purecuda:kernel block=64 registers=40
func Parts(t *gpu.Thread, sums []int64, x []int16) {
	n, all := t.BlockDimX(), gpu.DynamicShared[byte](t)
	wide, small := gpu.View[int64](all[:8*n]), gpu.View[int16](all[8*n:10*n])
	i := t.ThreadX()
	wide[i], small[n-1-i] = int64(x[t.GlobalX()])<<20, x[t.GlobalX()]
	t.Barrier()
	sums[t.GlobalX()] = wide[n-1-i] + int64(small[(i+1)%n])
}
