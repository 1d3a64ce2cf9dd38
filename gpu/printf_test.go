package gpu_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
)

func TestPrintf(t *testing.T) {
	var out bytes.Buffer
	gpu.SetOutput(&out)
	defer gpu.SetOutput(nil)
	require.NoError(t, gpu.Run(gpu.Shape1D(3, 32), func(t *gpu.Thread) {
		if i := t.GlobalX(); i < 3 {
			t.Printf("%d %v %s %t%% %08.3f %g %v %v %-4dx %v\n", i, uint8(i), "text", i == 1, float64(i)/3, 2.0/3, float32(1.0/3), gpu.ToFloat16(1.5), i, time.Second)
		}
	}))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines)
	assert.Equal(t, []string{
		"0 0 text false% 0000.000 0.666667 0.333333 1.5 0   x 1000000000",
		"1 1 text true% 0000.333 0.666667 0.333333 1.5 1   x 1000000000",
		"2 2 text false% 0000.667 0.666667 0.333333 1.5 2   x 1000000000",
	}, lines)
}
