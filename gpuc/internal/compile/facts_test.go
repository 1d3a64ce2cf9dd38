package compile_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
)

// TestChecks compiles what needs a check, and what can be seen to need none. In each, x has 256 elements, n is -1, and o,
// which needs a check, points to x[0].
func TestChecks(t *testing.T) {
	const (
		fails = "fails" // the check stays, and fails
		holds = "holds" // the check stays
		none  = "none"  // there is none
	)
	tests := []struct{ name, want, body string }{
		{"what a sum is at most", none, "for j := 0; j+4 <= len(x); j += 4 { x[j] = x[j+1] + x[j+2] + x[j+3] }"},
		{"what is below a length less one", none, "for j := 0; j < len(x)-1; j++ { x[j] = x[j+1] }"},
		{"more than a sum is at most", fails, "for j := 0; j+4 <= len(x); j += 4 { *o = x[j+4] }"},
		{"more than what is below a length", fails, "for j := 0; j < len(x); j++ { x[j] = x[j+1] }"},
		{"less than what is not negative", fails, "for j := 0; j < len(x); j++ { x[j] = x[j-1] }"},
		{"a sum that is not negative of what is", fails, "for j := n; j+4 <= len(x); j += 4 { *o = x[j] }"},
		{"a number at most a length and one", fails, "for j := 0; j <= len(x)+1; j++ { *o = x[j] }"},
		{"a mask that does not fit the signed type", fails, "var a [256]int; a[3] = 1; *o = a[int8(n&255)]"},
		{"a byte as int8", fails, "var a [256]int; a[3] = 1; *o = a[int8(uint8(n))]"},
		{"a remainder of a byte as int8", fails, "var a [256]int; a[3] = 1; *o = a[int8(uint8(n))%100]"},
		{"a word as int32", fails, "var a [256]int; a[3] = 1; *o = a[int32(uint32(n))%100]"},
		{"a sum of int8", fails, "var a [256]int; a[3] = 1; *o = a[(int8(n&127)+1)%100]"},
		{"a negative remainder", fails, "var a [256]int; a[3] = 1; *o = a[n%100]"},
		{"a half of what is negative", fails, "var a [256]int; a[3] = 1; *o = a[(n>>1)%100]"},
		{"the quotient by what is negative", fails, "var a [256]int; a[3] = 1; *o = a[(len(x)/n)%100]"},
		{"a pass of an unrolled loop is beyond an array", fails, "a := [5]int{1, 2, 3, 4, 5}; for j := range 8 { if j > n { *o += a[j] } }"},
		{"a pass that does not come is beyond an array", holds, "a := [5]int{1, 2, 3, 4, 5}; for j := range 8 { if j < n { *o += a[j] } }"},
		{"a pass that does not come is beyond an array without elements", holds, "var a [0]int; for j := range 8 { if j < n { *o += a[j] } }"},
		{"a pass is beyond an array without elements", fails, "var a [0]int; for j := range 8 { if j > n { *o += a[j] } }"},
		{"a pass that does not come is beyond a slice without elements", holds, "a := [4]int{n}; for j := range 8 { if j < n { *o += a[:0][j] } }"},
		{"a pass that does not come divides by zero", holds, "for j := range 8 { if j < n { *o += 100 / (3 - j) } }"},
		{"a pass divides by zero", fails, "for j := range 8 { if j > n { *o += 100 / (3 - j) } }"},
		{"a pass that does not come divides a variable by zero", holds, "for j := range 8 { if j < n { *o += n % (3 - j) } }"},
		{"a pass that does not come is beyond an array of a call", holds, "f := func() [3]int { return [3]int{n, 2, n} }; for j := range 8 { if j < n { *o += f()[j] } }"},
		{"a pass that does not come is beyond an array of a call without elements", holds, "f := func() (a [0]int) { return }; for j := range 8 { if j < n { *o += f()[j] } }"},
		{"a pass is beyond an array of a call", fails, "f := func() [3]int { return [3]int{n, 2, n} }; for j := range 8 { if j > n { *o += f()[j] } }"},
		{"a counter with steps that double", fails, "for i, j := 0, 1; i < len(x); i, j = i+j, j*2 { x[i]++; if j > 64 { i, j = n-5, 1 } }"},
		{"a sum that overflows", fails, "for i, j := 0, 0; j >= 0; i, j = i+j, j+(1<<31) { if i < len(x) { x[i]++ } }"},
		{"a counter of 32 bits", fails, "for i := int32(1); i != 0; i += 1<<30 { if int(i) < len(x) { x[i]++ } }"},
		{"a counter of 32 bits as int", fails, "for i := int32(1); i != 0; i += 1<<30 { if j := int(i); j < len(x) { x[j]++ } }"},
		{"a counter that a condition does not stop", fails, "for i := 0; ; i += 1<<62 { if i < len(x) { x[i]++ } }"},
		{"a condition on another counter", fails, "for i, k := 0, 0; k < 3; i, k = i+(1<<62), k+1 { if i < len(x) { x[i]++ } }"},
		{"a bound of a uint32 that an int32 does not have", fails, "var a [10]int; a[3] = 1; y := uint32(n) & uint32(n-1); if u := uint32(n-5); u < y { if i := int32(u); i < 10 { *o = a[i] } }"},
		{"a bound of a uint64 that an int does not have", fails, "var a [10]int; a[3] = 1; y := uint64(n) & uint64(n-1); if u := uint64(n-5); u < y { if i := int(u); i < 10 { *o = a[i] } }"},
		{"the bound of a slice", fails, "*o = len(x[:4][n+3:5][:3])"},
		{"the capacity of a slice is beyond the slice", fails, "*o = len(x[0:1:258+n*0])"},
		{"a bound is beyond the capacity", fails, "*o = len(x[1:5-n:5])"},
		{"beyond the capacity of a slice", fails, "y := x[0:2:5+n]; *o = len(y[:6])"},
		{"the capacity of an array", fails, "var a [8]int; a[2] = n; y := a[1:3:4]; *o = len(y[:5+n])"},
		{"a counter that begins near the end", fails, "u := uint64(n); for j, m := int(u>>1), 0; m < 4; j++ { m++; if j < len(x) { x[j] = 1 } }"},
		{"a counter that comes near the end", fails, "u := uint64(n); for j, m := 0, 0; m < 9; j++ { if m++; m == 5 { j = int(u>>1) }; if j < len(x) { x[j] = 1 } }"},
		{"a counter that a condition lets near the end", fails, "u := uint64(n); for j, m := 0, 0; m < 9; { m++; if m == 4 { if j < int(u>>1)-1000 { j += int(u>>1)-1000 } } else { j += 900 }; if j < len(x) { x[j] = 1 } }"},

		{"before a number that is positive", none, "if n > 0 && n < len(x) { x[n-1]++ }"},
		{"before a number that is not 0", none, "if i := t.ThreadX(); i != 0 && i <= len(x) { x[i-1]++ }"},
		{"two before a number that is positive", holds, "if n > 0 && n < len(x) { x[n-2]++ }"},
		{"before a sum that is positive", holds, "if n-3 > 0 && n < len(x) { x[n-1]++ }"},
		{"between counters", none, "var a [16]int; for i := range 16 { if u := n&15; u > i && u < 15-i { a[u-1] = a[u+1] } }; *o = a[3]"},
		{"an index", holds, "if n < len(x) { x[n+1]++ }"},
		{"a capacity", holds, "*o = len(x[1:4:n+6])"},
		{"a mask", none, "var a [256]int; a[3] = 1; *o = a[n&255] + a[int8(n&127)] + a[uint8(n)] + a[uint32(n)>>24] + a[uint16(n)%256]"},
		{"a remainder of what counts up", holds, "var a [16]int; for i := range len(x) { a[i%16] += i }; *o = a[3]"},
		{"a counter with places in the grid", none, "for i := t.GlobalX(); i < len(x); i += t.GlobalDimX() { x[i]++ }"},
		{"a counter of blocks", none, "for b := t.BlockX()+1; b < 4; b++ { if i := b + t.ThreadX(); i < len(x) { x[i]++ } }"},
	}
	var source strings.Builder
	for i, c := range tests {
		fmt.Fprintf(&source, "//purecuda:kernel\nfunc K%d(t *gpu.Thread, x []int, n int) {\n\to := &x[0]\n\t%s\n\t_ = o\n}\n\n", i, c.body)
	}
	p, err := load(t, source.String())
	require.NoError(t, err)
	for i, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			name := fmt.Sprint("K", i)
			m, err := p.Compile(compile.Options{Arch: 75, Checks: compile.ChecksReport}, name)
			require.NoError(t, err)
			assert.Equal(t, c.want == none, len(m.Sites) == 1, "%q", m.Sites)
			d := device.Open(t, device.Of(m))
			report, err := d.Run(name, gpu.Shape1D(1, 1), make([]int, 256), -1)
			require.NoError(t, err)
			assert.Equal(t, c.want == fails, report[0] != 0, "%q", m.Sites)
		})
	}
}

