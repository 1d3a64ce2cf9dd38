//go:build !race || !(amd64 || arm64)

package locks

import "sync"

// Mutex is a sync.Mutex with a place in the order.
type Mutex[L any] struct{ sync.Mutex }

// Block says that the goroutine is about to call the driver, or to wait.
func Block() {}
