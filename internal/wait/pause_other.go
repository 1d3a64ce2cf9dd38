//go:build !linux

package wait

import "time"

// sleeper sleeps.
type sleeper struct{}

func (*sleeper) pause(d time.Duration) { time.Sleep(d) }

func (*sleeper) close() {}