// A constant beyond the width of what it shifts does not get into the PTX: ptxas of driver 580 takes some of them for 0.
func TestShiftsBeyondTheWidth(t *testing.T) {
	p, err := load(t, `//purecuda:kernel
func K(t *gpu.Thread, x []int32, y []uint32, z []int64, n int) {
	i, a, b, c := t.ThreadX(), x[0], y[0], z[0]
	x[i], x[i+1], x[i+2] = a>>40, a<<32, a>>31
	y[i], y[i+1], y[i+2] = b>>32, b<<200, b>>31
	z[i], z[i+1], z[i+2] = c>>64, c<<1000, c>>63
}
`)
	require.NoError(t, err)
	m, err := p.Compile(compile.Options{Arch: 75}, "K")
	require.NoError(t, err)
	counts := regexp.MustCompile(`sh[lr]\.\w(\d\d) %\w+, %\w+, (\d+);`).FindAllStringSubmatch(m.PTX, -1)
	require.GreaterOrEqual(t, len(counts), 3)
	for _, c := range counts {
		width, _ := strconv.Atoi(c[1])
		count, _ := strconv.Atoi(c[2])
		assert.Less(t, count, width, c[0])
	}
}

// ptxas of driver 580 loses the sign of a negation that a shift and an addition use, or a minimum of three, and borrows where
// it takes 0 off the upper half of a product in 64 bits. So the PTX has none of these instructions.
func TestWhatPtxasGetsWrong(t *testing.T) {
	p, err := load(t, `//purecuda:kernel
func K(t *gpu.Thread, x []int32, y []int64, u []uint32) {
	i, a, b, c := t.ThreadX(), x[0], y[0], u[0]
	x[i], x[i+1], x[i+2] = (-a)>>31+91, min(min(-a, x[1]), x[2]), (a * -1)>>3+7
	x[i+3], y[i+1] = int32(-b)>>31+91, b * -1
	y[i] = ^(int64(gpu.MulHigh32(c, u[1])) - int64(u[2]))
}
`)
	require.NoError(t, err)
	m, err := p.Compile(compile.Options{Arch: 75}, "K")
	require.NoError(t, err)
	assert.NotRegexp(t, `neg\.s|sub\.[su]\d\d %\w+, 0,|mul\.lo\.[su]\d\d %\w+, %\w+, (-1|4294967295|18446744073709551615);|mul\.hi\.u32`, m.PTX)
	assert.Contains(t, m.PTX, "shr.u64", "the upper half stays in 64 bits")
	assert.Len(t, regexp.MustCompile(`not\.b(32|64) .*\n\tadd\.s(32|64) %\w+, %\w+, 1;`).FindAllString(m.PTX, -1), 2, m.PTX)
}
