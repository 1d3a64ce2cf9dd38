package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// onDevices opens the layer of the file on simulated devices, or the CPU without one.
func onDevices(t *testing.T, options ...runtime.Option) (*Layer, *runtime.Runtime) {
	t.Helper()
	rt, err := runtime.Open(append(options, runtime.WithLogger(slog.New(slog.DiscardHandler)))...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	l, err := Open(rt, file)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l, rt
}

// compare computes the input of the file by several goroutines, and compares with PyTorch.
func compare(t *testing.T, where pool.Place, options ...runtime.Option) {
	t.Helper()
	l, _ := onDevices(t, options...)
	before := slices.Clone(l.tensors["input"].half)
	results := make([]numbers, 2)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			out, report, err := l.Forward(t.Context(), l.tensors["input"])
			assert.NoError(t, err)
			assert.Equal(t, where, report.Where, report.Err)
			results[i] = out
		})
	}
	wg.Wait()
	require.Len(t, results[0], len(before))
	assert.Equal(t, results[0], results[1])
	assert.Equal(t, before, l.tensors["input"].half)
	away, torch := deviation(l.tensors, results[0]), deviation(l.tensors, l.tensors["output.bfloat16"].half)
	t.Logf("at most %.4f from PyTorch in float64, and PyTorch in bfloat16 is %.4f from it", away, torch)
	assert.LessOrEqual(t, away, 2*torch)
}

func simulated(t *testing.T, devices ...drivertest.DeviceConfig) []runtime.Option {
	return []runtime.Option{runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{Devices: devices})), runtime.WithPolicy(runtime.PolicyAuto)}
}

func TestOnASimulatedDevice(t *testing.T) {
	for name, config := range map[string]drivertest.DeviceConfig{"9.0": drivertest.H100(), "8.0": drivertest.A100()} {
		t.Run(name, func(t *testing.T) { compare(t, pool.OnGPU, simulated(t, config)...) })
	}
}

func TestOnTheCPU(t *testing.T) { compare(t, pool.OnCPU, runtime.WithPolicy(runtime.PolicyOff)) }

// A device without these tensor cores leaves the work to the CPU.
func TestOnAnOldDevice(t *testing.T) { compare(t, pool.OnCPU, simulated(t, drivertest.T4())...) }

func TestOnHardware(t *testing.T) {
	if _, err := runtime.Probe("test"); errors.Is(err, driver.ErrDriverLibraryUnavailable) {
		t.Skip(err)
	}
	compare(t, pool.OnGPU)
}

// A sequence of any length has in each row what a longer one has there, because no row sees those after it.
func TestAnyLength(t *testing.T) {
	for name, options := range map[string][]runtime.Option{"gpu": simulated(t), "cpu": {runtime.WithPolicy(runtime.PolicyOff)}} {
		l, _ := onDevices(t, options...)
		x := l.tensors["input"]
		want, bound := l.tensors["output"].float, deviation(l.tensors, l.tensors["output.bfloat16"].half)
		for _, rows := range []int{1, 8, 17} {
			out, _, err := l.Forward(t.Context(), tensor{rows: rows, cols: x.cols, half: x.half[:rows*x.cols]})
			require.NoError(t, err)
			require.Len(t, out, rows*x.cols)
			for i, v := range out {
				require.InDelta(t, want[i], v.Float32(), float64(2*bound), "%s: row %d of %d", name, i/x.cols, rows)
			}
		}
	}
}

// Every call can fail: the CPU does the work then, and nothing is left behind but the weights.
func TestFaults(t *testing.T) {
	for _, op := range []string{"cuModuleLoadDataEx", "cuMemAllocFromPoolAsync", "cuMemcpyHtoDAsync", "cuLaunchKernel", "cuMemcpyDtoHAsync"} {
		simulation := drivertest.ForTest(t, drivertest.Config{})
		l, rt := onDevices(t, runtime.WithDriver(simulation), runtime.WithPolicy(runtime.PolicyAuto))
		simulation.Fail(op, 1, driver.ResultUnknown)
		out, report, err := l.Forward(t.Context(), l.tensors["input"])
		require.NoError(t, err, op)
		assert.ErrorIs(t, report.Err, driver.ResultUnknown, op)
		assert.LessOrEqual(t, deviation(l.tensors, out), 2*deviation(l.tensors, l.tensors["output.bfloat16"].half), op)
		require.NoError(t, l.Close())
		assert.Zero(t, rt.Stats().Refs, op)
	}
}

