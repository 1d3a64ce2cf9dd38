package compile_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/fused"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// step is by how much a result near y may be rounded otherwise.
func step[T gpu.Float](y float64) float64 {
	switch any(*new(T)).(type) {
	case gpu.Float16:
		return max(math.Abs(y), 0x1p-14) * 0x1p-11
	case gpu.BFloat16:
		return math.Abs(y) * 0x1p-8
	}
	return math.Abs(y) * 0x1p-24
}

// matrixOf is a matrix on the device with gaps of NaN between its rows, which nobody may touch.
func matrixOf[T gpu.Float](p *primitivesIn, r *rand.Rand, x []T, rows, cols int) kernels.Matrix[T] {
	pitch := (cols+7)/8*8 + 8*r.IntN(2)
	wide := make([]T, rows*pitch)
	for i := range wide {
		wide[i] = gpu.ToFloat[T](float32(math.NaN()))
	}
	for i := range rows {
		copy(wide[i*pitch:], x[i*cols:][:cols])
	}
	return kernels.Matrix[T]{Ref: onDevice(p, wide, 0), Rows: rows, Cols: cols, Pitch: pitch}
}

// rowsOf takes a matrix back.
func rowsOf[T gpu.Float](p *primitivesIn, m kernels.Matrix[T]) []T {
	p.t.Helper()
	wide, x := onHost(p, m.Ref), []T(nil)
	for i := range m.Rows {
		x = append(x, wide[i*m.Pitch:][:m.Cols]...)
		for _, gap := range wide[i*m.Pitch+m.Cols : (i+1)*m.Pitch] {
			require.True(p.t, gpu.Float32(gap) != gpu.Float32(gap), "a gap between rows was written")
		}
	}
	return x
}

func floatsOf[T gpu.Float](r *rand.Rand, n int, mean, deviation float64) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = gpu.ToFloat[T](float32(mean + deviation*r.NormFloat64()))
	}
	return x
}

// normed compares a norm with the CPU, in the bound of the document of the functions for the CPU.
func normed[T gpu.Float](p *primitivesIn, r *rand.Rand, of string, center bool, rows, cols int) {
	what := fmt.Sprint(of, " ", rows, " x ", cols)
	x, add := floatsOf[T](r, rows*cols, 3*r.Float64(), 1), []T(nil)
	var weight, bias []T
	var dw, db *runtime.Ref[T]
	if r.IntN(4) > 0 {
		weight = floatsOf[T](r, cols, 1, 0.3)
		dw = onDevice(p, weight, 0)
	}
	if center && r.IntN(2) > 0 {
		bias = floatsOf[T](r, cols, 0, 1)
		db = onDevice(p, bias, 0)
	}
	epsilon := []float32{1e-5, 1e-6, 0.1}[r.IntN(3)]
	dx := matrixOf(p, r, x, rows, cols)
	out, da := dx, kernels.Matrix[T]{}
	if r.IntN(2) > 0 {
		out = matrixOf(p, r, make([]T, rows*cols), rows, cols)
	}
	if r.IntN(2) > 0 {
		add = floatsOf[T](r, rows*cols, 0, 2)
		da = matrixOf(p, r, add, rows, cols)
	}
	want := make([]T, rows*cols)
	if center {
		require.NoError(p.t, kernels.LayerNorm[T]{}.Of(p.of("LayerNorm"+of)).Launch(p.s, out, dx, da, dw, db, epsilon), what)
		require.NoError(p.t, kernels.LayerNormCPU(rows, cols, want, x, add, weight, bias, epsilon))
	} else {
		require.NoError(p.t, kernels.RMSNorm[T]{}.Of(p.of("RMSNorm"+of)).Launch(p.s, out, dx, da, dw, epsilon), what)
		require.NoError(p.t, kernels.RMSNormCPU(rows, cols, want, x, add, weight, epsilon))
	}
	got := rowsOf(p, out)
	if out.Ref != dx.Ref {
		same(p.t, x, rowsOf(p, dx), what) // x, with what was added
	}
	normNear(p.t, what, center, cols, x, weight, want, got, epsilon)
}

