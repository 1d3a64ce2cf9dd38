package exec

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/ptx"
)

// What clang has made of CUDA C, and gpuc of Go, against plain Go.

func randomBytes(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func randomFloats(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 2))
	f := make([]float32, n)
	for i := range f {
		f[i] = float32(r.NormFloat64())
	}
	return f
}

func putFloats(h *gmem, f []float32) uint64 {
	v := make([]uint32, len(f))
	for i := range f {
		v[i] = math.Float32bits(f[i])
	}
	return h.put32(v...)
}

func TestVectorAddAndSaxpy(t *testing.T) {
	for _, n := range []int{1, 31, 32, 33, 1000, 4097} {
		h := &gmem{}
		x, y := randomFloats(1, n), randomFloats(2, n)
		out := h.alloc(4 * n)
		l := loadFile(t, h, "vector_add.ptx")
		require.NoError(t, launch(t, l, h, "vector_add", uint32(n+255)/256, 256, putFloats(h, x), putFloats(h, y), out, uint64(n)))
		got := h.get32(out)
		for i := range x {
			require.Equal(t, math.Float32bits(x[i]+y[i]), got[i])
		}
		l = loadFile(t, h, "saxpy.ptx")
		ya := putFloats(h, y)
		a := float32(1.7)
		require.NoError(t, launch(t, l, h, "saxpy", 3, 128, math.Float32bits(a), putFloats(h, x), ya, uint64(n)))
		got = h.get32(ya)
		for i := range x {
			want := float32(math.FMA(float64(a), float64(x[i]), float64(y[i])))
			require.InDelta(t, want, math.Float32frombits(got[i]), 1e-6)
		}
	}
}

func TestSum(t *testing.T) {
	h := &gmem{}
	l := loadFile(t, h, "sum.ptx")
	const grid, block = 5, 256
	for _, n := range []int{0, 1, 100, 10_000, 54_321} {
		x := randomFloats(3, n)
		out := h.alloc(8 * grid)
		require.NoError(t, launch(t, l, h, "sum", grid, block, putFloats(h, x), uint64(n), out))
		// The documented order of additions.
		const threads = grid * block
		for b := range grid {
			var warps [32]float64
			for w := range block / 32 {
				var v [32]float64
				for lane := range v {
					for i := b*block + w*32 + lane; i < n; i += threads {
						v[lane] += float64(x[i])
					}
				}
				warps[w] = tree(v)
			}
			require.Equal(t, math.Float64bits(tree(warps)), h.get64(out)[b], "block %d of %d", b, n)
		}
	}
}

func tree(v [32]float64) float64 {
	for d := 16; d > 0; d /= 2 {
		old := v
		for i := range v {
			if i+d < 32 {
				v[i] = old[i] + old[i+d]
			} else {
				v[i] = old[i] + old[i]
			}
		}
	}
	return v[0]
}

func TestHistogram(t *testing.T) {
	h := &gmem{}
	l := loadFile(t, h, "histogram256.ptx")
	for _, n := range []int{0, 5, 1000, 70_001} {
		for _, offset := range []int{0, 3} {
			data := randomBytes(4, n+offset)
			counts := h.alloc(8 * 256)
			require.NoError(t, launch(t, l, h, "histogram256", 4, 256, h.put(append(data, 0))+uint64(offset), uint64(n), counts))
			var want [256]uint64
			for _, c := range data[offset:] {
				want[c]++
			}
			require.Equal(t, want[:], h.get64(counts))
		}
	}
}

// shipped is sha256_chunks as the catalogue has it.
const shipped = "../../../../kernels/internal/source/sha256chunks_sm_75.ptx"

type chunkCase struct {
	h       *gmem
	l       *Linked
	data    []byte
	offsets []int
	lengths []int
	params  []any
	out     uint64
}

func newChunkCase(t testing.TB, lengths []int, rounds int) *chunkCase {
	c := &chunkCase{h: &gmem{}, lengths: lengths}
	c.l = loadFile(t, c.h, shipped)
	var table []byte
	size := 0
	for _, n := range lengths {
		c.offsets = append(c.offsets, size)
		table = binary.LittleEndian.AppendUint64(table, uint64(size))
		table = binary.LittleEndian.AppendUint64(table, uint64(n))
		size += (n + 15) &^ 15
	}
	c.data = randomBytes(5, size+16)
	c.out = c.h.alloc(32 * len(lengths))
	n := uint64(len(lengths))
	c.params = []any{c.h.put(c.data), uint64(len(c.data) / 16), c.h.put(table), n, uint32(rounds), c.out, 2 * n}
	return c
}

func (c *chunkCase) check(t testing.TB, rounds int) {
	got := c.h.bytes(c.out)
	for i, n := range c.lengths {
		want := sha256.Sum256(c.data[c.offsets[i] : c.offsets[i]+n])
		for range rounds {
			want = sha256.Sum256(want[:])
		}
		require.Equal(t, want[:], got[32*i:32*i+32], "chunk %d of %d bytes", i, n)
	}
}

func TestSHA256Chunks(t *testing.T) {
	var lengths []int
	for n := range 200 {
		lengths = append(lengths, n)
	}
	lengths = append(lengths, 4096, 4095, 1000)
	for _, rounds := range []int{0, 2} {
		c := newChunkCase(t, lengths, rounds)
		require.NoError(t, launch(t, c.l, c.h, "sha256_chunks", 2, 128, c.params...))
		c.check(t, rounds)
	}
}

// TestSHA256Calls runs a kernel of clang with device functions, byte loads and a local array.
func TestSHA256Calls(t *testing.T) {
	h := &gmem{}
	l := loadFile(t, h, "sha_calls.ptx")
	const chunk = 256
	data := randomBytes(6, 100*chunk+77)
	n := (len(data) + chunk - 1) / chunk
	out := h.alloc(32 * n)
	require.NoError(t, launch(t, l, h, "sha256_chunks", 2, 64, h.put(data), uint64(len(data)), uint32(chunk), uint32(n), out))
	for i := range n {
		want := sha256.Sum256(data[i*chunk : min((i+1)*chunk, len(data))])
		require.Equal(t, want[:], h.bytes(out)[32*i:32*i+32], "chunk %d", i)
	}
}

// BenchmarkSHA256Chunks measures thread instructions per second of the integer path.
func BenchmarkSHA256Chunks(b *testing.B) {
	lengths := make([]int, 512)
	for i := range lengths {
		lengths[i] = 4096
	}
	for name, workers := range map[string]int{"core": 1, "all": 0} {
		b.Run(name, func(b *testing.B) {
			c := newChunkCase(b, lengths, 0)
			k := c.l.Entry("sha256_chunks")
			var steps, total uint64
			l := Launch{
				Grid: dim(4), Block: dim(128), Params: args(k, c.params...), Memory: c.h, Workers: workers, Steps: &steps,
			}
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, k.Launch(context.Background(), l))
				total += steps
			}
			b.ReportMetric(float64(total)*32/b.Elapsed().Seconds()/1e6, "Minstr/s")
			c.check(b, 0)
		})
	}
}

func BenchmarkCompileSHA256(b *testing.B) {
	src := []byte(readPTX(b, shipped))
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		m, err := ptx.Parse(src)
		require.NoError(b, err)
		_, err = compileAll(m)
		require.NoError(b, err)
	}
}
