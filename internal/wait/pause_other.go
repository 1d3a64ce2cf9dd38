//go:build !linux

package wait

import "time"

func pause(d time.Duration) { time.Sleep(d) }