// TestNormsOfLargeNumbers has the largest numbers that the documents allow, and rows whose numbers are near to each other.
func TestNormsOfLargeNumbers(t *testing.T) {
	p := openLibrary(t, "transformer")
	r := rand.New(rand.NewPCG(1, 17))
	for _, c := range []struct {
		cols int
		x    func() float32
	}{
		{16384, func() float32 { return 1e17 * float32(r.IntN(2)*2-1) }},
		{1024, func() float32 { return 4e17 * float32(r.IntN(2)*2-1) }},
		{1000, func() float32 { return 16777216 + float32(r.IntN(2)*2) }},
	} {
		x, want := elements(2*c.cols, c.x), make([]float32, 2*c.cols)
		dx, none := matrixOf(p, r, x, 2, c.cols), kernels.Matrix[float32]{}
		out := matrixOf(p, r, want, 2, c.cols)
		require.NoError(t, kernels.LayerNorm[float32]{}.Of(p.of("LayerNormFloat32")).Launch(p.s, out, dx, none, nil, nil, 0))
		require.NoError(t, kernels.LayerNormCPU(2, c.cols, want, x, nil, nil, nil, 0))
		normNear(t, fmt.Sprint(x[0]), true, c.cols, x, nil, want, rowsOf(p, out), 0)
		require.NoError(t, kernels.RMSNorm[float32]{}.Of(p.of("RMSNormFloat32")).Launch(p.s, out, dx, none, nil, 0))
		require.NoError(t, kernels.RMSNormCPU(2, c.cols, want, x, nil, nil, 0))
		normNear(t, fmt.Sprint(x[0]), false, c.cols, x, nil, want, rowsOf(p, out), 0)
	}
}

// normNear compares a norm of x, with what was added, with the CPU's.
func normNear[T gpu.Float](t *testing.T, what string, center bool, cols int, x, weight, want, got []T, epsilon float32) {
	t.Helper()
	for i := range len(x) / cols {
		row, mean, squares, most := x[i*cols:][:cols], 0.0, 0.0, 0.0
		for _, v := range row {
			if center {
				mean += float64(gpu.Float32(v)) / float64(cols)
			}
			most = max(most, math.Abs(float64(gpu.Float32(v))))
		}
		for _, v := range row {
			squares += math.Pow(float64(gpu.Float32(v))-mean, 2) / float64(cols)
		}
		most /= math.Sqrt(squares + float64(epsilon))
		for j := range cols {
			w, y := 1.0, float64(gpu.Float32(want[i*cols+j]))
			if weight != nil {
				w = math.Abs(float64(gpu.Float32(weight[j])))
			}
			require.InDelta(t, y, float64(gpu.Float32(got[i*cols+j])), (1+most)*w*0x1p-20+step[T](y)*2, "%s: row %d, column %d", what, i, j)
		}
	}
}

func softened[T gpu.Float](p *primitivesIn, r *rand.Rand, of string, rows, cols int) {
	causal, scale := r.IntN(2) > 0, float32(r.NormFloat64())
	if causal {
		cols += rows
	}
	what := fmt.Sprint("Softmax", of, " ", rows, " x ", cols)
	x, want := floatsOf[T](r, rows*cols, 10*r.NormFloat64(), 1+10*r.Float64()), make([]T, rows*cols)
	dx := matrixOf(p, r, x, rows, cols)
	out := dx
	if r.IntN(2) > 0 {
		out = matrixOf(p, r, want, rows, cols)
	}
	require.NoError(p.t, kernels.Softmax[T]{}.Of(p.of("Softmax"+of)).Launch(p.s, out, dx, scale, causal), what)
	require.NoError(p.t, kernels.SoftmaxCPU(rows, cols, want, x, scale, causal))
	got := rowsOf(p, out)
	softmaxNear(p.t, what, cols, x, want, got, scale)
	for i := range rows {
		for j := cols - rows + i + 1; causal && j < cols; j++ {
			require.Zero(p.t, gpu.Float32(got[i*cols+j]), what)
		}
	}
}

