package kernels_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/kernels"
)

type extent struct{ Min, Max float32 }

// union is an operation of a program.
type union struct{}

func (union) Zero() extent               { return extent{1e30, -1e30} }
func (union) Combine(a, b extent) extent { return extent{min(a.Min, b.Min), max(a.Max, b.Max)} }

type below struct{ bound uint32 }

func (b below) Keep(v uint32) bool { return v < b.bound }

// BenchmarkCPUForms compares the forms for the CPU with the loop that a program has without them, on one core. The aim is 1.2.
func BenchmarkCPUForms(b *testing.B) {
	const n = 1 << 20
	r := rand.New(rand.NewPCG(1, 2))
	in, runs, out, more, lengths := make([]uint32, n), make([]uint32, n), make([]uint32, n), make([]uint32, n), make([]uint32, n)
	boxes, outBoxes := make([]extent, n), make([]extent, n)
	for i := range in {
		in[i], runs[i], boxes[i] = r.Uint32(), uint32(i/8), extent{r.Float32(), r.Float32()}
	}
	offsets := []uint64{}
	for i := uint64(0); i <= n; i += 64 {
		offsets = append(offsets, i)
	}
	counts := make([]uint64, 1000)
	bound, low, high := below{1 << 31}, uint32(1000), uint32(1<<31+12345)
	for _, c := range []struct {
		name       string
		form, loop func()
	}{
		{"scan", func() { _ = kernels.ScanCPU(block.Add[uint32]{}, out, in) }, func() {
			var sum uint32
			for i, v := range in {
				sum += v
				out[i] = sum
			}
		}},
		{"scan of a struct", func() { _ = kernels.ScanCPU(union{}, outBoxes, boxes) }, func() {
			all := union{}.Zero()
			for i, v := range boxes {
				all = union{}.Combine(all, v)
				outBoxes[i] = all
			}
		}},
		{"partition", func() { _, _ = kernels.PartitionCPU(bound, out, more, in) }, func() {
			k, o := 0, 0
			for _, v := range in {
				if bound.Keep(v) {
					out[k] = v
					k++
				} else {
					more[o] = v
					o++
				}
			}
		}},
		{"run lengths", func() { _, _ = kernels.RunLengthsCPU(out, lengths, runs) }, func() {
			k := -1
			for i, v := range runs {
				if i == 0 || v != runs[i-1] {
					k++
					out[k], lengths[k] = v, 0
				}
				lengths[k]++
			}
		}},
		{"by key", func() { _, _ = kernels.ReduceByKeyCPU(block.Add[uint32]{}, out, more, runs, in) }, func() {
			k := -1
			for i, v := range runs {
				if i == 0 || v != runs[i-1] {
					k++
					out[k], more[k] = v, 0
				}
				more[k] += in[i]
			}
		}},
		{"segments", func() { _ = kernels.SegmentedReduceCPU(block.Add[uint32]{}, out[:len(offsets)-1], in, offsets) }, func() {
			for i := range offsets[1:] {
				var sum uint32
				for _, v := range in[offsets[i]:offsets[i+1]] {
					sum += v
				}
				out[i] = sum
			}
		}},
		{"histogram", func() { _ = kernels.HistogramCPU(counts, in, low, high) }, func() {
			for _, v := range in {
				if v >= low && v < high {
					counts[uint64(v-low)*uint64(len(counts))/uint64(high-low)]++
				}
			}
		}},
		{"top 1000, and a whole sort", func() { _ = kernels.TopKCPU(out[:1000], nil, in, false) }, func() {
			copy(out, in)
			slices.Sort(out)
		}},
	} {
		b.Run(c.name+"/form", func(b *testing.B) {
			for b.Loop() {
				c.form()
			}
		})
		b.Run(c.name+"/loop", func(b *testing.B) {
			for b.Loop() {
				c.loop()
			}
		})
	}
}
