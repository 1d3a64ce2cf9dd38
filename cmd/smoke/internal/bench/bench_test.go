package bench

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/runtime"
)

func TestEmptyKernelsAreThoseOfTheTests(t *testing.T) {
	assert.Equal(t, string(hardware.EmptyKernels), string(emptyKernels))
}

// simulatedMachine is a machine with n simulated devices whose contexts are open. What is left
// over at the end of the test is a failure.
func simulatedMachine(t *testing.T, n int) *Machine {
	t.Helper()
	gpu := drivertest.New(drivertest.Config{Devices: drivertest.Devices(n, drivertest.H100())})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, rt.Close())
		require.NoError(t, gpu.Close())
		assert.Empty(t, gpu.Findings())
		assert.Empty(t, gpu.Leaks())
	})
	m := &Machine{Runtime: rt, Simulated: true, Cores: 3}
	for _, d := range rt.Devices() {
		c, err := rt.Context(d.Ordinal)
		require.NoError(t, err)
		m.Devices = append(m.Devices, c.Device())
	}
	return m
}

func names(cases []Case) (names []string) {
	for _, c := range cases {
		names = append(names, c.Name)
	}
	return names
}

func TestList(t *testing.T) {
	sizes := Sizes{Largest: 20 << 10}
	assert.Equal(t, []string{
		"SHA256/cores=1", "SHA256/cores=2", "SHA256/cores=3",
		"Job/on=cpu/cores=1/size=20KiB", "Job/on=cpu/cores=2/size=20KiB", "Job/on=cpu/cores=3/size=20KiB",
	}, names(List(&Machine{Cores: 3}, sizes)))

	for devices := 1; devices <= 3; devices++ {
		all := List(simulatedMachine(t, devices), sizes)
		list := names(all)
		assert.Subset(t, list, []string{
			"Call/fn=cuDriverGetVersion", "Call/fn=cuStreamQuery", "Launch/args=0", "Launch/args=4", "LaunchSync/args=0",
			"AllocFree/size=1MiB/goroutines=1", "AllocFree/size=1MiB/goroutines=3",
			"Copy/dir=upload/host=slice/size=1KiB", "Copy/dir=upload/host=pinned/size=16KiB",
			"Copy/dir=download/host=slice/size=4KiB", "Copy/dir=download/host=pinned/size=4KiB", "Copy/dir=device/size=16KiB",
			"Graph/do=launches/nodes=10", "Graph/do=replay/nodes=10", "Scaling/devices=1",
			"Wait/kernel=0s/goroutines=1", "Wait/kernel=50µs/goroutines=64", "Wait/kernel=2ms/goroutines=10000",
			"Service/size=4KiB/goroutines=1", "Service/size=1MiB/goroutines=64",
			"BreakEven/do=sha256", "Job/on=gpu/devices=1/size=20KiB", "Job/on=cpu/cores=3/size=20KiB",
		})
		peers := Select(all, regexp.MustCompile("^PeerCopy/"))
		scaling := names(Select(all, regexp.MustCompile("^Scaling/")))
		assert.Len(t, peers, map[int]int{1: 0, 2: 6, 3: 6}[devices])
		assert.Equal(t, []string{"Scaling/devices=1", "Scaling/devices=2", "Scaling/devices=3"}[:devices], scaling)
	}
}

// Every case runs and leaves nothing behind, also alone.
func TestEachCaseAlone(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m := simulatedMachine(t, 2)
	for _, c := range List(m, Sizes{Largest: 4 << 10}) {
		if strings.HasPrefix(c.Name, "Job/on=gpu") {
			continue // the engine is the program's
		}
		var got []Result
		require.NoError(t, Run(context.Background(), []Case{c}, Options{Time: time.Microsecond, Count: 2}, func(r Result) { got = append(got, r) }), c.Name)
		require.Len(t, got, 1)
		require.Len(t, got[0].Rounds, 2)
		for _, round := range got[0].Rounds {
			assert.Positive(t, round.N)
			for _, unit := range c.Units() {
				if unit != BreakEven { // which may be none
					assert.Positive(t, c.Value(round, unit), "%s in %s", c.Name, unit)
				}
			}
		}
		assert.Equal(t, c.Family() == "BreakEven", got[0].Table != "", c.Name)
	}
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, left, "the input of the job is removed")
}