// softmaxNear compares a softmax with the CPU's.
func softmaxNear[T gpu.Float](t *testing.T, what string, cols int, x, want, got []T, scale float32) {
	t.Helper()
	for i := range len(x) / cols {
		most, sum := 0.0, 0.0
		for j := range cols {
			most = max(most, math.Abs(float64(scale)*float64(gpu.Float32(x[i*cols+j]))))
			sum += float64(gpu.Float32(got[i*cols+j]))
		}
		for j := range cols {
			y, z := float64(gpu.Float32(want[i*cols+j])), float64(gpu.Float32(got[i*cols+j]))
			require.InDelta(t, y, z, (1+most)*y*0x1p-20+step[T](y)*2+0x1p-126, "%s: row %d, column %d", what, i, j)
		}
		require.InDelta(t, 1, sum, 0.02, what)
	}
}

// decoded compares decoding with the CPU.
func decoded[T gpu.Half](p *primitivesIn, r *rand.Rand, of string) {
	h := kernels.Heads{Width: 8 * (1 + r.IntN(32)), Keys: 1 + r.IntN(3), Scale: float32(r.IntN(2)) * 0.3}
	h.Heads = h.Keys * []int{1, 1, 2, 3, 4, 5, 8}[r.IntN(7)]
	if r.IntN(2) > 0 {
		h.Width = []int{64, 128, 256}[r.IntN(3)]
	}
	sequences, capacity := 1+r.IntN(3), 1+int(math.Exp(r.Float64()*math.Log(300)))
	if r.IntN(8) == 0 { // so many heads that a part has many rows
		h.Keys, h.Heads, sequences, capacity = 1, 300+r.IntN(800), 1, 100+r.IntN(500)
	}
	what := fmt.Sprint("Decode", of, " ", sequences, " of ", capacity, " ", h)
	rows, cols, keyCols := sequences*capacity, h.Heads*h.Width, h.Keys*h.Width
	q, k, v, want := floatsOf[T](r, sequences*cols, 0, 1), floatsOf[T](r, rows*keyCols, 0, 1), floatsOf[T](r, rows*keyCols, 0, 1), make([]T, sequences*cols)
	var lengths []uint32
	var onIt *runtime.Ref[uint32]
	if r.IntN(3) > 0 {
		for range sequences {
			lengths = append(lengths, r.Uint32N(uint32(capacity)+2))
		}
		onIt = onDevice(p, lengths, 0)
	}
	out, decode := matrixOf(p, r, want, sequences, cols), kernels.Decode[T]{}.Of(p.of("Decode"+of))
	var scratch *runtime.Ref[byte]
	if n := decode.Scratch(sequences, capacity, h); r.IntN(2) > 0 && n > 0 {
		scratch = onDevice(p, make([]byte, n), 0)
	}
	require.NoError(p.t, decode.Launch(p.s, matrixOf(p, r, q, sequences, cols), matrixOf(p, r, k, rows, keyCols), matrixOf(p, r, v, rows, keyCols), out, onIt, h, scratch), what)
	require.NoError(p.t, kernels.DecodeCPU(sequences, q, k, v, want, lengths, h))
	decodeNear(p.t, what, want, rowsOf(p, out))
}

// decodeNear compares what Decode gives with the CPU's.
func decodeNear[T gpu.Half](t *testing.T, what string, want, got []T) {
	t.Helper()
	for i, x := range got {
		y := float64(gpu.Float32(want[i]))
		require.InDelta(t, y, float64(gpu.Float32(x)), 1e-4+step[T](y)*2, "%s: element %d", what, i)
	}
}

