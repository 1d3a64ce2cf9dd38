package compile_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
)

// TestFewerChecks compares kernels of which most checks are left out, or come before a loop, with all of their checks: the
// results, and what fails first. The numbers are small, negative, near an overflow, and such that a product overflows.
func TestFewerChecks(t *testing.T) {
	bodies := []string{
		"o[0] = x[a-b-1] + x[a-b] + x[a-b+1] + x[a-1] + x[a+1] + x[a+b-1] + x[a+b] + x[a+b+1]",
		"o[0] = x[a-1] + x[a] + x[a+1]; o[1] = x[a-3] + x[a+3] + x[a+2]",
		"for dz := -1; dz <= 1; dz++ { for dy := -1; dy <= 1; dy++ { for dx := -1; dx <= 1; dx++ { o[0] += x[a+(dz*b+dy)*b+dx] } } }",
		"for dy := -2; dy <= 2; dy++ { for dx := -2; dx <= 2; dx++ { o[0] += x[min(max(a+dy, 0), c-1)*b+min(max(d+dx, 0), b-1)] } }",
		"o[0] = x[max(a-1, 0)*b+d] + x[min(a+1, c-1)*b+d] + x[a*b+max(d-1, 0)] + x[a*b+min(d+1, b-1)] + x[a*b+d]",
		"o[0] = x[a*b] + x[(a+1)*b] + x[(a+2)*b] + x[(a+3)*b]",
		"o[0] = x[a] + x[a+c*d] + x[a+2*c*d] + x[a+c*d+c] + x[a+b]",
		"if a > 3 { o[0] = x[a-1] + x[a] + x[a+1] + x[a+b] }; o[1] = x[a+1]",
		"var s int; for i := 0; i < c; i++ { s += x[a*c+i] * y[i*b+d] }; o[0] = s",
		"var s int; for i := a; i <= c; i++ { s += x[i] + x[i+2] - y[5-i] }; o[0] = s",
		"var s int; for i := a; i < c; i += 2 { s += x[i] + x[i+1] }; o[0] = s",
		"var s int; for i := a; i < min(c, 300); i += max(d, 1) { s += x[i*b] }; o[0] = s",
		"var s int; for i := int32(a); i < int32(c); i++ { s += x[i] + x[y[int(i)+b]] }; o[0] = s",
		"var s int; for i := uint32(a); i < min(uint32(c), 300); i++ { s += x[i] + y[i+uint32(b)] }; o[0] = s",
		"var s int; for i := a; i < c; i++ { if i > 2 { s += x[i-b] }; s += y[i] }; o[0] = s",
		"var s int; for i := a; i+3 < c; i++ { s += x[i+3] + y[i+b] }; o[0] = s",
		"var s int; for i := a; i < c; i++ { s += x[3*i+b] + y[i-i+d] }; o[0] = s",
		"var s int; for i := a << 60; i < c; i++ { s += x[16*i+b] }; o[0] = s",
		"o[0] = x[a] + x[a+min(max(c/d, 0), b)] + x[a+b] + x[a+b-1]",
		"var s int; for i := 0; i < c; i++ { s += x[y[i]]*y[i+b] }; o[0] = s",
		"var s int; for i := 0; i < c; i++ { s += x[a] + x[a+min(max(y[i], 0), b)] + x[a+b] }; o[0] = s",
		"var s int; for i := 0; i < c; i++ { o[1] = x[y[i]+d]; s += o[1] }; o[0] = s",
		"var s int; for i := 0; i < c; i++ { v := y[i:]; s += v[0] + x[v[1]] }; o[0] = s",
		"var s int; for i := 0; i < c; i++ { v := (*[4]int)(y[i:]); s += v[b&3] + x[v[1]] }; o[0] = s",
		"if a > 0 && a < len(x) { o[0] = x[a-1] }; o[1] = y[b]",
		"if a < 1 || a+1 >= len(x) { return }; o[0] = x[a-1] + x[a+1] + y[b]",
		"if a >= 0 && a != 0 && a <= len(y) { o[0] = y[a-1] }; o[1] = y[b]",
		"if a-5 > 0 && a < len(x) { o[0] = x[a-1] }; o[1] = y[b]",
		"var s [16]int; for i := range s { s[i] = i*i }; for i := 0; i < 16; i++ { if u := b & 15; u > i && u < 15-i { o[0] += s[u-1] + s[u+1] } }; o[1] = y[b]",
		"if u, v := uint(a), uint(b); u < 7-v { o[0] = x[u] }; o[1] = y[b]",
		"if u, v := int32(a), int32(b); u >= 0 && v >= 0 && u < 7-v { o[0] = x[u] }; o[1] = y[b]",
		"var s int; for i, j := a, b; i < c; i, j = i+1, j+d { s += x[i] + y[j] }; o[0] = s",
	}
	var source strings.Builder
	for i, body := range bodies {
		fmt.Fprintf(&source, "//purecuda:kernel\nfunc K%d(t *gpu.Thread, o, x, y []int, a, b, c, d int) {\n\t%s\n}\n\n", i, body)
	}
	p, err := load(t, source.String())
	require.NoError(t, err)
	numbers := []int{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 31, 40, 63, 64, 65, -2, -7, 1 << 24, 1 << 31, 1 << 32, 1 << 61, 1 << 62, -1 << 62, math.MaxInt, math.MinInt, math.MaxInt / 3}
	for i, body := range bodies {
		t.Run(body, func(t *testing.T) {
			name := fmt.Sprint("K", i)
			var devices []*device.Device
			var sites [][]string
			for _, o := range []compile.Options{{Arch: 75, Checks: compile.ChecksReport, Plain: true}, {Arch: 75, Checks: compile.ChecksReport}} {
				m, err := p.Compile(o, name)
				require.NoError(t, err)
				devices, sites = append(devices, device.Open(t, device.Of(m))), append(sites, m.Sites)
			}
			random := rand.New(rand.NewPCG(1, uint64(i)))
			failed := 0
			for range 300 {
				var args [4]int
				for j := range args {
					args[j] = numbers[random.IntN(20)]
					if random.IntN(6) == 0 {
						args[j] = numbers[random.IntN(len(numbers))]
					}
				}
				if args[2] > 1<<20 { // a loop that takes too long without a check
					args[2] = 70
				}
				var outs [2][]int
				var says [2]string
				for j, d := range devices {
					outs[j] = make([]int, 2)
					x, y := make([]int, 64), make([]int, 40)
					for n := range x {
						x[n] = n * n % 37
					}
					for n := range y {
						y[n] = n * 7 % 61
					}
					w, err := d.Run(name, gpu.Shape1D(1, 1), outs[j], x, y, args[0], args[1], args[2], args[3])
					require.NoError(t, err, "%v", args)
					if w[0] != 0 {
						says[j] = fmt.Sprint(sites[j][w[0]-1], int64(w[1]), w[2:])
					}
				}
				if says[0] != "" {
					failed++
				}
				require.Equal(t, says[0], says[1], "%v", args)
				if says[0] == "" {
					require.Equal(t, outs[0], outs[1], "%v", args)
				}
			}
			assert.Greater(t, failed, 20)
			assert.Less(t, failed, 290)
		})
	}
}
