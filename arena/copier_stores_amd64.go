//go:build !race

package arena

import "unsafe"

// copyLines copies n bytes, a multiple of 64 that is not 0, with stores that go past the caches. dst is a multiple of 16.
//
//go:noescape
func copyLines(dst, src unsafe.Pointer, n uintptr)

// leastPast is from which length stores past the caches gain.
const leastPast = 4 << 10

// copyPast copies like copy, with stores that go past the caches where there is enough to copy. What is stored is in memory
// when it returns.
func copyPast(dst, src []byte) {
	n := len(src) &^ 63
	to := unsafe.Pointer(unsafe.SliceData(dst))
	if len(src) < leastPast || len(dst) < len(src) || uintptr(to)%16 != 0 {
		copy(dst, src)
		return
	}
	copyLines(to, unsafe.Pointer(unsafe.SliceData(src)), uintptr(n))
	copy(dst[n:], src[n:])
}
