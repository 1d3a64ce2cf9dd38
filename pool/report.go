package pool

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// Place is the kind of processor that did the work.
type Place string

const (
	// OnGPU is work on the devices of the pool.
	OnGPU Place = "gpu"
	// OnCPU is work on the cores of the machine.
	OnCPU Place = "cpu"
)

// Report tells how a call went. It is the zero value, but for Device, if nothing was tried.
type Report struct {
	// Where the work was done, or tried last. It is empty if there was none.
	Where Place
	// Reason says in a stable word why the fallback, or fewer devices than the call has, did the work, and Err is
	// the error: CUDA is absent or lost, or the error of the try on the devices. Both are empty if all devices
	// could take part. Err is nil if there is no fallback.
	Reason Reason
	Err    error
	// Wall is the time of the functions of a request, in all its tries. Of the other calls it is the time that the
	// call took.
	Wall time.Duration

	// Host is the name of the host of the last try of a request, if that is another one: see module cluster.
	// Device is the ordinal of its device, or driver.NoDevice, also for all other calls. Stream is the number of
	// its stream among those of the device, from 0. Waited is the time in the queue, and Tries is how often the
	// function was called.
	Host   string
	Device int
	Stream int
	Waited time.Duration
	Tries  int

	// Tiles are the ranges of a call with several items, in their order. Together they are all items. Adjacent
	// pieces of one device are one tile.
	Tiles []TileReport
	// Skipped are the devices that got no tile because they cannot be used, each with the reason in its
	// Err. A device is skipped if its context is lost, or could not be opened at the last try, or if it
	// is quarantined, cannot be prepared, or does not suit. A device whose context could not be opened is tried if no other is left.
	Skipped []runtime.Device
}

// TileReport is the outcome of a tile.
type TileReport struct {
	Tile
	// Host is the name of the host that did the tile, if that is another one: see module cluster.
	Host string
	// Device is the ordinal of the device, or driver.NoDevice for a core of the CPU.
	Device int
	// Bytes is the size of the items by ItemBytes, or 0 if it is not known.
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
	if t.Index < 0 {
		return "no host"
	}
	who := fmt.Sprintf("device %d", t.Device)
	if t.Device == driver.NoDevice {
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
	case t.Index != o.Index || t.Retries+o.Retries > 0 || !t.Done || !o.Done:
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
