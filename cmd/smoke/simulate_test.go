package main

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/job"
	"github.com/purecuda/purecuda/internal/seeds"
)

func TestSimulate(t *testing.T) {
	t.Setenv(policyVariable, "")
	data := make([]byte, 256<<10-100)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	path, root := writeFile(t, string(data)), rootOf(string(data), 4096)

	c := runWith(t, faulty, "--input", path, "--json", "--simulate", "2")
	require.Zero(t, c.code, c.stderr)
	assert.Zero(t, c.probes, "the GPUs of this machine are left alone")
	doc := c.document(t)
	assert.Equal(t, "available", doc["outcome"])
	devices := doc["devices"].([]any)
	require.Len(t, devices, 2)
	assert.Equal(t, "simulated H100", devices[1].(map[string]any)["name"])
	details := doc["job"].(map[string]any)
	assert.Equal(t, root, details["root"])
	assert.Equal(t, "gpu 0 (simulated H100), 1 (simulated H100)", details["ran_on"])
	assert.EqualValues(t, 2, details["workers"])
	assert.EqualValues(t, 64, details["verified"])

	c = runWith(t, absent, "--input", path, "--quiet", "--simulate", "3", "--device", "2", "--policy", "required")
	require.Zero(t, c.code, c.stderr)
	assert.Equal(t, root+"\n", c.stdout)
	c = runWith(t, absent, "--input", path, "--simulate", "2", "--device", "2")
	assert.Equal(t, exitUsage, c.code, c.stderr)
}

// Rounds are done after the batches, by a kernel of their own, and the root is that of the CPU.
func TestSimulatedRounds(t *testing.T) {
	t.Setenv(policyVariable, "")
	path := writeFile(t, strings.Repeat("0123456789abcdef", 20_000)+"end")
	for _, rounds := range []string{"1", "130"} {
		want := runWith(t, absent, "--input", path, "--quiet", "--rounds", rounds)
		require.Zero(t, want.code, want.stderr)
		for _, args := range [][]string{{"--simulate", "1"}, {"--simulate", "3"}, {"--simulate", "2", "--with-cpu"}} {
			got := runWith(t, absent, append(args, "--input", path, "--quiet", "--rounds", rounds, "--verify", "all")...)
			require.Zero(t, got.code, got.stderr)
			assert.Equal(t, want.stdout, got.stdout, "%v", args)
		}
	}
}

// rows are the shares of a document by what they are on.
func rows(t *testing.T, doc map[string]any) map[string]map[string]any {
	t.Helper()
	byName := map[string]map[string]any{}
	for _, row := range doc["job"].(map[string]any)["shares"].([]any) {
		share := row.(map[string]any)
		assert.ElementsMatch(t, []string{"on", "workers", "chunks", "bytes", "busy_seconds", "gb_per_s"}, keys(share))
		byName[share["on"].(string)] = share
	}
	return byName
}

func TestDevicesAndTheCPU(t *testing.T) {
	t.Setenv(policyVariable, "")
	data := strings.Repeat("0123456789abcdef", 80_000) // 1.2 MiB: for five workers
	path, root := writeFile(t, data), rootOf(data, 4096)
	for _, c := range []struct {
		args []string
		on   []string
	}{
		{nil, []string{"gpu 0 (simulated H100)", "gpu 1 (simulated H100)", "gpu 2 (simulated H100)"}},
		{[]string{"--devices", "0, 2"}, []string{"gpu 0 (simulated H100)", "gpu 2 (simulated H100)"}},
		{[]string{"--devices", "1", "--with-cpu"}, []string{"gpu 1 (simulated H100)", "cpu"}},
		{[]string{"--with-cpu"}, []string{"gpu 0 (simulated H100)", "gpu 1 (simulated H100)", "gpu 2 (simulated H100)", "cpu"}},
	} {
		got := runWith(t, absent, append([]string{"--input", path, "--json", "--simulate", "3"}, c.args...)...)
		require.Zero(t, got.code, got.stderr)
		doc := got.document(t)
		assert.Equal(t, root, doc["job"].(map[string]any)["root"])
		shares := rows(t, doc)
		var chunks, bytes float64
		for _, name := range c.on {
			require.Contains(t, shares, name)
			chunks, bytes = chunks+shares[name]["chunks"].(float64), bytes+shares[name]["bytes"].(float64)
			if shares[name]["bytes"].(float64) > 0 {
				assert.Positive(t, shares[name]["busy_seconds"])
			}
		}
		assert.Len(t, shares, len(c.on))
		assert.EqualValues(t, 313, chunks)
		assert.EqualValues(t, len(data), bytes)
	}
	human := runWith(t, absent, "--input", path, "--simulate", "2")
	require.Zero(t, human.code, human.stderr)
	assert.Regexp(t, `(?m)^ +gpu 1 \(simulated H100\): \d+ chunks, .*, busy \d+\.\d{3} s, \d+\.\d\d GB/s$`, human.stdout)
	alone := runWith(t, absent, "--input", path, "--with-cpu")
	require.Zero(t, alone.code, alone.stderr)
	assert.Contains(t, alone.stdout, "ran on    cpu, ")
}