// rowsCase runs a kernel by rows with what a seed says.
func rowsCase(p *primitivesIn, r *rand.Rand) {
	rows, cols := 1+r.IntN(6), 1+int(math.Exp(r.Float64()*math.Log(3000)))
	if r.IntN(100) == 0 {
		rows, cols = 1, 12_289+r.IntN(14_000) // more than a block keeps, of one type or of all
	}
	switch r.IntN(11) {
	case 0:
		normed[float32](p, r, "Float32", true, rows, cols)
	case 1:
		normed[gpu.Float16](p, r, "Float16", true, rows, cols)
	case 2:
		normed[gpu.BFloat16](p, r, "BFloat16", true, rows, cols)
	case 3:
		normed[float32](p, r, "Float32", false, rows, cols)
	case 4:
		normed[gpu.Float16](p, r, "Float16", false, rows, cols)
	case 5:
		normed[gpu.BFloat16](p, r, "BFloat16", false, rows, cols)
	case 6:
		softened[float32](p, r, "Float32", rows, cols)
	case 7:
		softened[gpu.Float16](p, r, "Float16", rows, cols)
	case 8:
		softened[gpu.BFloat16](p, r, "BFloat16", rows, cols)
	case 9:
		decoded[gpu.Float16](p, r, "Float16")
	case 10:
		decoded[gpu.BFloat16](p, r, "BFloat16")
	}
}

// TestRowsCampaign compares kernels by rows with the CPU, by seeds.
func TestRowsCampaign(t *testing.T) {
	all := openLibrary(t, "transformer")
	seeds.Each(t, seeds.Count(100, 200, 20), func(t *testing.T, seed uint64) {
		p := *all
		p.t = t
		rowsCase(&p, rand.New(rand.NewPCG(seed, 11)))
	})
}

// TestDecodeCampaign compares decoding on tensor cores with the CPU, by seeds.
func TestDecodeCampaign(t *testing.T) {
	all := openLibrary(t, "transformer sm_80")
	seeds.Each(t, seeds.Count(40, 100, 20), func(t *testing.T, seed uint64) {
		p, r := *all, rand.New(rand.NewPCG(seed, 12))
		p.t = t
		if seed%2 > 0 {
			decoded[gpu.Float16](&p, r, "Float16")
		} else {
			decoded[gpu.BFloat16](&p, r, "BFloat16")
		}
	})
}

// TestSoftmaxOfLargeNumbers has rows whose products with the scale do not fit float32, as that of a mask with the least float.
func TestSoftmaxOfLargeNumbers(t *testing.T) {
	p := openLibrary(t, "transformer")
	soft := kernels.Softmax[float32]{}.Of(p.of("SoftmaxFloat32"))
	const most = math.MaxFloat32
	for _, x := range [][]float32{{-most, -most, -most, -most}, {most, most, 0, -most}, {3e38, -3e38, 3e38, 0}, {-most, 1, 2, -3}, {30000, 30000.5, 29999, 0}, {1e-30, -1e30, 5, 5}} {
		for _, scale := range []float32{1, -1, 0.125, 4, 1e-38, 0, -1e30, most, -most} {
			r, what := onDevice(p, x, 0), fmt.Sprint(x, " by ", scale)
			m, want := kernels.Matrix[float32]{Ref: r, Rows: 1, Cols: 4, Pitch: 8}, make([]float32, 4)
			require.NoError(t, soft.Launch(p.s, m, m, scale, false))
			require.NoError(t, kernels.SoftmaxCPU(1, 4, want, x, scale, false))
			assert.InDeltaSlice(t, want, onHost(p, r), 1e-4, what)
		}
	}
}

