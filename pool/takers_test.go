package pool_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// An option of another call is an error that names the option and the call, with a device and without.
func TestOptionsOfOtherCalls(t *testing.T) {
	const devices, request, every = "Scatter Map Reduce", "Do NewBatcher", "Open Do NewBatcher Scatter Map Reduce"
	nothing := func(*pool.Worker) error { return nil }
	takers := map[string]struct {
		option pool.Option
		calls  string
	}{
		"WithSetup":          {pool.WithSetup(nothing), "Open"},
		"WithDeviceSetup":    {pool.WithDeviceSetup(nothing), "Open"},
		"WithStreams":        {pool.WithStreams(1), "Open"},
		"WithQueue":          {pool.WithQueue(1), "Open"},
		"WithQuota":          {pool.WithQuota("a", 1), "Open"},
		"WithRemote":         {pool.WithRemote(func(int) error { return nil }), "Open"},
		"WithHealth":         {pool.WithHealth(nil), "Open"},
		"WithDevices":        {pool.WithDevices(), every},
		"WithoutDevices":     {pool.WithoutDevices(), every},
		"WithRetry":          {pool.WithRetry(1), every},
		"WithQueueWait":      {pool.WithQueueWait(), every},
		"WithCost":           {pool.WithCost(1), every},
		"WithPriority":       {pool.WithPriority(1), every},
		"WithBreakEven":      {pool.WithBreakEven(nil), every},
		"WithDeadline":       {pool.WithDeadline(time.Now().Add(time.Hour)), "Do " + devices},
		"WithReserve":        {pool.WithReserve("a", 1), "Open " + request},
		"WithoutQueue":       {pool.WithoutQueue(), "Open " + request},
		"WithItems":          {pool.WithItems(1), "Do"},
		"WithWeights":        {pool.WithWeights(1, 1), "Open " + devices},
		"WithThroughput":     {pool.WithThroughput(), "Open " + devices},
		"WithMinPerDevice":   {pool.WithMinPerDevice(1), "Open " + devices},
		"WithSizeGate":       {pool.WithSizeGate(1), "Open " + devices},
		"WithChunk":          {pool.WithChunk(1), "Open " + devices + " CPU"},
		"WithGrain":          {pool.WithGrain(1), "Open " + devices + " CPU"},
		"WithItemBytes":      {pool.WithItemBytes(1), "Open " + devices + " CPU"},
		"WithDoFallback":     {pool.WithDoFallback(func(context.Context) error { return nil }), "Do"},
		"WithFallback":       {pool.WithFallback(func(context.Context, int, int) error { return nil }), "Scatter"},
		"WithMapFallback":    {pool.WithMapFallback(func(context.Context, []int, []int) error { return nil }), "Map"},
		"WithReduceFallback": {pool.WithReduceFallback(func(context.Context, int, int, []int) error { return nil }), "Reduce"},
	}
	for name, config := range map[string]drivertest.Config{"devices": machine(2), "none": {InitResult: driver.ResultNoDevice}} {
		rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(drivertest.ForTest(t, config)))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, rt.Close()) })
		p := openOn(t, rt)
		calls := map[string]func(pool.Option) error{
			"Open": func(o pool.Option) error {
				other, err := pool.Open(rt, o)
				if err == nil {
					err = other.Close()
				}
				return err
			},
			"Do": func(o pool.Option) error { _, err := pool.Do(t.Context(), p, nothing, o); return err },
			"NewBatcher": func(o pool.Option) error {
				b, err := pool.NewBatcher(p, func(*pool.Worker, []int, []int, []error) error { return nil }, pool.BatcherConfig[int, int]{}, o)
				if err == nil {
					_, err = b.Do(t.Context(), 1)
					assert.NoError(t, b.Close())
				}
				return err
			},
			"Scatter": func(o pool.Option) error { _, err := pool.Scatter(t.Context(), p, 9, newDone(9).do, o); return err },
			"Map": func(o pool.Option) error {
				_, err := pool.Map(t.Context(), p, make([]int, 9), make([]int, 9), func(*pool.Worker, []int, []int) error { return nil }, o)
				return err
			},
			"Reduce": func(o pool.Option) error {
				_, _, err := pool.Reduce(t.Context(), p, 9, 1, func(*pool.Worker, int, int, []int) error { return nil }, func(a, _ int) int { return a }, o)
				return err
			},
			"CPU": func(o pool.Option) error {
				_, err := pool.CPU(t.Context(), 9, func(context.Context, int, int) error { return nil }, o)
				return err
			},
		}
		for option, taken := range takers {
			for call, try := range calls {
				err := try(taken.option)
				if slices.Contains(strings.Fields(taken.calls), call) {
					assert.NotErrorIs(t, err, driver.ErrInvalidArgument, "%s: %s in %s", name, option, call)
					continue
				}
				require.ErrorIs(t, err, driver.ErrInvalidArgument, "%s: %s in %s", name, option, call)
				assert.ErrorContains(t, err, option+" is an option of ", "%s in %s", option, call)
				assert.ErrorContains(t, err, ", and not of "+call, option)
			}
		}
	}
}

// Of an option that is given twice the last one counts, and nil is no option.
func TestOptionsTwice(t *testing.T) {
	p := without(t)
	out := make([]int, 3)
	fill := func(x int) pool.Option {
		return pool.WithMapFallback(func(_ context.Context, _, out []int) error {
			for i := range out {
				out[i] = x
			}
			return nil
		})
	}
	wrong := pool.WithMapFallback(func(context.Context, []int, []string) error { return nil })
	f := func(*pool.Worker, []int, []int) error { return nil }
	for name, c := range map[string]struct {
		options []pool.Option
		want    string
	}{
		"the last":       {[]pool.Option{fill(1), nil, fill(2)}, "[2 2 2]"},
		"wrong, right":   {[]pool.Option{wrong, fill(3)}, "[3 3 3]"},
		"right, wrong":   {[]pool.Option{fill(4), wrong}, "the fallback is a func(context.Context, []int, []string) error, and the elements are []int and []int"},
		"two wrong ones": {[]pool.Option{wrong, wrong}, "the fallback is a func(context.Context, []int, []string) error, and the elements are []int and []int"},
		"taken away":     {[]pool.Option{fill(5), pool.WithMapFallback[int, int](nil)}, string(driver.ErrDriverLibraryUnavailable)},
	} {
		_, err := pool.Map(t.Context(), p, make([]int, 3), out, f, c.options...)
		if err != nil {
			assert.ErrorContains(t, err, c.want, name)
			continue
		}
		assert.Equal(t, c.want, fmt.Sprint(out), name)
	}
}
