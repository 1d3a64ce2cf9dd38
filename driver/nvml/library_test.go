//go:build linux && (amd64 || arm64)

package nvml

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/testc"
)

// build builds testdata/fakenvml.c.
func build(t *testing.T, flags ...string) (file string) {
	t.Helper()
	return testc.Build(t, "testdata/fakenvml.c", flags...)
}

func fake(t *testing.T, flags ...string) *Library {
	t.Helper()
	l, err := Open(build(t, flags...))
	require.NoError(t, err)
	return l
}

// Every argument of C arrives, and every field comes from its place in C's structures.
func TestValuesArrive(t *testing.T) {
	l := fake(t)
	version, r := l.driverVersion()
	assert.Equal(t, "580.1 (96)", version)
	assert.Equal(t, Success, r)
	n, r := l.deviceCount()
	assert.Equal(t, 2, n)
	assert.Equal(t, Success, r)
	d, r := l.deviceByIndex(1)
	assert.Equal(t, Device(0x101), d)
	assert.Equal(t, Success, r)
	found, err := l.Find("00010203-0405-0607-0809-0a0b0c0d0e0f")
	require.NoError(t, err)
	assert.Equal(t, Device(0x700), found, "of a MIG instance")
	assert.Equal(t, Status{
		UUID:        "GPU-101",
		Name:        strings.Repeat("x", maxText),
		PCIBusID:    "00000000:3B:00.0",
		Parent:      "GPU-10",
		Memory:      &Memory{Total: 100, Reserved: 10, Free: 60, Used: 30},
		Utilization: &Utilization{GPU: 97, Memory: 41},
		Clocks:      &Clocks{SM: 1001, Memory: 1002, MaxSM: 2001, MaxMemory: 2002, Reasons: ReasonSWPowerCap | ReasonHWThermalSlowdown},
		Temperature: &Temperature{Now: 50, Slowdown: 91},
		Power:       &Power{Now: 350123, Limit: 700000},
		ECC:         &ECC{On: true, Corrected: 1 << 40, EverCorrected: 1<<40 + 1, Uncorrected: 1<<40 + 10, EverUncorrected: 1<<40 + 11},
		Rows:        &RemappedRows{Corrected: 1, Uncorrected: 2, Pending: true},
		Processes:   hundred(),
		PCIe:        &Link{Now: PCIe{4, 8}, Max: PCIe{5, 16}},
		NVLinks:     []NVLink{{1, "link 1"}, {3, "link 3"}},
		MIG:         &MIG{Pending: true, Instances: []string{"GPU-1010", "GPU-1011"}},
	}, l.Read(d))
	set, r := l.createEventSet()
	assert.Equal(t, eventSet(0x5e7), set)
	assert.Equal(t, Success, r)
	assert.Equal(t, Success, l.registerEvents(d, EventXid, set))
	event, r := l.waitEvent(set, 8)
	assert.Equal(t, Success, r)
	assert.Equal(t, Event{Device: 0x101, Type: EventXid, Xid: 79}, event)
	_, r = l.waitEvent(set, 7)
	assert.Equal(t, ResultTimeout, r)
	assert.Equal(t, Success, l.freeEventSet(set))
	assert.Equal(t, ResultInvalidArgument, l.freeEventSet(1))
	assert.Equal(t, []string{"nvmlDeviceGetMemoryInfo (11.0)"}, l.Missing())
	require.NoError(t, errors.Join(l.Close(), l.Close()))
	_, r = l.deviceCount()
	assert.Equal(t, ResultUninitialized, r)
}

// hundred are the processes of testdata/fakenvml.c.
func hundred() *[]Process {
	all := make([]Process, 100)
	for i := range all {
		all[i] = Process{PID: uint32(1000 + i), Memory: uint64(i) << 20}
	}
	return &all
}

