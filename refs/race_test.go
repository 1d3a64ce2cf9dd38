//go:build race

package refs_test

// raceEnabled says that the race detector is on, under which everything takes longer.
const raceEnabled = true
