// Package bench_test times kernels in Go beside the same kernels in CUDA C, which clang compiles here (scripts/build-ptx).
package bench_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
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

// set is a package of kernels in Go, and the same in CUDA C.
type set struct {
	program string // the package, and the name of the file in CUDA C in testdata
	kernels []kernel
}

// sets are the kernels of docs/go-kernels.md, which gpuc was built with, and those of well-known suites.
var sets = []set{{"kernels", kernels}, {"suites", suites}}

// variant is a way to compile the kernels.
type variant struct {
	name string
	d    *device.Device
	m    device.Module
}

// has reports whether the kernel is in the module, which one of an old commit need not have.
func (v variant) has(kernel string) bool {
	_, ok := v.m.Reports[kernel]
	return ok
}

// extraVariable names a folder with more modules to time, such as those of a compiler without one of its passes. Each
// is a NAME.json or NAME.SET.json of device.Module.
const extraVariable = "PURECUDA_BENCH_MODULES"

// figuresVariable names a file for all times, as tools/guard reads them. A module "old NAME" is NAME of the old commit.
const figuresVariable = "PURECUDA_BENCH_FIGURES"

// figure is that of tools/guard: the time of a launch, in nanoseconds, once for each round.
type figure struct {
	Name string    `json:"name"`
	Unit string    `json:"unit"`
	Old  []float64 `json:"old,omitempty"`
	New  []float64 `json:"new"`
	C    []float64 `json:"c,omitempty"`
}

// clangModules is where PTX of clang lies for a GPU host, beside the modules of gpuc.
const clangModules = "testdata/modules"

// byClang compiles a set with clang. It is false, after a test that is skipped, where there is no clang 19.
func (s set) byClang(t *testing.T) (m device.Module, ok bool) {
	folder := clangModules
	if !device.Hardware() {
		if folder = t.TempDir(); device.Writing() {
			folder = clangModules
			require.NoError(t, os.MkdirAll(folder, 0o777))
		}
		if out, err := exec.Command("../../../scripts/build-ptx", folder).CombinedOutput(); err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.ExitCode() != 2 {
				require.NoError(t, err, "%s", out)
			}
			t.Run("clang "+s.program, func(t *testing.T) { t.Skipf("%v: %s", err, out) })
			return m, false
		}
	}
	ptx, err := os.ReadFile(filepath.Join(folder, s.program+".ptx"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Run("clang "+s.program, func(t *testing.T) { t.Skip("no clang where the bundle was built: ", err) })
		return m, false
	}
	require.NoError(t, err)
	m = device.Module{PTX: string(ptx), Reports: map[string]bool{}}
	for _, k := range s.kernels {
		m.Reports[k.name] = false
	}
	return m, true
}

// variants loads all modules of a set on one stream. The first is that of clang, where there is one, and so is the last: what
// lies between the two is noise. Without clang the first is gpuc's without checks.
func variants(t *testing.T, s set) (list []variant) {
	add := func(name string, m device.Module) {
		v := variant{name: name, m: m}
		if len(list) == 0 {
			v.d = device.Open(t, m)
		} else {
			v.d = list[0].d.Beside(t, m)
		}
		list = append(list, v)
	}
	clang, ok := s.byClang(t)
	if ok {
		add("clang", clang)
	}
	load := func() *compile.Program {
		p, err := compile.Load(compile.Config{Dir: "../testdata/" + s.program, Pattern: "."})
		require.NoError(t, err)
		return p
	}
	for _, checks := range []compile.Checks{compile.ChecksOff, compile.ChecksTrap, compile.ChecksReport} {
		add(string(checks), device.Compile(t, load, "test"+s.program, compile.Options{Arch: 90, Checks: checks}))
	}
	if dir := os.Getenv(extraVariable); dir != "" {
		files, err := filepath.Glob(filepath.Join(dir, "*.json"))
		require.NoError(t, err)
		for _, f := range files {
			var m device.Module
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &m))
			name, _, _ := strings.Cut(filepath.Base(f), ".")
			if v := (variant{m: m}); slices.ContainsFunc(s.kernels, func(k kernel) bool { return v.has(k.name) }) {
				add(name, m)
			}
		}
	}
	if ok {
		add("clang again", clang)
	}
	return list
}

