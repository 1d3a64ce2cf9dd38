package drivertest_test

import (
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

func TestGridSync(t *testing.T) {
	image, err := os.ReadFile("../../internal/ptx/exec/testdata/gridsync.ptx")
	require.NoError(t, err)
	const blocks, threads, rounds = 12, 32, 5
	launch := func(g *gpu, cooperative bool) (driver.DevicePtr, driver.Result) {
		f, r := g.ModuleGetFunction(g.load(string(image)), "rotate")
		g.ok(r)
		s, x, out, n := g.stream(), g.alloc(4*blocks*threads), g.alloc(4*blocks*threads), uint32(rounds)
		for i := range blocks * threads {
			g.ok(g.MemsetD32(x+driver.DevicePtr(4*i), uint32(i), 1))
		}
		start := g.LaunchKernel
		if cooperative {
			start = g.LaunchCooperativeKernel
		}
		g.ok(start(f, driver.Dim3{X: blocks, Y: 1, Z: 1}, driver.Dim3{X: threads, Y: 1, Z: 1}, 0, s,
			[]unsafe.Pointer{pointer(&x), pointer(&out), pointer(&n)}))
		return out, g.StreamSynchronize(s)
	}

	g := plain(t, drivertest.Config{})
	out, r := launch(g, true)
	g.ok(r)
	for i, v := range g.words(out, blocks*threads) {
		require.EqualValues(t, (i+rounds*threads)%(blocks*threads), v, "element %d", i)
	}

	ordinary := plain(t, drivertest.Config{})
	_, r = launch(ordinary, false)
	ordinary.is(driver.ResultLaunchFailed, r)
	assert.Contains(t, ordinary.finding().Detail, "the launch is not cooperative, and this kernel synchronises the whole grid")
}
