package random

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
)

// variable is a number of the environment.
func variable(t *testing.T, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// TestRandomKernels compiles kernels that are written by chance with Go and with gpuc, and compares what they compute.
//
//	PURECUDA_SEEDS=10000 PURECUDA_FIRST_SEED=500000 go test ./internal/random
func TestRandomKernels(t *testing.T) {
	first, count := variable(t, "PURECUDA_FIRST_SEED", 0), variable(t, "PURECUDA_SEEDS", 200)
	const batch = 200
	for begin := first; begin < first+count; begin += batch {
		compare(t, uint64(begin), min(batch, first+count-begin))
		if t.Failed() {
			return
		}
	}
}

// perModule is how many kernels are in one module: all of it is read for each of them.
const perModule = 10

// compare compares some kernels.
func compare(t *testing.T, first uint64, count int) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	dir := t.TempDir()
	mod := "module random\n\ngo 1.26.0\n\nrequire github.com/purecuda/purecuda v0.0.0\n\nreplace github.com/purecuda/purecuda => " + root + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(Program(first, count)), 0o666))

	cmd := exec.CommandContext(t.Context(), "go", "run", "-gcflags=-N", ".") // without Go's optimisations it builds faster
	cmd.Dir = dir
	want, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("%s", exit.Stderr)
	}
	require.NoError(t, err)

	p, err := compile.Load(compile.Config{Dir: dir, Pattern: "."})
	require.NoError(t, err)
	in, f := make([]int64, Inputs), make([]float64, Inputs)
	for i := range in {
		in[i] = int64(i*i*0x9e3779b97f4a7c) >> (i % 64)
		f[i] = float64(i-20) / 7
	}
	const length = 128 * Results
	require.Len(t, want, count*length*8)
	for _, o := range []compile.Options{{Arch: 75, Checks: compile.ChecksReport}, {Arch: 90, Checks: compile.ChecksOff, Plain: true}} {
		var d *device.Device
		for i := range count {
			name := fmt.Sprint("K", i)
			if i%perModule == 0 {
				var names []string
				for j := i; j < i+perModule; j++ {
					names = append(names, fmt.Sprint("K", j))
				}
				m, err := p.Compile(o, names...)
				require.NoError(t, err)
				d = device.Open(t, device.Of(m))
			}
			out, expected := make([]uint64, length), make([]uint64, length)
			report, err := d.Run(name, gpu.Linear(128, 64), out, in, f, 11)
			require.NoError(t, err)
			require.Zero(t, report[0], "seed %d: a check failed: %v", first+uint64(i), report)
			require.NoError(t, binary.Read(bytes.NewReader(want[i*length*8:]), binary.LittleEndian, expected))
			for j := range out {
				if !same(j%Results, out[j], expected[j]) {
					t.Errorf("seed %d, sm_%d plain=%v: out[%d] of thread %d is %#x, Go has %#x\n%s", first+uint64(i), o.Arch, o.Plain,
						j%Results, j/Results, out[j], expected[j], Kernel(first+uint64(i), name))
					return
				}
			}
		}
	}
}

// same compares results; all NaN are the same.
func same(i int, a, b uint64) bool {
	nan := func(v uint64) bool {
		if i == 2 {
			return math.IsNaN(math.Float64frombits(v))
		}
		return i == 3 && math.IsNaN(float64(math.Float32frombits(uint32(v))))
	}
	return a == b || nan(a) && nan(b)
}
