package kernels

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/kernels/internal/source"
	"github.com/purecuda/purecuda/runtime"
)

// simulated is the machine of the tests.
var simulated drivertest.Config

// onDevices runs a test of a kernel on the simulated driver, which executes the PTX, and on hardware.
func onDevices[K Gram | Histogram256 | Saxpy | SHA256Chunks | SHA256Rounds | Sum | VectorAdd](t *testing.T, test func(t *testing.T, s *runtime.Stream, k K)) {
	on := func(t *testing.T, api driver.API) {
		rt, err := runtime.Open(runtime.WithDriver(api))
		require.NoError(t, err)
		defer func() { require.NoError(t, rt.Close()) }()
		backend, err := rt.Probe("kernels")
		require.NoError(t, err)
		k, err := Load[K](backend.Context)
		require.NoError(t, err)
		defer any(k).(interface{ Close() error }).Close()
		test(t, backend.Stream, k)
	}
	t.Run("simulated", func(t *testing.T) { on(t, drivertest.ForTest(t, simulated)) })
	t.Run("hardware", func(t *testing.T) { on(t, hardware.Open(t)) })
}

// upload makes a buffer with the given content that is closed with the test.
func upload[T any](t *testing.T, s *runtime.Stream, data []T) *runtime.Ref[T] {
	t.Helper()
	b, err := runtime.Alloc[T](s, len(data))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	require.NoError(t, runtime.Upload(context.Background(), s, b, data))
	return b
}

func download[T any](t *testing.T, s *runtime.Stream, b *runtime.Ref[T]) []T {
	t.Helper()
	data := make([]T, b.Len())
	require.NoError(t, runtime.Download(context.Background(), s, data, b))
	return data
}

// sizes are those at which something changes, and some at random.
func sizes(r *rand.Rand) []int {
	n := []int{0, 1, 2, 31, 32, 33, 255, 256, 257, 1000, 4096, 65537}
	for range 5 {
		n = append(n, 1+r.IntN(20000))
	}
	return n
}

func floats(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Ldexp(r.Float64()*2-1, r.IntN(40)-20))
	}
	return x
}

func bits(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, v := range x {
		b[i] = math.Float32bits(v)
	}
	return b
}

func TestVectorAddParity(t *testing.T) {
	onDevices(t, func(t *testing.T, s *runtime.Stream, k VectorAdd) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, n := range sizes(r) {
			a, b, want := floats(r, n), floats(r, n), make([]float32, n)
			require.NoError(t, VectorAddCPU(a, b, want))
			c := upload(t, s, floats(r, n))
			require.NoError(t, k.Launch(s, upload(t, s, a), upload(t, s, b), c))
			require.Equal(t, bits(want), bits(download(t, s, c)), "n = %d", n)
		}
	})
}

func TestSaxpyParity(t *testing.T) {
	onDevices(t, func(t *testing.T, s *runtime.Stream, k Saxpy) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, n := range sizes(r) {
			a, x, y := floats(r, 1)[0], floats(r, n), floats(r, n)
			dy := upload(t, s, y)
			require.NoError(t, k.Launch(s, a, upload(t, s, x), dy))
			require.NoError(t, SaxpyCPU(a, x, y))
			require.Equal(t, bits(y), bits(download(t, s, dy)), "n = %d", n)
		}
	})
}

func TestSumParity(t *testing.T) {
	onDevices(t, func(t *testing.T, s *runtime.Stream, k Sum) {
		r := rand.New(rand.NewPCG(5, 6))
		sum := k
		for _, n := range sizes(r) {
			x := floats(r, n)
			for _, blocks := range []int{1, 3, sum.Blocks(n)} {
				want := make([]float64, blocks)
				SumPartialsCPU(x, want)
				partials := upload(t, s, make([]float64, blocks))
				require.NoError(t, sum.Launch(s, upload(t, s, x), partials))
				require.Equal(t, want, download(t, s, partials), "n = %d, %d blocks", n, blocks)
			}
		}
	})
}

