package pool_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// After a Reset of a context the pool makes its stream and its state again.
func TestDevicesThatWereReset(t *testing.T) {
	gpu := drivertest.ForTest(t, machine(2))
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	setups := map[int]int{}
	p := openOn(t, rt, pool.Options{Setup: []pool.Setup{pool.PerStream(func(w *pool.Worker) (int, error) {
		if w.Index() == 1 { // on one goroutine
			setups[1]++
		}
		return 0, nil
	})}})
	for calls := 1; calls <= 3; calls++ {
		out := make([]uint32, 1000)
		report, err := pool.Map(context.Background(), p, count(1000), out, triple, pool.MapOptions[uint32, uint32]{Chunk: 500, MinPerDevice: 1})
		require.NoError(t, err)
		assert.Equal(t, pool.OnGPU, report.Where)
		assert.Equal(t, tripled(1000), out)
		assert.Equal(t, calls, setups[1])
		c, err := rt.Context(p.Devices()[1].Ordinal)
		require.NoError(t, err)
		require.NoError(t, c.Reset(context.Background()))
	}
}
