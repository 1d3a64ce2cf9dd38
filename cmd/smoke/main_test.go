package main

import (
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// asProgram is the environment variable that makes the test binary be the program, for tests
// that need a process of it.
const asProgram = "SMOKE_TEST_AS_PROGRAM"

// noSleep is the value of GORACE with which a process of the race detector does not sleep
// for a second before it ends.
const noSleep = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	isolate.Main(openTestChild, sha256Chunks)
	if os.Getenv(asProgram) == "1" {
		os.Exit(run(os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// faultsVariable names a folder: a child that can remove a file of it meets an illegal address at a launch.
const faultsVariable = "PURECUDA_SMOKE_TEST_FAULTS"

// openTestChild is openChild with faults.
func openTestChild() (*runtime.Runtime, error) {
	folder := os.Getenv(faultsVariable)
	if folder == "" {
		return openChild()
	}
	n, _ := strconv.Atoi(os.Getenv(simulateVariable))
	faults, _ := filepath.Glob(folder + "/*")
	var launches atomic.Int32
	return runtime.Open(runtime.WithDriver(drivertest.New(drivertest.Config{Devices: simulatedDevices(n), OnCall: func(op string) driver.Result {
		if op == "cuLaunchKernel" && launches.Add(1) == 3 {
			for _, fault := range faults {
				if os.Remove(fault) == nil {
					return driver.ResultIllegalAddress
				}
			}
		}
		return driver.Success
	}})))
}