func TestGramParity(t *testing.T) {
	onDevices(t, func(t *testing.T, s *runtime.Stream, k Gram) {
		r := rand.New(rand.NewPCG(11, 12))
		gram := k
		for _, columns := range []int{1, 2, 15, 16, 17, 33} {
			for _, rows := range []int{0, 1, 31, 32, 33, 600 + r.IntN(100)} {
				x, w := wide(r, rows*columns), wide(r, rows)
				dx, dw := upload(t, s, x), upload(t, s, w)
				for _, strips := range []int{1, 3, min(rows+1, 40), gram.Strips(rows, columns)} {
					want := make([]float64, strips*columns*columns)
					require.NoError(t, GramPartialsCPU(x, w, columns, want))
					partials := upload(t, s, wide(r, len(want)))
					require.NoError(t, gram.Launch(s, dx, dw, columns, partials))
					require.Equal(t, want, download(t, s, partials), "%d rows, %d columns, %d strips", rows, columns, strips)
				}
			}
		}
	})
}

func TestHistogram256Parity(t *testing.T) {
	onDevices(t, func(t *testing.T, s *runtime.Stream, k Histogram256) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, n := range sizes(r) {
			data := make([]byte, n)
			for i := range data {
				data[i] = byte(r.NormFloat64() * 20)
			}
			var want [256]uint64
			counts := upload(t, s, want[:])
			Histogram256CPU(data, &want)
			Histogram256CPU(data[n/3:], &want)
			d := upload(t, s, data)
			require.NoError(t, k.Launch(s, d, counts))
			require.NoError(t, k.Launch(s, d.Slice(n/3, n), counts), "data of any alignment")
			require.Equal(t, want[:], download(t, s, counts), "n = %d", n)
		}
	})
}

func TestSHA256ChunksParity(t *testing.T) {
	onDevices(t, func(t *testing.T, s *runtime.Stream, k SHA256Chunks) {
		r := rand.New(rand.NewPCG(9, 10))
		for _, rounds := range []uint32{0, 1, 3} {
			// Every tail length of a block, and some longer chunks.
			lengths := r.Perm(200)
			lengths = append(lengths, 1000, 4096, 4095, 4097, 0, 10000)
			var data []byte
			chunks := make([]Chunk, len(lengths))
			for i, n := range lengths {
				chunks[i] = Chunk{Offset: uint64(len(data)), Length: uint32(n)}
				piece := make([]byte, PaddedSize(uint64(n)))
				for j := range piece {
					piece[j] = byte(r.Uint32())
				}
				data = append(data, piece...)
			}
			want := make([]Digest, len(chunks))
			require.NoError(t, SHA256ChunksCPU(data, chunks, rounds, want))
			digests := upload(t, s, make([]Digest, len(chunks)))
			require.NoError(t, k.Launch(s, upload(t, s, data), upload(t, s, chunks), rounds, digests))
			require.Equal(t, want, download(t, s, digests), "%d rounds", rounds)
		}
	})
}

func TestSHA256RoundsParity(t *testing.T) {
	onDevices(t, func(t *testing.T, s *runtime.Stream, k SHA256Rounds) {
		r := rand.New(rand.NewPCG(15, 16))
		for _, n := range []int{0, 1, 31, 129, 500} {
			for _, rounds := range []uint32{0, 1, 5} {
				want := make([]Digest, n)
				for i := range want {
					for j := range want[i] {
						want[i][j] = byte(r.Uint32())
					}
				}
				digests := upload(t, s, want)
				require.NoError(t, k.Launch(s, digests, rounds))
				SHA256RoundsCPU(want, rounds)
				require.Equal(t, want, download(t, s, digests), "%d digests, %d rounds", n, rounds)
			}
		}
	})
}

