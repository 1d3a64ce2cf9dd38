package main

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cmd/smoke/internal/job"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
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
		{"a mistake", drivertest.Config{}, func(gpu *drivertest.Driver) { gpu.MemFree(12345) }, "freed an address that no allocation has"},
		{"a leak", drivertest.Config{}, func(gpu *drivertest.Driver) { gpu.GraphCreate(0) }, "simulated driver: leaked: graph"},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := func(ctx context.Context, ordinal int) (probe, job.Engine, error) {
				found, engine, err := openSimulated(ctx, ordinal, c.config)
				if c.spoil != nil {
					c.spoil(engine.(*simulatedEngine).gpu)
				}
				return found, engine, err
			}
			got := runWith(t, open, "--input", path, "--json")
			assert.Equal(t, exitFailed, got.code)
			assert.Contains(t, got.document(t)["error"].(map[string]any)["detail"], c.text)
		})
	}
}

func TestSimulateWithoutADevice(t *testing.T) {
	found, engine, err := openSimulated(context.Background(), anyDevice, drivertest.Config{InitResult: driver.ErrorNoDevice})
	require.NoError(t, err)
	assert.Nil(t, engine)
	assert.Equal(t, outcomeAbsent, found.outcome)
}
