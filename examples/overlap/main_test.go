package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// A batch of two chunks: the simulated GPU takes a millisecond for each.
const batch = 2 * chunk

func random(n int) []byte {
	data := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(data) // it never fails
	return data
}

// checkAll hashes inputs of sizes around a chunk and a batch, and compares with the CPU.
func checkAll(t *testing.T, rt *runtime.Runtime) {
	t.Helper()
	b, err := rt.Probe("test")
	require.NoError(t, err)
	for _, size := range []int{1, batch, 3*batch + 1} {
		data := random(size)
		want, err := onCPU(t.Context(), data)
		require.NoError(t, err)
		for streams := 1; streams <= 3; streams++ {
			got, took, err := onGPU(t.Context(), b, data, streams, batch)
			require.NoError(t, err)
			assert.Equal(t, want, got, "%d bytes, %d streams", size, streams)
			assert.Positive(t, took)
		}
	}
}

func open(t *testing.T, gpu *drivertest.Driver) *runtime.Runtime {
	t.Helper()
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() {
		// Closing the runtime gives back what was forgotten as well: look before.
		left := rt.Stats()
		assert.Zero(t, left.Refs+left.HostBuffers+left.Modules+left.Events, "not closed: %+v", left)
		assert.LessOrEqual(t, left.Streams, left.Contexts, "streams beside that of the backend")
		assert.NoError(t, rt.Close())
	})
	return rt
}

func TestSimulated(t *testing.T) { checkAll(t, open(t, drivertest.ForTest(t, drivertest.Config{}))) }

func TestOnHardware(t *testing.T) {
	rt, err := runtime.Open()
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close()) }()
	if err := rt.Err(); errors.Is(err, driver.ErrDriverLibraryUnavailable) {
		t.Skip(err)
	}
	checkAll(t, rt)
}

// idle is a kernel that leaves the digests as they are.
var idle = map[string]drivertest.KernelFunc{"sha256_chunks": func(*drivertest.Launch) error { return nil }}

// Every call can fail, with batches under way, and nothing is left behind then.
func TestFaults(t *testing.T) {
	data := random(4 * chunk)
	for _, op := range []string{"cuModuleLoadDataEx", "cuStreamCreateWithPriority", "cuEventCreate", "cuMemHostAlloc",
		"cuMemcpyHtoDAsync", "cuLaunchKernel", "cuMemcpyDtoHAsync", "cuEventRecord"} {
		gpu := drivertest.ForTest(t, drivertest.Config{Kernels: idle})
		b, err := open(t, gpu).Probe("test")
		require.NoError(t, err)
		before := gpu.Calls(op)
		_, _, err = onGPU(t.Context(), b, data, 3, chunk)
		require.NoError(t, err)
		calls := gpu.Calls(op) - before
		require.Positive(t, calls, op)
		if op == "cuStreamCreateWithPriority" { // the context keeps closed streams, so that one run makes fewer than another
			calls = 1
		}
		gpu = drivertest.ForTest(t, drivertest.Config{Kernels: idle})
		b, err = open(t, gpu).Probe("test")
		require.NoError(t, err)
		gpu.Fail(op, min(3, calls), driver.ResultUnknown)
		_, _, err = onGPU(t.Context(), b, data, 3, chunk)
		assert.ErrorIs(t, err, driver.ResultUnknown, op)
	}
}

func TestCanceled(t *testing.T) {
	b, err := open(t, drivertest.ForTest(t, drivertest.Config{})).Probe("test")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = onGPU(ctx, b, random(3*batch), 2, batch)
	assert.ErrorIs(t, err, context.Canceled)
}

// What the program prints, with a GPU, without one, and with a GPU that computes nonsense.
func TestRun(t *testing.T) {
	name := filepath.Join(t.TempDir(), "input")
	require.NoError(t, os.WriteFile(name, random(3*batch), 0o600))
	all := sha256.New()
	for c := range slices.Chunk(random(3*batch), chunk) {
		digest := sha256.Sum256(c)
		all.Write(digest[:])
	}
	root := hex.EncodeToString(all.Sum(nil)) + `\n`
	print := func(gpu *drivertest.Driver, name string) (string, error) {
		var out strings.Builder
		err := run(t.Context(), &out, open(t, gpu), name, 2, batch)
		return out.String(), err
	}

	out, err := print(drivertest.ForTest(t, drivertest.Config{}), name)
	require.NoError(t, err)
	assert.Regexp(t, `^`+root+`GPU, 2 streams: 24576 bytes in [0-9.]+.s, [0-9.]+ GB/s\n$`, out)

	out, err = print(drivertest.ForTest(t, drivertest.Config{InitResult: driver.ResultNoDevice}), name)
	require.NoError(t, err)
	assert.Regexp(t, `^not on a GPU: DriverLibraryUnavailable: .*CUDA_ERROR_NO_DEVICE.*\n`+root+`CPU, all cores: 24576 bytes`, out)

	_, err = print(drivertest.ForTest(t, drivertest.Config{Kernels: idle}), name)
	assert.ErrorContains(t, err, "chunk 0: the GPU says cdcdcd")

	_, err = print(drivertest.ForTest(t, drivertest.Config{}), filepath.Join(t.TempDir(), "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, err = print(drivertest.ForTest(t, drivertest.Config{}), empty)
	assert.ErrorContains(t, err, "is empty")
}

func TestFlags(t *testing.T) {
	assert.NoError(t, check(nil, 3, 1))
	assert.EqualError(t, check([]string{"file"}, 3, 1), `"file": the file is named with -input`)
	assert.EqualError(t, check(nil, 4, 1), "-streams 4: want 1, 2 or 3")
	assert.EqualError(t, check(nil, 1, 0), "-batch 0: want 1 to 256")
}
