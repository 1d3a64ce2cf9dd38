package kernels

import (
	"crypto/sha256"
)

// sha256ChunksThreads is the block size of sha256_chunks, in threads, and the largest it can be
// launched with. A thread hashes a chunk: the grid is linearGrid(chunks, sha256ChunksThreads).
const sha256ChunksThreads = 128

// ChunkAlign is what the offset of a chunk is a multiple of, in bytes: the kernel loads 16
// bytes at once.
const ChunkAlign = 16

// Digest is a SHA-256 value, in the byte order of crypto/sha256. The kernel writes an array
// of them, which starts on a 16-byte boundary.
type Digest = [sha256.Size]byte

// Chunk is a piece of data to be hashed, in the layout of the kernel (16 bytes).
type Chunk struct {
	// Offset is where the chunk begins, in bytes from the start of the data. It is a multiple
	// of ChunkAlign.
	Offset uint64
	// Length is in bytes. A chunk of length 0 has the digest of the empty string.
	Length uint32

	_ uint32 // makes an array of chunks one 16-byte load each
}

// PaddedSize rounds a number of bytes up to a multiple of ChunkAlign. The kernel may read, and
// ignores, the bytes between the end of a chunk and the padded one. So device memory that holds
// a chunk must reach to PaddedSize(Offset+Length). A size above the last multiple that fits 64
// bits gives that multiple.
func PaddedSize(size uint64) uint64 {
	const mask = ChunkAlign - 1
	if size > ^uint64(mask) {
		return ^uint64(mask)
	}
	return (size + mask) &^ mask
}

// SHA256ChunksCPU is the reference of sha256_chunks: digests[i] is the SHA-256 of chunk i of
// data, replaced rounds times by the SHA-256 of its own 32 bytes. It runs on the calling
// goroutine, does not allocate and, unlike the kernel, needs no padding after the data.
//
// It fails with driver.ErrInvalidArgument, before anything is written, when there are not as many
// digests as chunks, or a chunk is misaligned or ends after the data.
func SHA256ChunksCPU(data []byte, chunks []Chunk, rounds uint32, digests []Digest) error {
	if len(chunks) != len(digests) {
		return invalidArgument("sha256_chunks: %d chunks but %d digests", len(chunks), len(digests))
	}
	size := uint64(len(data))
	for i, c := range chunks {
		if c.Offset%ChunkAlign != 0 {
			return invalidArgument("sha256_chunks: offset %d of chunk %d is not a multiple of %d", c.Offset, i, ChunkAlign)
		}
		if c.Offset > size || uint64(c.Length) > size-c.Offset {
			return invalidArgument("sha256_chunks: chunk %d, %d bytes at offset %d, ends after the %d bytes of data", i, c.Length, c.Offset, size)
		}
	}
	for i, c := range chunks {
		digests[i] = sha256.Sum256(data[c.Offset : c.Offset+uint64(c.Length)])
	}
	SHA256RoundsCPU(digests, rounds)
	return nil
}
