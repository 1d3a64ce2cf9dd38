package gpu

import "time"

// Clock counts the cycles of the multiprocessor: two readings of a thread say how long it took between them. On the CPU
// they are nanoseconds.
func (t *Thread) Clock() int64 { return time.Since(begun).Nanoseconds() }

var begun = time.Now()

// GlobalTimer is the time of the device in nanoseconds, one for all its multiprocessors. It moves in steps of up to a
// microsecond.
func (t *Thread) GlobalTimer() int64 { return time.Now().UnixNano() }

// Multiprocessor is the number of the multiprocessor that the thread runs on: %smid of PTX. On the CPU it is 0.
func (t *Thread) Multiprocessor() int { return 0 }

// MinBlocksPerMultiprocessor is blocks=n of the directive for some types of a generic kernel: it stands in an if of constants and sizes,
// as unsafe.Sizeof(v) <= 4. n is a constant, 1 to 32. It holds for the whole kernel. On the CPU it does nothing.
func MinBlocksPerMultiprocessor(n int) {}

// Prefetch asks for the memory that p points to, so that a later load finds it in the L2 cache. On the CPU it does nothing.
func Prefetch[T any](p *T) {}

// Dot4 is sum plus the product of the four bytes of x with those of y, each with its sign if T has one: __dp4a of CUDA C.
func Dot4[T int32 | uint32](x, y, sum T) T {
	for range 4 {
		if T(0)-1 < 0 {
			sum += T(int8(x)) * T(int8(y))
		} else {
			sum += T(uint8(x)) * T(uint8(y))
		}
		x, y = x>>8, y>>8
	}
	return sum
}
