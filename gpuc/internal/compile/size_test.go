package compile_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpuc/internal/compile"
)

// TestSize has loops in loops, whose passes are many together: the PTX stays small, unless a line asks for more. What then
// becomes too large is an error with the loop.
func TestSize(t *testing.T) {
	p, err := load(t, `//purecuda:kernel
func Cubes(t *gpu.Thread, x []int) {
	for i := range 32 { for j := range 32 { for k := range 32 { x[(i*j+k)&1023] += i - j } } }
}

//purecuda:kernel
func Waves(t *gpu.Thread, x []int) {
	s := gpu.Shared[[128]int](t)
	for d := range 127 { s[t.ThreadX()&127] += s[d]; t.Barrier() }
	for i := range 100 { for j := range 100 { x[i*100+j] = s[(i+j)&127] } }
}

//purecuda:kernel
func Asked(t *gpu.Thread, x []int) {
	//purecuda:unroll
	for i := range 1000 {
		//purecuda:unroll
		for j := range 1000 { x[i^j] += i }
	}
}
`)
	require.NoError(t, err)
	for _, name := range []string{"Cubes", "Waves"} {
		m, err := p.Compile(compile.Options{Arch: 90, Checks: compile.ChecksReport}, name)
		require.NoError(t, err)
		assert.Less(t, len(m.PTX), 200<<10, name)
	}
	_, err = p.Compile(compile.Options{Arch: 90, Checks: compile.ChecksReport}, "Asked")
	assert.ErrorContains(t, err, "k.go:19:2: Asked becomes too large with the passes of this loop: write //purecuda:unroll 4")
}