func TestRowsSayWhatIsWrong(t *testing.T) {
	p := openLibrary(t, "transformer")
	layer := kernels.LayerNorm[float32]{}.Of(p.of("LayerNormFloat32"))
	rms := kernels.RMSNorm[float32]{}.Of(p.of("RMSNormFloat32"))
	soft := kernels.Softmax[float32]{}.Of(p.of("SoftmaxFloat32"))
	a, b := onDevice(p, make([]float32, 128), 0), onDevice(p, make([]float32, 128), 0)
	m := func(r *runtime.Ref[float32], rows, cols, pitch int) kernels.Matrix[float32] {
		return kernels.Matrix[float32]{Ref: r, Rows: rows, Cols: cols, Pitch: pitch}
	}
	x, none := m(a, 4, 16, 16), kernels.Matrix[float32]{}
	nan := float32(math.NaN())
	for want, err := range map[string]error{
		"LayerNorm: the kernels are nil":                                         kernels.LayerNorm[float32]{}.Launch(p.s, x, x, none, nil, nil, 0),
		"RMSNorm: the kernels are nil":                                           kernels.RMSNorm[float32]{}.Launch(p.s, x, x, none, nil, 0),
		"Softmax: the kernels are nil":                                           kernels.Softmax[float32]{}.Launch(p.s, x, x, 1, false),
		"LayerNorm: epsilon is NaN":                                              layer.Launch(p.s, x, x, none, nil, nil, nan),
		"LayerNorm: epsilon is -1":                                               layer.Launch(p.s, x, x, none, nil, nil, -1),
		"LayerNorm: the result is 4 x 8, and the input 4 x 16":                   layer.Launch(p.s, m(b, 4, 8, 16), x, none, nil, nil, 1),
		"RMSNorm: what is added is 3 x 16, and the input 4 x 16":                 rms.Launch(p.s, x, x, m(b, 3, 16, 16), nil, 1),
		"LayerNorm: the input has no memory":                                     layer.Launch(p.s, x, m(nil, 4, 16, 16), none, nil, nil, 1),
		"LayerNorm: the pitch of the result is 12":                               layer.Launch(p.s, m(b, 4, 16, 12), x, none, nil, nil, 1),
		"LayerNorm: the input has 128 elements, too few for 5 rows of 16":        layer.Launch(p.s, m(b, 5, 16, 16), m(a, 5, 16, 32), none, nil, nil, 1),
		"LayerNorm: the weight has 15 elements, want one for each of the 16":     layer.Launch(p.s, x, x, none, b.Slice(0, 15), nil, 1),
		"LayerNorm: the bias begins at no multiple of 16":                        layer.Launch(p.s, x, x, none, nil, b.Slice(1, 17), 1),
		"LayerNorm: the slices the bias and the result overlap":                  layer.Launch(p.s, x, x, none, nil, a.Slice(64, 80), 1),
		"RMSNorm: the slices the weight and the input overlap":                   rms.Launch(p.s, m(b, 4, 16, 16), x, m(b, 4, 16, 16), a.Slice(64, 80), 1),
		"LayerNorm: the slices the input and the result overlap":                 layer.Launch(p.s, m(a.Slice(16, 128), 4, 16, 16), x, none, nil, nil, 1),
		"RMSNorm: what is added is where the input is, with a pitch of 24":       rms.Launch(p.s, m(b, 4, 16, 16), x, m(a, 4, 16, 24), nil, 1),
		"Softmax: the scale is NaN":                                              soft.Launch(p.s, x, x, nan, false),
		"Softmax: a causal matrix has 16 columns, fewer than its 17 rows":        soft.Launch(p.s, m(a, 17, 16, 16), m(a, 17, 16, 16), 1, true),
		"Softmax: the result is -1 x 16":                                         soft.Launch(p.s, m(a, -1, 16, 16), m(a, -1, 16, 16), 1, false),
		"LayerNorm: the input has 3 elements and the result 4, want 2 x 2":       kernels.LayerNormCPU(2, 2, make([]float32, 4), make([]float32, 3), nil, nil, nil, 1),
		"RMSNorm: 1 elements are added, and there are 2 of weight and 0 of bias": kernels.RMSNormCPU(1, 2, make([]float32, 2), make([]float32, 2), make([]float32, 1), make([]float32, 2), 1),
		"Softmax: a causal matrix has 1 columns":                                 kernels.SoftmaxCPU(2, 1, make([]float32, 2), make([]float32, 2), 1, true),
		"Softmax: the scale is +Inf":                                             kernels.SoftmaxCPU(2, 1, make([]float32, 2), make([]float32, 2), float32(math.Inf(1)), false),
	} {
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, want)
		assert.ErrorContains(t, err, want)
	}
	y := make([]float32, 9)
	assert.ErrorContains(t, kernels.LayerNormCPU(2, 4, y[1:], y[:8], nil, nil, nil, 1), "overlap")
	assert.ErrorContains(t, kernels.LayerNormCPU(1, 2, y[:2], y[2:4], y[4:6], y[3:5], nil, 1), "overlap")
	assert.NoError(t, soft.Launch(p.s, m(a, 0, 16, 16), m(a, 0, 16, 16), 1, false))
	assert.NoError(t, kernels.SoftmaxCPU(0, 5, y[:0], y[:0], 1, false))
	require.NoError(t, p.s.Synchronize(t.Context()))
}

