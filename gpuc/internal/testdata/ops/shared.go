package testops

import "github.com/purecuda/purecuda/gpu"

// broadcast gives what a thread of the block has to all, through a variable of its own.
func broadcast[T any](t *gpu.Thread, v T, from int) T {
	s := gpu.Shared[T](t)
	if t.ThreadX() == from {
		*s = v
	}
	t.Barrier()
	v = *s
	t.Barrier()
	return v
}

func slot(t *gpu.Thread) *int32 { return gpu.Shared[int32](t) }

// Sites has shared memory in functions, in loops and after conditions.
//
//purecuda:kernel block=64
func Sites(t *gpu.Thread, out, in []int32) {
	sum := int32(0)
	for i := range len(in) / 64 {
		if i%3 == t.BlockX() {
			sum += broadcast(t, in[64*i+t.ThreadX()], i%64)
		} else if broadcast(t, float32(in[64*i+t.ThreadX()]), 5) > 0 {
			sum++
		}
	}
	for i := range 4 {
		sum ^= int32(broadcast(t, int64(in[t.ThreadX()])<<7, i))
	}
	a, b := slot(t), slot(t)
	odd := a
	if t.ThreadX()%2 == 1 {
		odd = slot(t)
	}
	c := slot(t)
	if t.ThreadX() == 1 {
		*a, *b, *c, *odd = 1, 20, 300, 4000
	}
	t.Barrier()
	out[t.GlobalX()] = sum + 1000*(*a+*b+*c+*odd)
}
