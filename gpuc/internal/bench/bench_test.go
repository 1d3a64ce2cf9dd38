// Package bench_test times kernels in Go beside the same kernels in CUDA C, which clang has compiled (scripts/build-ptx).
package bench_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
)

// variant is a way to compile the kernels.
type variant struct {
	name string
	d    *device.Device
}

// extraVariable names a folder with more modules to time, such as those of a compiler without one of its passes. Each
// is a NAME.json of device.Module.
const extraVariable = "PURECUDA_BENCH_MODULES"

// variants loads all modules on one stream. The first is that of clang, and so is the last: what lies between the two
// is noise.
func variants(t *testing.T) []variant {
	ptx, err := os.ReadFile("testdata/kernels.ptx")
	require.NoError(t, err)
	clang := device.Module{PTX: string(ptx), Reports: map[string]bool{}}
	for _, k := range kernels {
		clang.Reports[k.name] = false
	}
	d := device.Open(t, clang)
	list := []variant{{"clang", d}}
	load := func() *compile.Program {
		p, err := compile.Load(compile.Config{Dir: "../testkernels", Pattern: "."})
		require.NoError(t, err)
		return p
	}
	for _, checks := range []compile.Checks{compile.ChecksOff, compile.ChecksTrap, compile.ChecksReport} {
		m := device.Compile(t, load, "testkernels", compile.Options{Arch: 90, Checks: checks})
		list = append(list, variant{string(checks), d.Beside(t, m)})
	}
	if dir := os.Getenv(extraVariable); dir != "" {
		files, err := filepath.Glob(filepath.Join(dir, "*.json"))
		require.NoError(t, err)
		for _, f := range files {
			var m device.Module
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &m))
			list = append(list, variant{strings.TrimSuffix(filepath.Base(f), ".json"), d.Beside(t, m)})
		}
	}
	return append(list, variant{"clang again", d.Beside(t, clang)})
}

// TestSame compares every variant with the function on the CPU, bit for bit.
func TestSame(t *testing.T) {
	for _, v := range variants(t) {
		for _, k := range kernels {
			shape, args := k.make(1)
			for _, difference := range v.d.Compare(k.name, shape, k.cpu, args...) {
				t.Errorf("%s, %s: %s", v.name, k.name, difference)
			}
		}
	}
}

// rounds is how often each variant is timed, and each time for at least as long as least.
const (
	rounds = 31
	least  = time.Millisecond
)

// TestTimesOnHardware prints how long each variant takes, in turns, as a multiple of what clang's code takes. The
// results of all have to be the same bits.
func TestTimesOnHardware(t *testing.T) {
	hardware.Open(t)
	if os.Getenv(hardware.RequireVariable) == "" {
		t.Skip(hardware.RequireVariable + " is not set, so that the kernels run on the simulated driver")
	}
	list := variants(t)
	fmt.Printf("%-12s %12s", "kernel", "clang")
	for _, v := range list[1:] {
		fmt.Printf(" %14s", v.name)
	}
	fmt.Println()
	logs := make([]float64, len(list))
	for _, k := range kernels {
		medians := times(t, k, list)
		fmt.Printf("%-12s %9.1f us", k.name, float64(medians[0])/1e3)
		for i, m := range medians {
			ratio := float64(m) / float64(medians[0])
			logs[i] += math.Log(ratio) / float64(len(kernels))
			if i > 0 {
				fmt.Printf(" %14.3f", ratio)
			}
		}
		fmt.Println()
	}
	fmt.Printf("%-25s", "geometric mean")
	for _, l := range logs[1:] {
		fmt.Printf(" %14.3f", math.Exp(l))
	}
	fmt.Println()
}

// times returns the median of each variant.
func times(t *testing.T, k kernel, list []variant) (medians []time.Duration) {
	shape, args := k.make(k.large)
	d := list[0].d
	a, err := d.Upload(args...)
	require.NoError(t, err)
	defer a.Close()
	for _, i := range k.outs {
		host := device.Bytes(args[i])
		before, want := bytes.Clone(host), []byte(nil)
		for _, v := range list {
			copy(host, before)
			require.NoError(t, d.Write(a, i))
			require.NoError(t, v.d.Launch(k.name, shape, a))
			require.NoError(t, d.Read(a, i))
			if want == nil {
				want = bytes.Clone(host)
			}
			assert.True(t, bytes.Equal(want, host), "%s, %s: argument %d is not what clang's code gives", v.name, k.name, i)
		}
	}
	took, err := d.Time(1, k.name, shape, a)
	require.NoError(t, err)
	n := int(least/max(1, took)) + 1
	all := make([][]time.Duration, len(list))
	for round := range rounds {
		for i := range list {
			i := (i + round) % len(list)
			took, err := list[i].d.Time(n, k.name, shape, a)
			require.NoError(t, err)
			all[i] = append(all[i], took)
		}
	}
	for _, one := range all {
		slices.Sort(one)
		medians = append(medians, one[len(one)/2])
	}
	report, err := d.Report(a)
	require.NoError(t, err)
	require.Zero(t, report[0], "%s: a check failed", k.name)
	return medians
}