func TestWrongTensors(t *testing.T) {
	for message, change := range map[string]func(map[string]tensor){
		"mlp.up_proj.weight is 0 x 0, want 96 x 112":           func(w map[string]tensor) { delete(w, "mlp.up_proj.weight") },
		"mlp.up_proj.weight is 256 x 112, want 96 x 112":       func(w map[string]tensor) { w["mlp.up_proj.weight"] = w["self_attn.q_proj.weight"] },
		"self_attn.v_proj.weight is 256 x 112, want 128 x 112": func(w map[string]tensor) { w["self_attn.v_proj.weight"] = w["self_attn.q_proj.weight"] },
		"is 0 x 0, want":                   func(w map[string]tensor) { clear(w) },
		"mlp.down_proj.weight is 45 x 112": func(w map[string]tensor) { w["mlp.down_proj.weight"] = w["output"] },
	} {
		tensors, err := readTensors(file)
		require.NoError(t, err)
		change(tensors)
		assert.ErrorContains(t, check(tensors), message)
	}
	_, err := Open(nil, nil)
	assert.ErrorContains(t, err, "longer than the 0 bytes")
	_, err = Open(nil, safetensors("{}"))
	assert.ErrorContains(t, err, ".weight is 0 x 0")
	l, _ := onDevices(t, runtime.WithPolicy(runtime.PolicyOff))
	for _, x := range []tensor{{}, {rows: 1, cols: 111, half: make(numbers, 111)}, {rows: 2, cols: 112, half: make(numbers, 112)}, {rows: -1, cols: 112}} {
		_, _, err := l.Forward(t.Context(), x)
		assert.ErrorContains(t, err, "want rows of 112")
	}
}

// safetensors makes a file.
func safetensors(header string, data ...byte) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

func TestReadTensors(t *testing.T) {
	tensors, err := readTensors(safetensors(`{"__metadata__":{"a":"b"},"x":{"dtype":"BF16","shape":[3],"data_offsets":[4,10]},"y":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}} `,
		0, 0, 0xc0, 0xbf, 0x80, 0x3f, 0, 0x40, 0x40, 0x40))
	require.NoError(t, err)
	assert.Equal(t, []string{"x", "y"}, slices.Sorted(maps.Keys(tensors)))
	assert.Equal(t, tensor{rows: 1, cols: 3, half: numbers{gpu.ToBFloat16(1), gpu.ToBFloat16(2), gpu.ToBFloat16(3)}}, tensors["x"])
	assert.Equal(t, tensor{rows: 1, cols: 1, float: []float32{-1.5}}, tensors["y"])
	for name, file := range map[string][]byte{
		"longer than the 0":    {},
		"longer than the 9":    {2, 0, 0, 0, 0, 0, 0, 0, '{'},
		"longer than the 10":   {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'},
		"the header: ":         safetensors(`{"x"`),
		"x is I64":             safetensors(`{"x":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}`, 0, 0, 0, 0, 0, 0, 0, 0),
		"of shape []":          safetensors(`{"x":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 0, 0, 0, 0),
		"of shape [1 1 1]":     safetensors(`{"x":{"dtype":"F32","shape":[1,1,1],"data_offsets":[0,4]}}`, 0, 0, 0, 0),
		"[0 4] of 3":           safetensors(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 0, 0, 0),
		"[4 0] of 4":           safetensors(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, 0, 0, 0, 0),
		"shape [2] has":        safetensors(`{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 0, 0, 0, 0),
		"[4294967296 4294967":  safetensors(`{"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`),
		"shape [-1 -1] has":    safetensors(`{"x":{"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]}}`, 0, 0, 0, 0),
		"cannot unmarshal num": safetensors(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 0, 0, 0, 0),
	} {
		_, err := readTensors(file)
		assert.ErrorContains(t, err, name)
	}
}

// FuzzReadTensors looks for a panic, and for a tensor whose elements are not those of its shape.
func FuzzReadTensors(f *testing.F) {
	f.Add(safetensors(`{"x":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]}}`, 1, 2, 3, 4))
	f.Fuzz(func(t *testing.T, file []byte) {
		tensors, err := readTensors(bytes.Clone(file))
		for name, x := range tensors {
			require.NoError(t, err)
			require.Equal(t, x.rows*x.cols, len(x.half)+len(x.float), name)
		}
	})
}
