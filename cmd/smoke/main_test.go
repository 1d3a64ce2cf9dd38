package main

import (
	"os"
	"testing"
)

// asProgram is the environment variable that makes the test binary be the program, for tests
// that need a process of it.
const asProgram = "SMOKE_TEST_AS_PROGRAM"

// noSleep is the value of GORACE with which a process of the race detector does not sleep
// for a second before it ends.
const noSleep = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "1" {
		os.Exit(run(os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}
