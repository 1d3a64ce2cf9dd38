//go:build race

// Package race tells whether the race detector is on. It makes everything slower, and sync.Pool forget
// things at random, so that allocations cannot be counted.
package race

const Enabled = true
