package kernels

import (
	"crypto/sha256"
	"math"
)

// sha256RoundsThreads is the block size of sha256_rounds, in threads, and the largest it can be launched with. A thread has
// a digest: the grid is linearGrid(digests, sha256RoundsThreads).
const sha256RoundsThreads = 128

// SHA256RoundsEnough is how many digests keep a device busy. Each has a thread for all its rounds.
func SHA256RoundsEnough(multiprocessors int) int {
	const threads = 2048 // of a multiprocessor at most
	return threads * min(max(multiprocessors, 1), math.MaxInt32/threads)
}

// SHA256RoundsCPU is the reference of sha256_rounds: each digest is replaced rounds times by the SHA-256 of its own 32
// bytes. It runs on the calling goroutine, and does not allocate.
func SHA256RoundsCPU(digests []Digest, rounds uint32) {
	for i := range digests {
		for range rounds {
			digests[i] = sha256.Sum256(digests[i][:])
		}
	}
}
