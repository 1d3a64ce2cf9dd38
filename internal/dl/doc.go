// Package dl opens shared libraries while the program runs and keeps the reason
// of every attempt, so that "not installed" and "installed but broken" are never
// mixed up.
//
// A library that was opened stays open for the life of the process: the CUDA
// driver starts threads of its own and cannot be unloaded safely.
//
// Everything here is safe for concurrent use.
package dl
