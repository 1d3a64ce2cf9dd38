// Package allocs counts the allocations of a function in tests, so that what else runs in the process has no part in it.
package allocs

import (
	"fmt"
	"testing"

	"github.com/purecuda/purecuda/internal/race"
)

// attempts is how often AtMost counts before it believes that a function allocates.
const attempts = 20

// AtMost fails the test if f allocates more than most times in a call, on average over so many runs. Other goroutines, and a
// garbage collector that empties a sync.Pool, can only add to a count: the smallest of several is right.
//
// With the race detector it calls f and counts nothing, because a sync.Pool then drops some of what it gets. A test with
// t.Parallel cannot use it.
func AtMost(t testing.TB, most float64, runs int, f func(), what ...any) {
	t.Helper()
	if race.Enabled {
		f()
		t.Log("allocations are not counted with the race detector")
		return
	}
	if n := Least(runs, most, f); n > most {
		t.Errorf("%v allocations in a call, and at most %v are right. %s", n, most, fmt.Sprint(what...))
	}
}

// Least returns the smallest of several counts of the allocations of f. It stops at the first that is at most enough.
func Least(runs int, enough float64, f func()) float64 {
	least := testing.AllocsPerRun(runs, f)
	for n := 1; n < attempts && least > enough; n++ {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}