// fusedProduct compares a product with a function on each sum with the CPU, bit for bit: all sums are exact, as kernels.TestHardwareGemmBesideCPU has them.
func fusedProduct[T gpu.Half, F kernels.Activation](p *primitivesIn, of string, f F, m, n, depth int) {
	r := rand.New(rand.NewPCG(uint64(m), uint64(n)))
	exact := func(n int) []T {
		v := make([]T, n)
		for i := range v {
			v[i] = gpu.ToHalf[T](float32(r.IntN(255)-127) / 128)
		}
		return v
	}
	x, w, want, bias := exact(m*depth), exact(n*depth), make([]T, m*n), make([]float32, n)
	for i := range bias {
		bias[i] = float32(r.IntN(255)-127) / 128
	}
	even := (n + 1) / 2 * 2 // where n is odd, the element behind a row may become zero
	c := matrixOf(p, r, make([]T, m*even), m, even)
	c.Cols = n
	require.NoError(p.t, kernels.GemmWith[T, F]{}.Of(p.of("GemmWith"+of)).Launch(p.s, f, matrixOf(p, r, x, m, depth), matrixOf(p, r, w, n, depth), c, onDevice(p, bias, 0)))
	require.NoError(p.t, kernels.GemmWithCPU(f, m, n, depth, x, w, want, bias))
	got, differ := onHost(p, c.Ref), 0
	for i, v := range want {
		if got[i/n*c.Pitch+i%n] != v {
			differ++
		}
	}
	assert.Zero(p.t, differ, "%s %d x %d x %d: of %d elements differ from the CPU", of, m, n, depth, len(want))
}

// TestGemmWithBesideCPU runs on a GPU with shapes of few tiles and a large depth, and on the simulated driver with smaller ones. Those have tiles
// of which rows or columns are not in C. The function stops the kernel if it sees what lies there.
func TestGemmWithBesideCPU(t *testing.T) {
	leaky, clip := fused.Leaky{Slope: 0.25}, fused.Clip{Low: -2, High: 3}
	for _, name := range []string{"fused sm_80", "fused sm_90a"} {
		t.Run(name, func(t *testing.T) {
			p := openLibrary(t, name)
			if device.Hardware() {
				for _, s := range [][3]int{{35, 662, 658}, {32, 628, 548}, {1333, 733, 838}, {741, 198, 802}, {1259, 549, 792}} {
					fusedProduct[gpu.BFloat16](p, "BFloat16Leaky", leaky, s[0], s[1], s[2])
					fusedProduct[gpu.Float16](p, "Float16Leaky", leaky, s[0], s[1], s[2])
					fusedProduct[gpu.BFloat16](p, "BFloat16Clip", clip, s[0], s[1], s[2])
				}
				return
			}
			fusedProduct[gpu.BFloat16](p, "BFloat16Leaky", leaky, 35, 67, 300)
			fusedProduct[gpu.Float16](p, "Float16Leaky", leaky, 3, 130, 100)
			fusedProduct[gpu.Float16](p, "Float16Leaky", leaky, 130, 20, 100)
			fusedProduct[gpu.BFloat16](p, "BFloat16Clip", clip, 35, 67, 300)
		})
	}
}

