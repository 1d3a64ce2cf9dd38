package pool

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// Where says what kind of processor did the work.
type Where string

const (
	// OnGPU is work on the devices of the pool.
	OnGPU Where = "gpu"
	// OnCPU is work on the cores of the machine.
	OnCPU Where = "cpu"
)

// Report tells how a call went.
type Report struct {
	// Where the work was done, or tried last. It is empty if there was none.
	Where Where
	// Why is the error for which the fallback did the work: CUDA is absent or lost, the size gate, or
	// the [*Error] of the try on the devices. It is nil if there is no fallback.
	Why error
	// Reason says in a stable word why the fallback, or fewer devices than the call has, did the work.
	// It is empty if all devices could take part.
	Reason Reason
	// Skipped are the devices that got no work because they cannot be used, each with the reason in its
	// Err. A device is skipped if its context is lost, or could not be opened at the last try, or if it
	// is quarantined, or cannot be prepared. A device whose context could not be opened is tried if no other is left.
	Skipped []runtime.Device
	// Tiles are the ranges in their order. Together they are all items. Adjacent pieces of one device
	// are one tile.
	Tiles []TileReport
	// Wall is the time that the call took.
	Wall time.Duration
}

// TileReport is the outcome of a tile.
type TileReport struct {
	Tile
	// Host is the name of the host that did the tile, if that is another one: see module cluster.
	Host string
	// Ordinal is that of the device, or driver.NoDevice for a core of the CPU.
	Ordinal int
	// Bytes is the size of the items by Map or WithItemBytes, or 0 if it is not known.
	Bytes uint64
	// Upload, Compute and Download are the times between the marks of [Worker.Phase] on
	// the goroutine of the device.
	Upload, Compute, Download time.Duration
	// Done is false if the tile failed or was not run.
	Done bool
	// Retries counts how often the tile failed and went to another device.
	Retries int
	// Cause is the error of a tile that is not done. For a tile that is done it is the last error of the
	// tries before.
	Cause error
}

// Time is what the tile took in all.
func (t TileReport) Time() time.Duration { return t.Upload + t.Compute + t.Download }

// who names the host and the processor of the tile.
func (t TileReport) who() string {
	who := fmt.Sprintf("device %d", t.Ordinal)
	if t.Ordinal == driver.NoDevice {
		who = "CPU"
	}
	if t.Host != "" {
		who = "host " + t.Host + ", " + who
	}
	return who
}

// join adds an adjacent tile to t, if one report can stand for both.
func (t *TileReport) join(o TileReport) bool {
	switch {
	case t.Device != o.Device || t.Retries+o.Retries > 0 || !t.Done || !o.Done:
		return false
	case t.Hi == o.Lo:
		t.Hi = o.Hi
	case o.Hi == t.Lo:
		t.Lo = o.Lo
	default:
		return false
	}
	t.Bytes += o.Bytes
	t.Upload += o.Upload
	t.Compute += o.Compute
	t.Download += o.Download
	return true
}

// inOrder sorts tiles by their ranges.
func inOrder(tiles []TileReport) []TileReport {
	slices.SortFunc(tiles, func(a, b TileReport) int { return cmp.Compare(a.Lo, b.Lo) })
	return tiles
}
