package compile_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// TestTimesOfRowsOnHardware prints what kernels by rows of BFloat16 take, and compares their results with the CPU. scripts/baseline/rows.py has the
// same of PyTorch.
func TestTimesOfRowsOnHardware(t *testing.T) {
	shapes, causal, caches := [][2]int{{8192, 4096}, {16384, 1024}, {4096, 8192}, {64, 4096}}, [3]int{16, 2048, 2048}, [][2]int{{64, 4096}, {64, 16384}, {8, 4096}, {1, 32768}, {1, 512}}
	h := kernels.Heads{Width: 128, Heads: 32, Keys: 8}
	if !device.Hardware() { // what the hardware runs is tried
		shapes, causal, caches, h = [][2]int{{3, 1096}}, [3]int{2, 9, 40}, [][2]int{{2, 70}, {1, 300}}, kernels.Heads{Width: 16, Heads: 4, Keys: 1}
	}
	all := openLibrary(t, "transformer sm_80")
	run := func(name string, f func(p *primitivesIn)) {
		t.Run(name, func(t *testing.T) {
			p := *all
			p.t = t
			f(&p)
		})
	}
	run("Norms", func(p *primitivesIn) {
		for _, s := range shapes {
			timeNorm(p, true, s[0], s[1])
			timeNorm(p, false, s[0], s[1])
		}
	})
	run("Softmax", func(p *primitivesIn) {
		for _, s := range shapes {
			timeSoftmax(p, 1, s[0], s[1], false)
		}
		timeSoftmax(p, causal[0], causal[1], causal[2], true)
	})
	run("Decode", func(p *primitivesIn) {
		for _, c := range caches {
			timeDecode(p, c[0], c[1], h)
		}
	})
	if !device.Hardware() {
		t.Skip(hardware.RequireVariable + " is not set: small shapes agree with the CPU on the simulated driver, and nothing was timed")
	}
}

// rotated is how many copies of so many bytes are together larger than any cache of a device.
func rotated(bytes int) int { return (256<<20-1)/bytes + 1 }

// pattern is a matrix on the device that repeats numbers, in rows that differ.
type pattern struct {
	ref     *runtime.Ref[gpu.BFloat16]
	numbers []gpu.BFloat16
}

func patternOf(p *primitivesIn, n int, deviation float64) pattern {
	x := pattern{numbers: floatsOf[gpu.BFloat16](rand.New(rand.NewPCG(uint64(n), 7)), min(n, 1<<20+24), 0, deviation)}
	var err error
	x.ref, err = runtime.Alloc[gpu.BFloat16](p.s, n)
	require.NoError(p.t, err)
	for at := 0; at < n; at += len(x.numbers) {
		end := min(at+len(x.numbers), n)
		require.NoError(p.t, runtime.Upload(p.t.Context(), p.s, x.ref.Slice(at, end), x.numbers[:end-at]))
	}
	return x
}

func (x pattern) close(p *primitivesIn) { assert.NoError(p.t, x.ref.Close()) }

// host is what a part of it has.
func (x pattern) host(at, n int) []gpu.BFloat16 {
	part := make([]gpu.BFloat16, n)
	for i := 0; i < n; {
		i += copy(part[i:], x.numbers[(at+i)%len(x.numbers):])
	}
	return part
}

// set is the matrix with this number, of all that lie behind each other.
func (x pattern) set(i, rows, cols int) kernels.Matrix[gpu.BFloat16] {
	return kernels.Matrix[gpu.BFloat16]{Ref: x.ref.Slice(i*rows*cols, (i+1)*rows*cols), Rows: rows, Cols: cols, Pitch: cols}
}

// sampled gives some rows of all sets to a function: of the input, and of the result.
func sampled(p *primitivesIn, x, out pattern, count, cols int, check func(row int, in, got []gpu.BFloat16)) {
	for i := range min(17, count) {
		row := i * (count - 1) / max(1, min(17, count)-1)
		check(row, x.host(row*cols, cols), onHost(p, out.ref.Slice(row*cols, (row+1)*cols)))
	}
}

func timeNorm(p *primitivesIn, center bool, rows, cols int) {
	const epsilon = 1e-5
	name, sets := "RMSNorm", 1
	if center {
		name = "LayerNorm"
	}
	if device.Hardware() {
		sets = rotated(4 * rows * cols)
	}
	what := fmt.Sprintf("%s %d x %d", name, rows, cols)
	x, out := patternOf(p, sets*rows*cols, 2), patternOf(p, sets*rows*cols, 0)
	defer x.close(p)
	defer out.close(p)
	weight, bias := floatsOf[gpu.BFloat16](rand.New(rand.NewPCG(1, 7)), cols, 1, 0.3), []gpu.BFloat16(nil)
	if center {
		bias = floatsOf[gpu.BFloat16](rand.New(rand.NewPCG(2, 7)), cols, 0, 1)
	}
	dw, db := onDevice(p, weight, 0), onDevice(p, append(bias, make([]gpu.BFloat16, cols-len(bias))...), 0)
	layer, rms := kernels.LayerNorm[gpu.BFloat16]{}.Of(p.of("LayerNormBFloat16")), kernels.RMSNorm[gpu.BFloat16]{}.Of(p.of("RMSNormBFloat16"))
	timeRows(p, what, 4*rows*cols, sets, x, out, func(s *runtime.Stream, i int) error {
		if center {
			return layer.Launch(s, out.set(i, rows, cols), x.set(i, rows, cols), kernels.Matrix[gpu.BFloat16]{}, dw, db, epsilon)
		}
		return rms.Launch(s, out.set(i, rows, cols), x.set(i, rows, cols), kernels.Matrix[gpu.BFloat16]{}, dw, epsilon)
	}, func() {
		sampled(p, x, out, sets*rows, cols, func(row int, in, got []gpu.BFloat16) {
			want := make([]gpu.BFloat16, cols)
			if center {
				require.NoError(p.t, kernels.LayerNormCPU(1, cols, want, in, nil, weight, bias, epsilon))
			} else {
				require.NoError(p.t, kernels.RMSNormCPU(1, cols, want, in, nil, weight, epsilon))
			}
			normNear(p.t, fmt.Sprintf("%s, row %d of all", what, row), center, cols, in, weight, want, got, epsilon)
		})
	})
}