// What cannot be true is no value.
func TestImpossibleValues(t *testing.T) {
	for define, call := range map[string]func(l *Library) Result{
		"COUNT=2000":      func(l *Library) Result { _, r := l.deviceCount(); return r },
		"COUNT=-1":        func(l *Library) Result { _, r := l.deviceCount(); return r },
		"RETURNS=-5":      func(l *Library) Result { _, r := l.deviceCount(); return r },
		"HANDLE(n)=0":     func(l *Library) Result { _, r := l.deviceByIndex(0); return r },
		"PERCENT=101":     func(l *Library) Result { _, r := l.utilization(1); return r },
		"FREE=101":        func(l *Library) Result { _, r := l.memory(1); return r },
		"PROCESSES=70000": func(l *Library) Result { _, r := l.processes(1); return r },
	} {
		t.Run(define, func(t *testing.T) {
			r := call(fake(t, "-D"+define))
			if define == "PROCESSES=70000" {
				assert.Equal(t, ResultInsufficientSize, r, "more than any machine has")
				return
			}
			assert.Equal(t, ResultImpossibleValue, r)
		})
	}
	l := fake(t)
	for _, wrong := range []int{-1, math.MaxInt32 + 1} {
		_, r := l.deviceByIndex(wrong)
		assert.Equal(t, ResultInvalidArgument, r)
		_, r = l.nvLink(1, wrong)
		assert.Equal(t, ResultInvalidArgument, r)
		_, r = l.waitEvent(1, wrong)
		assert.Equal(t, ResultInvalidArgument, r)
	}
	_, r := l.deviceByUUID("a\x00b")
	assert.Equal(t, ResultInvalidArgument, r)
}

func TestWhyItDoesNotOpen(t *testing.T) {
	for init, kind := range map[string]driver.Kind{
		"9": driver.ErrLibraryUnavailable, "18": driver.ErrLibraryUnavailable, "999": driver.ErrDriverCallFailed,
	} {
		_, err := Open(build(t, "-DINIT="+init))
		require.ErrorIs(t, err, kind, init)
		assert.ErrorContains(t, err, "nvmlInit_v2: NVML_ERROR_", init)
	}
	_, err := Open(filepath.Join(t.TempDir(), "nothing.so"))
	require.ErrorIs(t, err, driver.ErrLibraryUnavailable)
	assert.ErrorContains(t, err, "no NVML to read the health of devices with: install it (it comes with NVIDIA's driver")
	_, err = Open("libc.so.6")
	require.ErrorIs(t, err, driver.ErrDriverLibraryLoadFailed)
	assert.ErrorContains(t, err, "lacks nvmlInit_v2, nvmlShutdown, ")
	assert.ErrorContains(t, err, "not NVML, or one older than CUDA 11.0")

	t.Setenv(PathVariable, "/x/nvml")
	assert.Equal(t, []string{"/x/nvml"}, Candidates())
}

// An NVML that lacks a function says which driver brings it.
func TestMissingFunctions(t *testing.T) {
	file := build(t)
	var l Library
	lib, err := Open(file)
	require.NoError(t, err)
	l.version, l.fn = "460.32", lib.fn
	l.fn[fnDeviceGetComputeRunningProcesses_v3], l.fn[fnDeviceGetPowerUsage] = 0, 0
	s := l.Read(1)
	assert.Nil(t, s.Processes)
	assert.Nil(t, s.Power)
	require.Len(t, s.Unknown, 2)
	assert.EqualError(t, s.Unknown[0], "DriverSymbolMissing: nvmlDeviceGetPowerUsage needs a driver of CUDA 11.0, found driver 460.32: symbol missing (-1): this NVML does not have the function")
	assert.ErrorContains(t, s.Unknown[1], "nvmlDeviceGetComputeRunningProcesses_v3 needs a driver of CUDA 11.2, found driver 460.32")
	assert.ErrorIs(t, s.Unknown[1], driver.ErrSymbolMissing)
}

func TestMethodsOfAnEmptyLibrary(t *testing.T) {
	for _, l := range []*Library{nil, {}} {
		_, r := l.deviceCount()
		assert.Equal(t, ResultSymbolMissing, r)
		assert.NoError(t, l.Close())
		assert.Empty(t, l.Path())
		assert.Empty(t, l.Attempts())
		assert.Len(t, l.Missing(), int(functionCount))
		assert.NotEmpty(t, l.Read(1).Unknown)
	}
}

// TestHeader compares with NVIDIA's header, where a compiler and the header are.
func TestHeader(t *testing.T) { testc.CheckHeader(t, "nvml.h", "testdata/abi_check.c") }
