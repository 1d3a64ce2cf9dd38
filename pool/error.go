package pool

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/zero"
)

// ErrStopped is the cause of tiles that did not run, or ended early, because another tile failed for good.
var ErrStopped = errors.New("stopped because another tile failed")

// Error is the error of a call that failed. It wraps the causes of its tiles.
type Error struct {
	// Tiles are the tiles that are not done, in order, each with its cause.
	Tiles []TileReport
	// Devices is the error of the devices, if the fallback ran after them and Tiles are of the
	// fallback.
	Devices error
}

// Error names every tile with its host and device, its range and its cause. The tiles that failed come before
// those that were stopped.
func (e *Error) Error() string {
	e = zero.Or(e)
	var b strings.Builder
	b.WriteString("pool: not done: ")
	for i, t := range causesFirst(e.Tiles) {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s, items [%d, %d)", t.who(), t.Lo, t.Hi)
		if t.Retries > 0 {
			fmt.Fprintf(&b, ", after %d retries", t.Retries)
		}
		fmt.Fprintf(&b, ": %v", t.Cause)
	}
	if e.Devices != nil {
		fmt.Fprintf(&b, " (the CPU was used because: %v)", e.Devices)
	}
	return b.String()
}

// causesFirst moves the tiles that were stopped to the end.
func causesFirst(tiles []TileReport) []TileReport {
	sorted := slices.Clone(tiles)
	stopped := func(t TileReport) int {
		if errors.Is(t.Cause, ErrStopped) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(sorted, func(a, b TileReport) int { return stopped(a) - stopped(b) })
	return sorted
}

// Unwrap returns the causes, in the order in which Error names them.
func (e *Error) Unwrap() []error {
	e = zero.Or(e)
	causes := make([]error, 0, len(e.Tiles)+1)
	for _, t := range causesFirst(e.Tiles) {
		causes = append(causes, t.Cause)
	}
	if e.Devices != nil {
		causes = append(causes, e.Devices)
	}
	return causes
}

// PanicError is a panic of a function that the pool has called, with its Value and the Stack of its
// goroutine. It wraps the value if that is an error.
type PanicError = contain.PanicError
