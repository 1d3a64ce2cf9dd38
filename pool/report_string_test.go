package pool_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

func TestReportsInALine(t *testing.T) {
	two := errors.Join(errors.New("one"), errors.New("two"))
	tile := func(ordinal, lo, hi int, done bool) pool.TileReport {
		return pool.TileReport{Tile: pool.Tile{Lo: lo, Hi: hi}, Device: ordinal, Done: done}
	}
	var none pool.Report
	for want, report := range map[string]fmt.Stringer{
		"nothing was done":                   none,
		"nothing was done (fault: one; two)": pool.Report{Reason: pool.Fault, Err: two},
		"10 of 12 items on the gpu in 1ms, 7 on device 0, 3 on host a, device 1 (failed), without device 2: one; two": pool.Report{
			Where: pool.OnGPU, Wall: time.Millisecond, Reason: pool.Failed,
			Tiles: []pool.TileReport{tile(0, 0, 5, true), {Tile: pool.Tile{Lo: 5, Hi: 8}, Host: "a", Device: 1, Done: true},
				tile(0, 8, 10, true), tile(1, 10, 12, false)},
			Skipped: []runtime.Device{{Ordinal: 2, Err: two}}},
		"3 of 3 items on the cpu in 2s (absent: one; two)": pool.Report{Where: pool.OnCPU, Wall: 2 * time.Second, Reason: pool.Absent, Err: two,
			Tiles: []pool.TileReport{tile(driver.NoDevice, 0, 1, true), tile(driver.NoDevice, 1, 3, true)}},
		"nothing was done, waited 1s (no memory)": pool.Report{Waited: time.Second, Reason: pool.NoMemory},
		"on device 1, stream 3, in 1ms":           pool.Report{Where: pool.OnGPU, Device: 1, Stream: 3, Wall: time.Millisecond, Tries: 1},
		"on host a, device 1, stream 0, in 1s, 2 tries, waited 1ms": pool.Report{Where: pool.OnGPU, Host: "a", Device: 1, Wall: time.Second,
			Tries: 2, Waited: time.Millisecond},
		"on the cpu in 1ms (failed: one; two)": pool.Report{Where: pool.OnCPU, Wall: time.Millisecond, Tries: 1, Reason: pool.Failed, Err: two},
	} {
		assert.Equal(t, want, fmt.Sprintf("%v", report))
	}
}

// A report of a call prints no address.
func TestReportPrintsNoAddress(t *testing.T) {
	p := without(t)
	report, err := p.Scatter(t.Context(), 10, newDone(10).do, pool.ScatterOptions{Fallback: func(context.Context, int, int) error { return nil }})
	require.NoError(t, err)
	assert.Regexp(t, `^10 of 10 items on the cpu in \S+ \(absent: DriverLibraryUnavailable: .*\)$`, fmt.Sprint(report))
	assert.NotContains(t, fmt.Sprint(report), "0x")
}
