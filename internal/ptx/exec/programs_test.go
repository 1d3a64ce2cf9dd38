package exec

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPrograms runs PTX that clang made of programs.inc: structs by value, recursion,
// sorting, switches, function pointers, 64-bit and 128-bit integers, half, float and
// double arithmetic, byte arrays. programs.txt is what the same source printed when it
// was compiled for the host:
//
//	clang++-19 -O1 -ffp-contract=off -Xclang -ffloat16-excess-precision=none -mf16c programs_host.cpp
//	clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_75 --cuda-feature=+ptx78 \
//		-nocudainc -nocudalib -O0 (and -O3) -ffp-contract=off -S programs.cu
func TestPrograms(t *testing.T) {
	text, err := os.ReadFile("testdata/programs.txt")
	require.NoError(t, err)
	words := strings.Fields(string(text))
	for _, level := range []string{"O0", "O3"} {
		h := &gmem{}
		l := loadFile(t, h, "programs."+level+".ptx")
		out := h.alloc(4 * len(words))
		require.NoError(t, launch(t, l, h, "k", 8, 128, out))
		for i, v := range h.get32(out) {
			require.Equal(t, words[i], fmt.Sprint(v), "%s thread %d", level, i)
		}
	}
}
