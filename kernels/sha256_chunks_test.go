package kernels

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/allocs"
)

func TestChunkHasTheLayoutOfTheKernel(t *testing.T) {
	assert.Equal(t, uintptr(16), unsafe.Sizeof(Chunk{}))
	assert.Equal(t, uintptr(0), unsafe.Offsetof(Chunk{}.Offset))
	assert.Equal(t, uintptr(8), unsafe.Offsetof(Chunk{}.Length))
	assert.Equal(t, uintptr(32), unsafe.Sizeof(Digest{}))
}

// Messages and digests of FIPS 180-4's examples (NIST, "SHA256.pdf" and the short message
// vectors of the validation system).
func TestSHA256ChunksKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		name, message, want string
	}{
		{"empty", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"one block", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"length in a block of its own", "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
		{"a million", string(bytes.Repeat([]byte("a"), 1_000_000)), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			digests := make([]Digest, 1)
			chunks := []Chunk{{Length: uint32(len(c.message))}}
			require.NoError(t, SHA256ChunksCPU([]byte(c.message), chunks, 0, digests))
			assert.Equal(t, c.want, hex.EncodeToString(digests[0][:]))
		})
	}
}

func TestSHA256ChunksRounds(t *testing.T) {
	digests := make([]Digest, 1)
	require.NoError(t, SHA256ChunksCPU([]byte("hello"), []Chunk{{Length: 5}}, 1, digests))
	assert.Equal(t, "9595c9df90075148eb06860365df33584b75bff782a510c6cd4883a419833d50", hex.EncodeToString(digests[0][:]))

	require.NoError(t, SHA256ChunksCPU([]byte("hello"), []Chunk{{Length: 5}}, 10, digests))
	want := sha256.Sum256([]byte("hello"))
	for range 10 {
		want = sha256.Sum256(want[:])
	}
	assert.Equal(t, want, digests[0])
}

func TestSHA256ChunksOfRandomCuts(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	data := make([]byte, 1<<16)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	chunks := make([]Chunk, 300)
	for i := range chunks {
		offset := r.Uint64N(uint64(len(data))+1) / ChunkAlign * ChunkAlign
		chunks[i] = Chunk{Offset: offset, Length: uint32(r.Uint64N(uint64(len(data)) - offset + 1))}
	}
	chunks[0] = Chunk{Offset: uint64(len(data))} // empty, at the very end
	digests := make([]Digest, len(chunks))
	require.NoError(t, SHA256ChunksCPU(data, chunks, 0, digests))
	for i, c := range chunks {
		assert.Equal(t, sha256.Sum256(data[c.Offset:][:c.Length]), digests[i], "%+v", c)
	}
}

func TestSHA256ChunksRefusesBadChunks(t *testing.T) {
	data := make([]byte, 100)
	for _, c := range []struct {
		name  string
		chunk Chunk
	}{
		{"misaligned", Chunk{Offset: 8, Length: 1}},
		{"too long", Chunk{Offset: 96, Length: 5}},
		{"begins behind the end", Chunk{Offset: 112}},
		{"offset and length overflow together", Chunk{Offset: math.MaxUint64 - 15, Length: math.MaxUint32}},
	} {
		t.Run(c.name, func(t *testing.T) {
			digests := make([]Digest, 2)
			err := SHA256ChunksCPU(data, []Chunk{{Length: 1}, c.chunk}, 0, digests)
			require.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.ErrorContains(t, err, "chunk 1")
			assert.Equal(t, make([]Digest, 2), digests, "written before the check")
		})
	}
	require.ErrorIs(t, SHA256ChunksCPU(data, make([]Chunk, 2), 0, make([]Digest, 1)), driver.ErrInvalidArgument)
	require.NoError(t, SHA256ChunksCPU(nil, nil, 0, nil))
}

func TestPaddedSize(t *testing.T) {
	for _, c := range []struct{ size, want uint64 }{
		{0, 0}, {1, 16}, {15, 16}, {16, 16}, {17, 32}, {4096, 4096},
		{math.MaxUint64 - 15, math.MaxUint64 - 15},
		{math.MaxUint64, math.MaxUint64 - 15},
	} {
		assert.Equal(t, c.want, PaddedSize(c.size), "PaddedSize(%d)", c.size)
	}
}

func TestSHA256ChunksDoesNotAllocate(t *testing.T) {
	data, chunks, digests := make([]byte, 4096), []Chunk{{Length: 4096}}, make([]Digest, 1)
	allocs.AtMost(t, 0, 10, func() { _ = SHA256ChunksCPU(data, chunks, 3, digests) })
}
