package main

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// check compares with package slices.
func check(t *testing.T, where pool.Place, options ...runtime.Option) {
	t.Helper()
	rt, err := runtime.Open(options...)
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close()) }()
	for _, n := range []int{0, 1, 100, 5000} {
		bids := make([]Bid, n)
		for i := range bids {
			bids[i] = Bid{Price: float32(rand.IntN(50)), Amount: rand.Uint32(), Number: uint64(i)}
		}
		before, want := slices.Clone(bids), slices.Clone(bids)
		slices.SortStableFunc(want, func(a, b Bid) int { return cmp.Compare(a.Price, b.Price) })
		sorted, report, err := sortBids(context.Background(), rt, bids)
		require.NoError(t, err)
		assert.Equal(t, where, report.Where)
		assert.Equal(t, want, sorted)
		assert.Equal(t, before, bids)
	}
}

func TestOnASimulatedDevice(t *testing.T) {
	check(t, pool.OnGPU, runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{})), runtime.WithPolicy(runtime.PolicyAuto))
}

func TestOnTheCPU(t *testing.T) { check(t, pool.OnCPU, runtime.WithPolicy(runtime.PolicyOff)) }

// Every call can fail: the CPU does the work then, and nothing is left behind.
func TestFaults(t *testing.T) {
	for _, op := range []string{"cuModuleLoadDataEx", "cuMemAllocFromPoolAsync", "cuMemcpyHtoDAsync", "cuLaunchKernel", "cuMemcpyDtoHAsync"} {
		gpu := drivertest.ForTest(t, drivertest.Config{})
		rt, err := runtime.Open(runtime.WithDriver(gpu), runtime.WithPolicy(runtime.PolicyAuto))
		require.NoError(t, err)
		gpu.Fail(op, 1, driver.ResultUnknown)
		sorted, report, err := sortBids(context.Background(), rt, []Bid{{Price: 2}, {Price: 1}})
		require.NoError(t, err, op)
		assert.Equal(t, []Bid{{Price: 1}, {Price: 2}}, sorted, op)
		assert.ErrorIs(t, report.Err, driver.ResultUnknown, op)
		assert.Zero(t, rt.Stats().Refs, op)
		require.NoError(t, rt.Close(), op)
	}
}

func TestOnHardware(t *testing.T) {
	if _, err := runtime.Probe("test"); errors.Is(err, driver.ErrDriverLibraryUnavailable) {
		t.Skip(err)
	}
	check(t, pool.OnGPU)
}