// TestSame compares every variant with the function on the CPU, bit for bit.
func TestSame(t *testing.T) {
	for _, s := range sets {
		for _, v := range variants(t, s) {
			for _, k := range s.kernels {
				shape, args := k.make(1)
				for _, difference := range v.d.Compare(k.name, shape, k.cpu, args...) {
					t.Errorf("%s, %s: %s", v.name, k.name, difference)
				}
			}
		}
	}
}

// rounds is how often each variant is timed, and each time for at least as long as least.
const (
	rounds = 31
	least  = time.Millisecond
)

// TestTimesOnHardware prints how long each variant takes, in turns, as a multiple of what the first takes. The
// results of all have to be the same bits.
func TestTimesOnHardware(t *testing.T) {
	hardware.Open(t)
	if os.Getenv(hardware.RequireVariable) == "" {
		t.Skip(hardware.RequireVariable + " is not set, so that the kernels run on the simulated driver")
	}
	var figures []figure
	for _, s := range sets {
		figures = append(figures, timeSet(t, s)...)
	}
	if path := os.Getenv(figuresVariable); path != "" {
		text, err := json.Marshal(map[string]any{"figures": figures})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o666))
	}
}

// timeSet times the kernels of a set, and prints a line for each.
func timeSet(t *testing.T, s set) (figures []figure) {
	list := variants(t, s)
	fmt.Printf("\n%-12s %12s", s.program, list[0].name)
	for _, v := range list[1:] {
		fmt.Printf(" %14s", v.name)
	}
	fmt.Println()
	logs, counts := make([]float64, len(list)), make([]float64, len(list))
	for _, k := range s.kernels {
		all := times(t, k, list)
		fmt.Printf("%-12s %9.1f us", k.name, median(all[0])/1e3)
		for i, turns := range all {
			if turns == nil {
				fmt.Printf(" %14s", "-")
				continue
			}
			ratio := median(turns) / median(all[0])
			logs[i] += math.Log(ratio)
			counts[i]++
			if i > 0 {
				fmt.Printf(" %14.3f", ratio)
			}
			f := figure{Name: fmt.Sprintf("gpuc/kernel=%s/checks=%s", k.name, list[i].name), Unit: "ns/op", New: turns}
			if list[0].name == "clang" {
				f.C = all[0]
			}
			for j, v := range list {
				if v.name == "old "+list[i].name {
					f.Old = all[j]
				}
			}
			if !strings.HasPrefix(list[i].name, "clang") && !strings.HasPrefix(list[i].name, "old ") {
				figures = append(figures, f)
			}
		}
		fmt.Println()
	}
	fmt.Printf("%-25s", "geometric mean")
	for i := range logs[1:] {
		fmt.Printf(" %14.3f", math.Exp(logs[i+1]/counts[i+1]))
	}
	fmt.Println()
	return figures
}

func median(turns []float64) float64 {
	sorted := slices.Sorted(slices.Values(turns))
	return sorted[len(sorted)/2]
}

// times returns the time of each round of each variant; none for a variant without the kernel.
func times(t *testing.T, k kernel, list []variant) (all [][]float64) {
	shape, args := k.make(k.large)
	d := list[0].d
	a, err := d.Upload(args...)
	require.NoError(t, err)
	defer a.Close()
	for _, i := range k.outs {
		host := device.Bytes(args[i])
		before, want := bytes.Clone(host), []byte(nil)
		for _, v := range list {
			if !v.has(k.name) {
				continue
			}
			copy(host, before)
			require.NoError(t, d.Write(a, i))
			require.NoError(t, v.d.Launch(k.name, shape, a))
			require.NoError(t, d.Read(a, i))
			if want == nil {
				want = bytes.Clone(host)
			}
			assert.True(t, bytes.Equal(want, host), "%s, %s: argument %d is not what %s gives", v.name, k.name, i, list[0].name)
		}
	}
	took, err := d.Time(1, k.name, shape, a)
	require.NoError(t, err)
	n := int(least/max(1, took)) + 1
	all = make([][]float64, len(list))
	for round := range rounds {
		for i := range list {
			i := (i + round) % len(list)
			if !list[i].has(k.name) {
				continue
			}
			took, err := list[i].d.Time(n, k.name, shape, a)
			require.NoError(t, err)
			all[i] = append(all[i], float64(took))
		}
	}
	report, err := d.Report(a)
	require.NoError(t, err)
	require.Zero(t, report[0], "%s: a check failed", k.name)
	return all
}
