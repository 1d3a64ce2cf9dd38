package nvrtctest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/nvrtc/nvrtctest"
)

// TestOrderOfCalls: what NVRTC refuses is refused.
func TestOrderOfCalls(t *testing.T) {
	sim := nvrtctest.ForTest(t, nvrtctest.Config{})
	sim.Add("good", "ptx")
	h, r := sim.CreateProgram("good", "g.cu", nil)
	require.Equal(t, nvrtc.Success, r)
	assert.Equal(t, 1, sim.Programs())
	_, r = sim.PTX(h)
	assert.Equal(t, nvrtc.ResultInvalidProgram, r)
	_, r = sim.LoweredName(h, "f")
	assert.Equal(t, nvrtc.ResultNoLoweredNamesBeforeCompilation, r)
	assert.Equal(t, nvrtc.Success, sim.AddNameExpression(h, "f<int>"))
	require.Equal(t, nvrtc.Success, sim.CompileProgram(h, []string{"--gpu-architecture=compute_80"}, nil))
	assert.Equal(t, nvrtc.ResultNoNameExpressionsAfterCompilation, sim.AddNameExpression(h, "g"))
	_, r = sim.LoweredName(h, "g")
	assert.Equal(t, nvrtc.ResultNameExpressionNotValid, r)
	ptx, _ := sim.PTX(h)
	assert.Equal(t, "ptx", string(ptx))
	cubin, r := sim.CUBIN(h)
	assert.Equal(t, nvrtc.Success, r)
	assert.Empty(t, cubin, "the architecture was a virtual one")
	lto, _ := sim.LTOIR(h)
	assert.Empty(t, lto)
	assert.Equal(t, nvrtc.ResultInvalidOption, sim.CompileProgram(h, nil, nil), "an architecture is needed")
	assert.Equal(t, nvrtc.Success, sim.DestroyProgram(h))
	assert.Equal(t, nvrtc.ResultInvalidProgram, sim.DestroyProgram(h))
	assert.Equal(t, nvrtc.ResultInvalidProgram, sim.CompileProgram(h, nil, nil))
	_, r = sim.CreateProgram("a\x00", "", nil)
	assert.Equal(t, nvrtc.ResultInvalidInput, r)
}

func TestMissingFunctions(t *testing.T) {
	sim := nvrtctest.ForTest(t, nvrtctest.Config{Missing: []string{"nvrtcGetLTOIR"}})
	_, r := sim.LTOIR(1)
	assert.Equal(t, nvrtc.ResultSymbolMissing, r)
}

func TestCompilesRunAtTheSameTime(t *testing.T) {
	sim := nvrtctest.ForTest(t, nvrtctest.Config{Delay: 50 * time.Millisecond})
	sim.Add("good", "ptx")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			_, err := nvrtc.Compile(t.Context(), sim, nvrtc.Program{Source: "good"}, nvrtc.Target{Kind: nvrtc.PTX, Arch: 75})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	assert.Equal(t, 4, sim.MostAtOnce())
	require.Len(t, sim.Compiles(), 4)
	assert.Equal(t, "good", sim.Compiles()[0].Source)
	assert.Contains(t, sim.Compiles()[0].Options, "--gpu-architecture=compute_75")
}
