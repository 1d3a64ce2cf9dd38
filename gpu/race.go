//go:build race

package gpu

import "runtime"

// raceBuild reports whether the race detector is there. Then each thread is a goroutine.
const raceBuild = true

// hide hides from the detector what orders goroutines, until show.
func hide() { runtime.RaceDisable() }
func show() { runtime.RaceEnable() }
