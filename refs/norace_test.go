//go:build !race

package refs_test

const raceEnabled = false