// timeSoftmax has a launch for each matrix of a batch.
func timeSoftmax(p *primitivesIn, batch, rows, cols int, causal bool) {
	const scale = 0.5
	what, read, sets := fmt.Sprintf("Softmax %d x %d", rows, cols), rows*cols, 1
	if causal {
		what, read = fmt.Sprintf("Softmax %d x %d x %d causal", batch, rows, cols), rows*(2*cols-rows+1)/2
	}
	if device.Hardware() {
		sets = rotated(4 * batch * rows * cols)
	}
	x, out := patternOf(p, sets*batch*rows*cols, 3), patternOf(p, sets*batch*rows*cols, 0)
	defer x.close(p)
	defer out.close(p)
	soft := kernels.Softmax[gpu.BFloat16]{}.Of(p.of("SoftmaxBFloat16"))
	timeRows(p, what, 2*batch*(read+rows*cols), sets, x, out, func(s *runtime.Stream, i int) error {
		for b := range batch {
			if err := soft.Launch(s, out.set(i*batch+b, rows, cols), x.set(i*batch+b, rows, cols), scale, causal); err != nil {
				return err
			}
		}
		return nil
	}, func() {
		sampled(p, x, out, sets*batch*rows, cols, func(row int, in, got []gpu.BFloat16) {
			seen, want := cols, make([]gpu.BFloat16, cols)
			if causal {
				seen = cols - rows + row%rows + 1
			}
			require.NoError(p.t, kernels.SoftmaxCPU(1, seen, want[:seen], in[:seen], scale, false))
			softmaxNear(p.t, fmt.Sprintf("%s, row %d of all", what, row), cols, in, want, got, scale)
		})
	})
}

func timeDecode(p *primitivesIn, sequences, capacity int, h kernels.Heads) {
	rows, cols, keyCols, sets := sequences*capacity, h.Heads*h.Width, h.Keys*h.Width, 1
	what := fmt.Sprintf("Decode %d of %d rows, %d heads, %d of keys, %d columns", sequences, capacity, h.Heads, h.Keys, h.Width)
	if device.Hardware() {
		sets = rotated(4 * rows * keyCols)
	}
	q, k, v, out := patternOf(p, sequences*cols, 1), patternOf(p, sets*rows*keyCols, 1), patternOf(p, sets*rows*keyCols, 1.5), patternOf(p, sets*sequences*cols, 0)
	for _, x := range []pattern{q, k, v, out} {
		defer x.close(p)
	}
	decode := kernels.Decode[gpu.BFloat16]{}.Of(p.of("DecodeBFloat16"))
	var scratch *runtime.Ref[byte]
	if n := decode.Scratch(sequences, capacity, h); n > 0 {
		scratch = onDevice(p, make([]byte, n), 0)
	}
	timeRows(p, what, 4*rows*keyCols, sets, k, v, func(s *runtime.Stream, i int) error {
		return decode.Launch(s, q.set(0, sequences, cols), k.set(i, rows, keyCols), v.set(i, rows, keyCols), out.set(i, sequences, cols), nil, h, scratch)
	}, func() {
		for _, i := range []int{0, sets*sequences - 1} {
			want, n := make([]gpu.BFloat16, cols), capacity*keyCols
			require.NoError(p.t, kernels.DecodeCPU(1, q.host(i%sequences*cols, cols), k.host(i*n, n), v.host(i*n, n), want, nil, h))
			decodeNear(p.t, fmt.Sprintf("%s, sequence %d of all", what, i), want, onHost(p, out.ref.Slice(i*cols, (i+1)*cols)))
		}
	})
}

// timeRows prints the median of a call, by graphs of calls that take the sets of data in turns. It checks the results, and compares with a copy of
// from to to.
func timeRows(p *primitivesIn, what string, bytes, sets int, from, to pattern, call func(s *runtime.Stream, set int) error, check func()) {
	us := medianOf(p, sets, call)
	check()
	n := from.ref.Len() / sets
	copied := medianOf(p, sets, func(s *runtime.Stream, i int) error {
		return runtime.Copy(s, to.ref.Slice(i*n, (i+1)*n), from.ref.Slice(i*n, (i+1)*n))
	})
	if device.Hardware() {
		rate := float64(bytes) / us / 1e3
		fmt.Printf("rows %-70s %9.1f us %6.0f GB/s, %.2f of a copy\n", what, us, rate, rate/(float64(4*n)/copied/1e3))
	}
}

// medianOf is what a call takes, in microseconds, of at least eight on the hardware.
func medianOf(p *primitivesIn, sets int, call func(s *runtime.Stream, set int) error) float64 {
	calls := sets
	if device.Hardware() {
		calls = (8 + sets - 1) / sets * sets
	}
	return device.Median(p.t, p.s, calls, func(s *runtime.Stream, i int) error { return call(s, i%sets) })
}