func TestValues(t *testing.T) {
	c := Case{Name: "Copy/dir=upload/size=1MiB", Bytes: 1 << 20, Hashes: 100}
	assert.Equal(t, "Copy", c.Family())
	assert.Equal(t, []string{PerOp, Rate, Hashing}, c.Units())
	round := Round{N: 4, Time: 4 * time.Millisecond}
	assert.InDelta(t, 1e6, c.Value(round, PerOp), 1e-9)
	assert.InDelta(t, 1048.576, c.Value(round, Rate), 1e-9)
	assert.InDelta(t, 1e5, c.Value(round, Hashing), 1e-6)
	assert.Positive(t, c.Value(Round{N: 1}, Rate), "a clock that stands still")
	c.requests = new(requests)
	assert.Equal(t, []string{PerOp, Rate, Hashing, P50, P99, Slowest, CoresUsed, Threads}, c.Units())
	c.requests.begin()
	for i := range 200 {
		c.requests.took = append(c.requests.took, time.Duration(200-i))
	}
	round.load = c.requests.end()
	assert.InDelta(t, 100, c.Value(round, P50), 0)
	assert.InDelta(t, 198, c.Value(round, P99), 0)
	assert.InDelta(t, 200, c.Value(round, Slowest), 0)
	assert.InDelta(t, 1e6, c.Value(round, PerOp), 1e-9)
	r := Result{Case: c, Rounds: []Round{{N: 1, Time: 30}, {N: 1, Time: 10}, {N: 1, Time: 20}}}
	assert.InDelta(t, 20, r.Median(PerOp), 1e-9)
	r.Rounds = append(r.Rounds, Round{N: 1, Time: 1000})
	assert.InDelta(t, 25, r.Median(PerOp), 1e-9)
}

func TestSizes(t *testing.T) {
	s := Sizes{Largest: 1 << 30}
	assert.Len(t, s.copies(), 11)
	assert.Zero(t, s.Cut())
	s.Device = 100 << 20
	assert.EqualValues(t, 25<<20, s.Cut())
	assert.Equal(t, 16<<20, s.copies()[len(s.copies())-1])
	s.Host = 1
	assert.Equal(t, []int{smallestCopy}, s.copies())
	for n, name := range map[int64]string{1 << 10: "1KiB", 20 << 10: "20KiB", 3 << 20: "3MiB", 1 << 30: "1GiB", 1025: "1025B"} {
		assert.Equal(t, name, SizeName(n))
	}
}

// clock is a case whose operations take the given time.
func clock(each time.Duration) Case {
	return Case{Name: "Clock", suite: &suite{open: func(context.Context, *closers) error { return nil }},
		op: func(_ context.Context, n int) (time.Duration, error) {
			time.Sleep(time.Duration(n) * each)
			return time.Duration(n) * each, nil
		}}
}

// A round takes its time, whether operations are short or long.
func TestRoundsTakeTheirTime(t *testing.T) {
	for _, each := range []time.Duration{10 * time.Microsecond, 30 * time.Millisecond} {
		start := time.Now()
		require.NoError(t, Run(context.Background(), []Case{clock(each)}, Options{Time: 20 * time.Millisecond, Count: 2}, func(r Result) {
			for _, round := range r.Rounds {
				assert.EqualValues(t, each, r.Value(round, PerOp))
			}
		}))
		assert.GreaterOrEqual(t, time.Since(start), 45*time.Millisecond)
	}
}

func TestRunEndsWithTheContext(t *testing.T) {
	cause := errors.New("enough")
	ctx, stop := context.WithCancelCause(context.Background())
	time.AfterFunc(30*time.Millisecond, func() { stop(cause) })
	start := time.Now()
	closed := false
	c := clock(time.Microsecond)
	c.suite.open = func(_ context.Context, cl *closers) error {
		cl.later(func() error { closed = true; return nil })
		return nil
	}
	err := Run(ctx, []Case{c}, Options{Time: time.Hour, Count: 1}, func(Result) { t.Error("done") })
	require.ErrorIs(t, err, cause)
	assert.Less(t, time.Since(start), time.Minute)
	assert.True(t, closed)
}

func TestRunFails(t *testing.T) {
	broken := errors.New("broken")
	run := func(change func(*Case)) (done int, err error) {
		good, bad := clock(time.Microsecond), clock(time.Microsecond)
		bad.Name = "Bad"
		change(&bad)
		err = Run(context.Background(), []Case{good, bad}, Options{Time: time.Microsecond, Count: 1}, func(Result) { done++ })
		require.ErrorIs(t, err, broken)
		return done, err
	}
	done, err := run(func(c *Case) { c.op = func(context.Context, int) (time.Duration, error) { return 0, broken } })
	assert.Equal(t, 1, done)
	require.ErrorContains(t, err, "Bad: broken")
	done, err = run(func(c *Case) { c.suite.open = func(context.Context, *closers) error { return broken } })
	assert.Equal(t, 1, done)
	require.ErrorContains(t, err, "preparing Bad: broken")
	done, _ = run(func(c *Case) {
		c.suite.open = func(_ context.Context, cl *closers) error {
			cl.later(func() error { return broken })
			return nil
		}
	})
	assert.Equal(t, 2, done)
}

// The program that the job reads from cannot be written where there is no room.
func TestJobWithoutAFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/gone")
	jobs := Select(List(&Machine{Cores: 1}, Sizes{Largest: 1 << 10}), regexp.MustCompile("^Job/"))
	err := Run(context.Background(), jobs, Options{Time: 1, Count: 1}, func(Result) { t.Error("done") })
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "the input of the job")
}
