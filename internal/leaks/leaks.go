// Package leaks runs the tests of a package, and fails where they leave goroutines behind.
package leaks

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/purecuda/purecuda/internal/race"
)

// Main is for TestMain. It ends the process. allowed is how many goroutines of others may stay. Those of the tests have a minute to end;
// the stacks of all are printed then.
func Main(m *testing.M, allowed int) {
	if _, chosen := os.LookupEnv("GORACE"); race.Enabled && !chosen {
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // or each process that a test starts sleeps for a second before it ends
	}
	allowed += runtime.NumGoroutine()
	code := m.Run()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		allowed++ // package testing leaves one, which waits for signals
	}
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > allowed; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "goroutines left behind: %d, and %d may stay\n%s\n", runtime.NumGoroutine(), allowed, stacks[:runtime.Stack(stacks, true)])
			code = max(code, 1)
			break
		}
	}
	os.Exit(code)
}
