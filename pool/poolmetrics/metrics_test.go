package poolmetrics_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/pool/poolmetrics"
	"github.com/purecuda/purecuda/runtime"
	runtimemetrics "github.com/purecuda/purecuda/runtime/metrics"
)

// values are the samples by name and labels.
func values(samples []runtimemetrics.Sample) map[string]float64 {
	all := map[string]float64{}
	for _, s := range samples {
		all[strings.Join(append([]string{s.Name}, s.Labels...), " ")] = s.Value
	}
	return all
}

// group has children that were started often.
type group struct{}

func (group) Stats() isolate.Stats {
	return isolate.Stats{Requests: 1, Refused: 2, Retries: 3, TimedOut: 4, Died: 5, Queue: 6, QueueLimit: 7, Devices: []isolate.DeviceStats{
		{Device: 3, State: isolate.Ready, Requests: 8, Busy: 9, Starts: 10, Deaths: 11, Kills: 12}, {Device: 5, State: isolate.LeftOut},
	}}
}

func TestRead(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(1, drivertest.H100())})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	p, err := pool.Open(rt, pool.Options{Queue: 7})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	fails := errors.New("fails")
	b, err := pool.NewBatcher(p, func(_ *pool.Worker, in, _ []int, errs []error) error {
		for i, x := range in {
			if x == 2 {
				errs[i] = fails
			}
		}
		return nil
	}, pool.BatcherConfig[int, int]{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	even, err := pool.NewBreakEven(p, pool.BreakEvenConfig{Name: "work/v1", Largest: 1, Dir: "off", Run: func(context.Context, int) error { return nil }})
	require.NoError(t, err)
	reader := poolmetrics.NewReader(p)
	reader.AddBatcher("b", b)
	reader.AddBreakEven("work/v1", even)
	reader.AddGroup("g", group{})
	reader.AddGroup("none", (*isolate.Group)(nil))
	assert.NotContains(t, values(reader.Read()), "purecuda.break_even.size work/v1")
	assert.Zero(t, gpu.Calls("cuDevicePrimaryCtxRetain"), "reading opens no context")

	_, errs := b.DoAll(context.Background(), []int{1, 2, 3})
	assert.Equal(t, []error{nil, fails, nil}, errs)
	require.NoError(t, even.Learn(context.Background()))
	_, err = p.Do(context.Background(), func(*pool.Worker) error { return nil }, pool.DoOptions{Reserve: 1 << 60})
	require.ErrorIs(t, err, driver.ErrOutOfMemory)

	described := map[string]runtimemetrics.Metric{}
	for _, m := range poolmetrics.All() {
		assert.NotContains(t, described, m.Name, "described twice")
		assert.NotEmpty(t, m.Help)
		described[m.Name] = m
	}
	var inside map[string]float64
	_, err = p.Do(context.Background(), func(*pool.Worker) error {
		read := map[string]bool{}
		samples := reader.Read()
		for _, s := range samples {
			require.Contains(t, described, s.Name)
			assert.Len(t, s.Labels, len(described[s.Name].Labels), s.Name)
			read[s.Name] = true
		}
		assert.ElementsMatch(t, slices.Collect(maps.Keys(described)), slices.Collect(maps.Keys(read)), "all are read")
		inside = values(samples)
		assert.Len(t, inside, len(samples), "every sample has its own labels")
		return nil
	}, pool.DoOptions{Label: "me", Reserve: 1000})
	require.NoError(t, err)
	for name, want := range map[string]float64{
		"purecuda.pool.queue.capacity":         7,
		"purecuda.pool.fallbacks no memory":    1,
		"purecuda.pool.device.streams.busy 0":  1,
		"purecuda.pool.device.reserved 0 me":   1000,
		"purecuda.pool.device.quarantined 0":   0,
		"purecuda.batcher.items b done":        2,
		"purecuda.batcher.items b failed":      1,
		"purecuda.batcher.queue.length b":      0,
		"purecuda.batcher.batches b 1":         0,
		"purecuda.batcher.batches b 2":         0,
		"purecuda.batcher.batches b 4":         1,
		"purecuda.batcher.batches b +Inf":      1,
		"purecuda.batcher.delays b +Inf":       3,
		"purecuda.break_even.drifted work/v1":  0,
		"purecuda.isolate.requests g":          1,
		"purecuda.isolate.refused g":           2,
		"purecuda.isolate.retries g":           3,
		"purecuda.isolate.timeouts g":          4,
		"purecuda.isolate.lost_tries g":        5,
		"purecuda.isolate.queue.length g":      6,
		"purecuda.isolate.queue.capacity g":    7,
		"purecuda.isolate.requests none":       0,
		"purecuda.isolate.device.requests g 3": 8,
		"purecuda.isolate.device.busy g 3":     9,
		"purecuda.isolate.device.starts g 3":   10,
		"purecuda.isolate.device.deaths g 3":   11,
		"purecuda.isolate.device.kills g 3":    12,
		"purecuda.isolate.device.ready g 3":    1,
		"purecuda.isolate.device.left_out g 3": 0,
		"purecuda.isolate.device.ready g 5":    0,
		"purecuda.isolate.device.left_out g 5": 1,
	} {
		assert.Contains(t, inside, name)
		assert.Equal(t, want, inside[name], name)
	}
	assert.Contains(t, inside, "purecuda.break_even.size work/v1")
	assert.Contains(t, inside, "purecuda.batcher.delays b 0.001024")
}
