//go:build race

package runtime_test

// raceEnabled says that the race detector is on. It makes sync.Pool forget things at
// random, so that allocations cannot be counted.
const raceEnabled = true