// A device that vanishes under way ends the job, and the error says which one it was. The CPU
// does not quietly take over.
func TestADeviceThatVanishes(t *testing.T) {
	t.Setenv(policyVariable, "")
	path := writeFile(t, strings.Repeat("0123456789abcdef", 40_000))
	for _, at := range []int{150, 200, 250} {
		open := func(ctx context.Context, devices []string) (probe, job.Engine, error) {
			config := drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())}
			config.Devices[1].VanishAt = at
			return openSimulated(ctx, devices, config, newGPUEngine)
		}
		got := runWith(t, open, "--input", path, "--json", "--policy", "auto")
		assert.Equal(t, exitFailed, got.code)
		doc := got.document(t)
		assert.Equal(t, "available", doc["outcome"])
		assert.NotContains(t, doc["job"], "root")
		failure := doc["error"].(map[string]any)
		t.Log(at, failure["kind"], failure["detail"])
		assert.Contains(t, failure["detail"], "device 1")
	}
}

// What the simulated driver finds fails the run.
func TestSimulateTellsFindings(t *testing.T) {
	t.Setenv(policyVariable, "")
	path := writeFile(t, "data")
	for _, c := range []struct {
		name   string
		config drivertest.Config
		spoil  func(*drivertest.Driver)
		text   string
	}{
		{"a kernel that strays", drivertest.Config{Kernels: map[string]drivertest.KernelFunc{"sha256_chunks": func(k *drivertest.Launch) error {
			_, err := k.Memory(12345, 1)
			return err
		}}}, nil, "simulated driver: cuLaunchKernel: kernel sha256_chunks: "},
		{"rounds that stray", drivertest.Config{Kernels: map[string]drivertest.KernelFunc{"sha256_rounds": func(k *drivertest.Launch) error {
			_, err := k.Memory(12345, 1)
			return err
		}}}, nil, "the rounds of 1 chunks from chunk 0 of this file on"},
		{"a mistake", drivertest.Config{}, func(gpu *drivertest.Driver) { gpu.MemFree(12345) }, "freed an address that no allocation has"},
		{"a leak", drivertest.Config{}, func(gpu *drivertest.Driver) { gpu.GraphCreate(0) }, "simulated driver: leaked: graph"},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := func(ctx context.Context, devices []string) (probe, job.Engine, error) {
				found, engine, err := openSimulated(ctx, devices, c.config, newGPUEngine)
				if c.spoil != nil {
					c.spoil(engine.(*simulatedEngine).gpu)
				}
				return found, engine, err
			}
			got := runWith(t, open, "--input", path, "--json", "--rounds", "1")
			assert.Equal(t, exitFailed, got.code)
			assert.Contains(t, got.document(t)["error"].(map[string]any)["detail"], c.text)
		})
	}
}

func TestSimulateWithoutADevice(t *testing.T) {
	found, engine, err := openSimulated(context.Background(), nil, drivertest.Config{InitResult: driver.ResultNoDevice}, newGPUEngine)
	require.NoError(t, err)
	assert.Nil(t, engine)
	assert.Equal(t, outcomeAbsent, found.outcome)
}

// Devices that fail and vanish by chance: the root is right, or an error says what happened.
func TestChaos(t *testing.T) {
	t.Setenv(policyVariable, "")
	count := seeds.Count(20, 60, 60)
	data := strings.Repeat("0123456789abcdef", 6_000)
	path := writeFile(t, data)
	roots := map[string]string{"0": rootOf(data, 4096)}
	roots["2"] = strings.TrimSpace(runWith(t, absent, "--input", path, "--quiet", "--rounds", "2").stdout)
	require.Len(t, roots["2"], 64)
	done, all := 0, 0
	seeds.Each(t, count, func(t *testing.T, seed uint64) {
		all++
		config := drivertest.Config{
			Devices: drivertest.Devices(1+int(seed%3), drivertest.H100()),
			Chaos: &drivertest.Chaos{Seed: seed, Failures: 0.003 * float64(seed%2), Sticky: 0.3, SlowWork: 0.1, MaxDelay: 100 * time.Microsecond,
				Results: map[string][]driver.Result{"cuInit": {}, "cuDeviceGet": {}, "cuDeviceGetCount": {}}},
		}
		if seed%4 >= 2 {
			config.Devices[len(config.Devices)-1].VanishAt = 100 + int(seed%60*3)
		}
		open := func(ctx context.Context, devices []string) (probe, job.Engine, error) {
			return openSimulated(ctx, devices, config, newGPUEngine)
		}
		rounds := []string{"0", "2"}[seed/4%2]
		c := runWith(t, open, "--input", path, "--json", "--with-cpu", "--rounds", rounds)
		doc := c.document(t)
		if c.code == exitOK {
			done++
			require.Equal(t, roots[rounds], doc["job"].(map[string]any)["root"])
			return
		}
		require.Equal(t, exitFailed, c.code)
		require.NotEmpty(t, doc["error"].(map[string]any)["detail"])
		require.NotContains(t, c.stderr, "DigestMismatch")
		require.NotContains(t, doc["job"], "root")
	})
	t.Logf("%d of %d seeds ended with the root", done, all)
	if _, alone := seeds.One(t); !alone && all >= count {
		assert.Greater(t, done, all/10)
		assert.Less(t, done, all)
	}
}
