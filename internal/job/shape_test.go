package job

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/kernels"
)

func TestLayoutStaysWithinTheBudget(t *testing.T) {
	inputs := []*Input{
		{Files: []File{{Size: 100 << 30}}},
		{Files: []File{{Size: 1 << 62}}},
		{Files: []File{{Size: 1}}},
		{Files: []File{{Size: 5 << 20}, {Size: 0}, {Size: 300 << 20}}},
		{Files: make([]File, 10)},
	}
	for _, in := range inputs {
		for _, chunk := range []int{1, 100, 4096, 1 << 20, 100<<20 + 1, MaxChunkBytes} {
			for _, workers := range []int{1, 2, 16, 384, maxTestWorkers} {
				for _, batch := range []int{1, cpuBatch, 32 << 20, 1 << 30} {
					l := in.layout(chunk, workers, batch)
					require.LessOrEqual(t, l.bytes(), int64(MemoryBudget), "%+v", l)
					require.GreaterOrEqual(t, l.workers, 1)
					require.LessOrEqual(t, l.workers, workers)
					require.Zero(t, l.shape.Bytes%kernels.ChunkAlign)
					require.Positive(t, l.shape.Chunks)
					for _, f := range in.Files {
						require.GreaterOrEqual(t, l.shape.Bytes, align(int(min(f.Size, int64(chunk)))), "a chunk must fit")
					}
				}
			}
		}
	}
}

const maxTestWorkers = 4096

func TestLayoutFitsTheInput(t *testing.T) {
	large := &Input{Files: []File{{Size: 1 << 40}}}
	assert.Equal(t, layout{workers: 8, slots: 16, shape: shapeFor(32 << 20)}, large.layout(4096, 8, 32<<20), "the engine's wish")
	small := &Input{Files: []File{{Size: 5 << 20}}}
	assert.Equal(t, 16, small.layout(4096, 16, 1<<20).workers, "a small input is spread over the cores")
	tiny := &Input{Files: []File{{Size: 100}}}
	l := tiny.layout(MaxChunkBytes, 16, 1<<20)
	assert.Equal(t, 1, l.workers)
	assert.Equal(t, minBatch, l.shape.Bytes, "a large chunk size alone takes no memory")
}

// Peak memory is what the engine's workers were asked for, whatever the input.
func TestRunMemoryIsBoundedForSparseFile(t *testing.T) {
	if !seeds.Long() {
		t.Skip("hashes 2 GiB: set " + seeds.LongVariable + "=1")
	}
	path := filepath.Join(t.TempDir(), "sparse")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	require.NoError(t, os.Truncate(path, 2<<30))
	engine := &fakeEngine{workers: 8, batch: 32 << 20}
	result, err := Run(context.Background(), mustList(t, path), engine, Options{ChunkBytes: 1 << 20, Verify: Verify{mode: verifyNone}})
	require.NoError(t, err)
	assert.EqualValues(t, 2048, result.Chunks)
	assert.EqualValues(t, 8*32<<20, engine.bytes.Load())
	assert.LessOrEqual(t, engine.bytes.Load(), result.MemoryBytes)
	assert.LessOrEqual(t, result.MemoryBytes, int64(MemoryBudget))
}

// After the first batches, hashing more takes no more memory from the heap.
func BenchmarkRunSparse(b *testing.B) {
	path := filepath.Join(b.TempDir(), "sparse")
	require.NoError(b, os.WriteFile(path, nil, 0o644))
	require.NoError(b, os.Truncate(path, 256<<20))
	in, err := List(context.Background(), path)
	require.NoError(b, err)
	b.SetBytes(in.Bytes)
	b.ReportAllocs()
	for b.Loop() {
		_, err := Run(context.Background(), in, NewCPU(2), Options{ChunkBytes: 4096, Verify: Verify{mode: verifyNone}})
		require.NoError(b, err)
	}
}