// TestAttentionBesideCPU has heads of all widths, and rows and keys that fill no tile. The simulated driver has a few of the shapes.
func TestAttentionBesideCPU(t *testing.T) {
	p := openLibrary(t, "fused sm_90a")
	seeds.Each(t, seeds.Count(6, 100, 3), func(t *testing.T, seed uint64) {
		p := *p
		p.t = t
		r := rand.New(rand.NewPCG(seed, 21))
		h := kernels.Heads{Width: []int{64, 128, 256}[seed%3], Keys: 1 + r.IntN(2), Causal: r.IntN(2) > 0, Scale: float32(r.IntN(2)) * 0.5}
		h.Heads = h.Keys * (1 + r.IntN(3))
		most := 400
		if !device.Hardware() {
			most, h.Heads = 200, h.Keys
		}
		rows := 1 + r.IntN(most)
		keys := rows + r.IntN(most)
		cols, keyCols := h.Heads*h.Width, h.Keys*h.Width
		q, k, v, want := floatsOf[gpu.BFloat16](r, rows*cols, 0, 1), floatsOf[gpu.BFloat16](r, keys*keyCols, 0, 1), floatsOf[gpu.BFloat16](r, keys*keyCols, 0, 1), make([]gpu.BFloat16, rows*cols)
		out := matrixOf(&p, r, want, rows, cols)
		require.NoError(t, kernels.Attention[gpu.BFloat16]{}.Of(p.of("AttentionBFloat16")).Launch(p.s, matrixOf(&p, r, q, rows, cols), matrixOf(&p, r, k, keys, keyCols), matrixOf(&p, r, v, keys, keyCols), out, h))
		require.NoError(t, kernels.AttentionCPU(rows, keys, q, k, v, want, h))
		for i, x := range rowsOf(&p, out) {
			require.InDelta(t, want[i].Float32(), x.Float32(), 0.03, "%d rows, %d keys, %+v: row %d, column %d", rows, keys, h, i/cols, i%cols)
		}
	})
}

// TestRowsInACapture replays what a stream has recorded, with new data.
func TestRowsInACapture(t *testing.T) {
	p := openLibrary(t, "transformer")
	r := rand.New(rand.NewPCG(1, 2))
	const rows, cols = 130, 64
	x, want := floatsOf[gpu.Float16](r, rows*cols, 0, 1), make([]gpu.Float16, rows*cols)
	h := kernels.Heads{Width: cols, Heads: 1}
	q, keys, out := matrixOf(p, r, x[:cols], 1, cols), matrixOf(p, r, want, rows, cols), matrixOf(p, r, x[:cols], 1, cols)
	decode, layer, soft := kernels.Decode[gpu.Float16]{}.Of(p.of("DecodeFloat16")), kernels.LayerNorm[gpu.Float16]{}.Of(p.of("LayerNormFloat16")), kernels.Softmax[gpu.Float16]{}.Of(p.of("SoftmaxFloat16"))
	scratch := onDevice(p, make([]byte, decode.Scratch(1, rows, h)), 0)
	require.NotZero(t, scratch.Len())
	g, err := p.s.Capture(func(s *runtime.Stream) error {
		if err := layer.Launch(s, keys, keys, kernels.Matrix[gpu.Float16]{}, nil, nil, 1e-5); err != nil {
			return err
		}
		if err := soft.Launch(s, keys, keys, 1, false); err != nil {
			return err
		}
		return decode.Launch(s, q, keys, keys, out, nil, h, scratch)
	})
	require.NoError(t, err)
	exec, err := g.Instantiate()
	require.NoError(t, err)
	require.NoError(t, runtime.Upload2D(t.Context(), p.s, keys.Ref, keys.Pitch, x, cols, cols, rows))
	require.NoError(t, exec.Launch(p.s))
	require.NoError(t, kernels.LayerNormCPU(rows, cols, want, x, nil, nil, nil, 1e-5))
	require.NoError(t, kernels.SoftmaxCPU(rows, cols, want, want, 1, false))
	result := make([]gpu.Float16, cols)
	require.NoError(t, kernels.DecodeCPU(1, x[:cols], want, want, result, nil, h))
	for i, v := range rowsOf(p, out) {
		require.InDelta(t, result[i].Float32(), v.Float32(), 1e-4)
	}
	require.NoError(t, exec.Close())
	require.NoError(t, g.Close())
}