// What the host can see is wrong is refused before the device sees it.
func TestLaunchesCheckTheirArguments(t *testing.T) {
	rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, simulated)))
	require.NoError(t, err)
	defer rt.Close()
	b, err := rt.Probe("test")
	require.NoError(t, err)
	s := b.Stream
	f3, f4 := upload(t, s, make([]float32, 3)), upload(t, s, make([]float32, 4))
	add, err := Load[VectorAdd](b.Context)
	require.NoError(t, err)
	saxpy, err := Load[Saxpy](b.Context)
	require.NoError(t, err)
	sum, err := Load[Sum](b.Context)
	require.NoError(t, err)
	histogram, err := Load[Histogram256](b.Context)
	require.NoError(t, err)
	sha, err := Load[SHA256Chunks](b.Context)
	require.NoError(t, err)
	assert.Equal(t, 132*8, sum.Blocks(1<<30))
	for name, err := range map[string]error{
		"vector_add a":  add.Launch(s, f3, f4, f4),
		"vector_add b":  add.Launch(s, f4, f3, f4),
		"saxpy":         saxpy.Launch(s, 1, f3, f4),
		"histogram256":  histogram.Launch(s, upload(t, s, make([]byte, 3)), upload(t, s, make([]uint64, 255))),
		"sha256_chunks": sha.Launch(s, upload(t, s, make([]byte, 16)), upload(t, s, make([]Chunk, 2)), 0, upload(t, s, make([]Digest, 1))),
		"view":          add.Launch(s, f4.Slice(0, 5), f4.Slice(0, 5), f4.Slice(0, 5)),
	} {
		assert.ErrorContains(t, err, "InvalidArgument", name)
	}
	require.NoError(t, sha.Close())
	require.NoError(t, sha.Close())
	err = sha.Launch(s, upload(t, s, make([]byte, 16)), upload(t, s, make([]Chunk, 1)), 0, upload(t, s, make([]Digest, 1)))
	assert.ErrorContains(t, err, "Closed")
}

// The kernels themselves give on the CPU what the functions give that are faster there.
func TestKernelsOnTheCPU(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	shape := func(blocks, threads uint32) runtime.Shape {
		return runtime.Shape{Grid: runtime.Dim3{X: blocks}, Block: runtime.Dim3{X: threads}}
	}
	x, want, got := floats(r, 5000), make([]float64, 3), make([]float64, 3)
	SumPartialsCPU(x, want)
	require.NoError(t, source.SumCPU(shape(3, sumThreads), x, got))
	assert.Equal(t, want, got)

	const columns, rows, strips = 20, 100, 2
	m, w, total, entries := wide(r, rows*columns), wide(r, rows), make([]float64, strips*columns*columns), make([]float64, strips*columns*columns)
	require.NoError(t, GramPartialsCPU(m, w, columns, total))
	require.NoError(t, source.GramCPU(shape(strips*uint32(gramTiles(columns)), gramThreads), m, w, columns, strips, entries))
	assert.Equal(t, total, entries)

	data, counts, counted := make([]byte, 1000), [256]uint64{}, make([]uint64, 256)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	Histogram256CPU(data[3:], &counts)
	require.NoError(t, source.Histogram256CPU(shape(2, 64), data[3:], counted))
	assert.Equal(t, counts[:], counted)

	lengths, quads := []uint32{0, 55, 56, 64, 300}, make([]gpu.Uint4, 63)
	chunks, pieces, sums := make([]Chunk, len(lengths)), make([]source.Chunk, len(lengths)), make([]gpu.Uint4, 2*len(lengths))
	digests := make([]Digest, len(lengths))
	for i, n := range lengths {
		chunks[i], pieces[i] = Chunk{Offset: uint64(160 * i), Length: n}, source.Chunk{Offset: uint64(160 * i), Length: n}
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&quads[0])), 16*len(quads))
	copy(bytes, data)
	require.NoError(t, SHA256ChunksCPU(bytes, chunks, 2, digests))
	require.NoError(t, source.SHA256ChunksCPU(shape(1, sha256ChunksThreads), quads, pieces, 2, sums))
	hashed := unsafe.Slice((*Digest)(unsafe.Pointer(&sums[0])), len(lengths))
	assert.Equal(t, digests, hashed)
	SHA256RoundsCPU(digests, 3)
	require.NoError(t, source.SHA256RoundsCPU(shape(1, sha256RoundsThreads), sums, 3))
	assert.Equal(t, digests, hashed)
}
