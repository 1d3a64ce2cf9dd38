//go:build race

package pool_test

// raceEnabled says that the race detector is on, which makes everything slower.
const raceEnabled = true
