package cluster_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// byCPU is a function for hosts without a device.
var byCPU = cluster.WithCPU("square/v1", func(_ context.Context, r *isolate.Request) ([]byte, error) { return square(nil, r) })

func named(c *cluster.Cluster, name string) (h cluster.Host) {
	for _, h := range c.Hosts() {
		if h.Name == name {
			return h
		}
	}
	return h
}

// TestSlotsOfFunctions has a host without a device beside one with a device. It takes the pieces of the function that it has for
// its cores, and none of the others.
func TestSlotsOfFunctions(t *testing.T) {
	s := start(t, embedded.Config{})
	serve(t, connect(t, s), openPool(t, 0), "cores", byCPU)
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	require.Eventually(t, func() bool { return len(c.Hosts()) == 1 }, patience, 10*time.Millisecond)
	assert.Equal(t, []string{"square/v1"}, named(c, "cores").Functions)
	short := open(t, connect(t, s), cluster.WithPatience(time.Second))
	require.Eventually(t, func() bool { return len(short.Hosts()) == 1 }, patience, 10*time.Millisecond)
	_, _, err := cluster.Do(within(t), short, "slow/v1", cluster.Piece{Data: number(1)}, cluster.WithRetry(0))
	assert.ErrorIs(t, err, cluster.ErrNoWorker)
	assert.ErrorContains(t, err, "cores")

	serve(t, connect(t, s), openPool(t, 1), "gpu")
	for _, tile := range squares(t, c, "slow/v1", 50, cluster.WithRetry(0)).Tiles {
		assert.Equal(t, "gpu", tile.Host)
	}
	squares(t, c, "square/v1", 50, cluster.WithRetry(0))
}

// TestDeviceOfFunctionVanishes has a host lose its only device. It goes on with the function that it has for its cores, and gives
// back the pieces of others, which is no try.
func TestDeviceOfFunctionVanishes(t *testing.T) {
	gpu := drivertest.ForTest(t, simulated(1))
	s := start(t, embedded.Config{})
	serve(t, connect(t, s), poolOf(t, gpu), "host", byCPU)
	serve(t, connect(t, s), openPool(t, 1), "other")
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	require.Eventually(t, func() bool { return len(c.Hosts()) == 2 }, patience, 10*time.Millisecond)
	vanish, vanished := once(func() { gpu.Vanish(0) })
	for _, tile := range squares(t, c, "touch/v1", 100, at(t, 20, vanish)).Tiles {
		if tile.Retries > 0 {
			assert.ErrorIs(t, tile.Cause, driver.ErrDeviceLost, "only what ran on the device was tried")
		}
	}
	vanished()
	require.Eventually(t, func() bool { return slices.Equal(named(c, "host").Functions, []string{"square/v1"}) }, patience, 10*time.Millisecond)
	for _, tile := range squares(t, c, "touch/v1", 50, cluster.WithRetry(0)).Tiles {
		assert.Equal(t, "other", tile.Host)
	}
	gpu.Return(0)
	require.Eventually(t, func() bool { return slices.Contains(named(c, "host").Functions, "touch/v1") }, patience, 10*time.Millisecond)
}

// TestOwnErrorIsATry has a function return what a host says that has no device. It is the function's own error.
func TestOwnErrorIsATry(t *testing.T) {
	s := start(t, embedded.Config{})
	cpu := cluster.WithCPU("closed/v1", func(context.Context, *isolate.Request) ([]byte, error) { return nil, nil })
	serve(t, connect(t, s), poolWith(t, []runtime.Option{runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(drivertest.ForTest(t, simulated(1)))}), "host", cpu)
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	for range 3 {
		_, report, err := cluster.Do(within(t), c, "closed/v1", cluster.Piece{}, cluster.WithRetry(1))
		assert.Error(t, err)
		assert.Equal(t, 2, report.Tries)
	}
}

// TestGivenBackIsNoPoison has more hosts give a piece back than deliveries make it poison.
func TestGivenBackIsNoPoison(t *testing.T) {
	s := start(t, embedded.Config{})
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	type answer struct {
		report pool.Report
		err    error
	}
	done := make(chan answer, 1)
	before := running.Load()
	go func() {
		_, report, err := cluster.Do(within(t), c, "wait-for-end/v1", cluster.Piece{}, cluster.WithRetry(0))
		done <- answer{report, err}
	}()
	for range 8 {
		stop := serve(t, connect(t, s), openPool(t, 1), "host", cluster.WithDrain(0))
		require.Eventually(t, func() bool { return running.Load() > before || len(done) > 0 }, patience, time.Millisecond)
		stop()
		require.Equal(t, before, running.Load())
	}
	mayEnd.Store(true)
	defer mayEnd.Store(false)
	serve(t, connect(t, s), openPool(t, 1), "host")
	a := <-done
	require.NoError(t, a.err)
	assert.Equal(t, 1, a.report.Tries)
}
