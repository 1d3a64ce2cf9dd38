package testops

import "github.com/purecuda/purecuda/gpu"

// swap moves numbers through loads and stores of all orders and scopes.
func swap[T gpu.AtomicNumber](t *gpu.Thread, s *[64]T, out, in []T) {
	i := t.GlobalX()
	gpu.AtomicStore(&s[t.ThreadX()], gpu.AtomicLoad(&in[i], gpu.Acquire, gpu.SystemScope), gpu.Release, gpu.BlockScope)
	t.Barrier()
	v := gpu.AtomicLoad(&s[t.ThreadX()^1], gpu.Relaxed, gpu.BlockScope)
	gpu.AtomicStore(&out[i], v, gpu.Relaxed, gpu.DeviceScope)
	gpu.Fence(gpu.AcquireRelease, gpu.BlockScope)
	gpu.AtomicStore(&out[i], gpu.AtomicLoad(&out[i], gpu.Relaxed, gpu.SystemScope)+gpu.LoadStreaming(&in[i]), gpu.Release, gpu.SystemScope)
	gpu.Fence(gpu.SeqCst, gpu.SystemScope)
	t.Barrier()
}

//purecuda:kernel block=64
func Orders(t *gpu.Thread, a, b []int32, c, d []uint64, e, f []float32, g, h []float64, p, q []gpu.Uint64x2, r []gpu.Float4) {
	swap(t, gpu.Shared[[64]int32](t), a, b)
	swap(t, gpu.Shared[[64]uint64](t), c, d)
	swap(t, gpu.Shared[[64]float32](t), e, f)
	swap(t, gpu.Shared[[64]float64](t), g, h)
	i := t.GlobalX()
	gpu.AtomicStorePair(&p[i], gpu.AtomicLoadPair(&q[i], gpu.DeviceScope), gpu.SystemScope)
	v := gpu.LoadStreaming(&r[i])
	v.X += v.W
	gpu.StoreStreaming(&r[i], v)
	gpu.StoreStreaming(&a[i], gpu.LoadStreaming(&a[i])+1)
}

// Chain hands a number from block to block: each waits for the one before it, and adds what that has written.
//
//purecuda:kernel block=64
func Chain(t *gpu.Thread, data []uint64, flags []uint32, counter []uint64) {
	tile := gpu.Shared[uint64](t)
	if t.ThreadX() == 0 {
		*tile = gpu.AtomicAdd(&counter[0], 1)
	}
	t.Barrier()
	if t.ThreadX() > 0 {
		return
	}
	i := int(*tile)
	if i > 0 {
		for gpu.AtomicLoad(&flags[i-1], gpu.Acquire, gpu.DeviceScope) == 0 {
			t.Nanosleep(64)
		}
		data[i] += data[i-1]
	}
	if i%2 == 0 {
		gpu.AtomicStore(&flags[i], 1, gpu.Release, gpu.DeviceScope)
	} else {
		gpu.Fence(gpu.AcquireRelease, gpu.DeviceScope)
		gpu.AtomicStore(&flags[i], 1, gpu.Relaxed, gpu.DeviceScope)
	}
}
