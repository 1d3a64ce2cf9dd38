//go:build !amd64 || race

package arena

// copyPast copies like copy. On amd64 it has stores that go past the caches, which the race detector cannot see.
func copyPast(dst, src []byte) { copy(dst, src) }
