package pool

import (
	"cmp"
	"math"
	"math/bits"
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
	// Why the fallback did the work: that CUDA is absent or lost, the size gate, or the
	// [*Error] of the try on the devices. It is nil if there was no fallback to go to.
	Why error
	// Reason says in a stable word why the fallback did the work, or fewer devices than the call has. It
	// is empty if all could take part.
	Reason Reason
	// Skipped are the devices of the call that got no work because they cannot be used, each with
	// the reason in its Err. Their context is lost or could not be opened at the last try, or they are
	// quarantined. One whose context could not be opened is tried where no other is left.
	Skipped []runtime.Device
	// Tiles are the ranges in their order, which together are all items. What one
	// device did in several pieces is one tile where the pieces are neighbours.
	Tiles []TileReport
	// Wall is the time that the call took.
	Wall time.Duration
}

// TileReport tells what became of a tile.
type TileReport struct {
	Tile
	// Ordinal is that of the device, or driver.NoDevice for a core of the CPU.
	Ordinal int
	// Bytes are those of the items, as Map or WithItemBytes know them, or 0.
	Bytes uint64
	// Upload, Compute and Download are the times between the marks of [Worker.Phase] on
	// the goroutine of the device.
	Upload, Compute, Download time.Duration
	// Done is false if the tile failed or was not run.
	Done bool
	// Retries counts how often it failed before and went to another device.
	Retries int
	// Cause is the error of a tile that is not done, and for one that is done the last
	// error before.
	Cause error
}

// Time is what the tile took in all.
func (t TileReport) Time() time.Duration { return t.Upload + t.Compute + t.Download }

// newTile begins the report of a tile.
func (p *plan) newTile(device, lo, hi int) TileReport {
	t := TileReport{Tile: Tile{Device: device, Lo: lo, Hi: hi}, Ordinal: driver.NoDevice}
	if p.ordinal != nil {
		t.Ordinal = p.ordinal(device)
	}
	high, bytes := bits.Mul64(uint64(t.Len()), uint64(p.itemBytes))
	if t.Bytes = bytes; high > 0 {
		t.Bytes = math.MaxUint64
	}
	return t
}

// join makes t and a tile next to it one, if one report can stand for both.
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

// inOrder sorts tiles by their place.
func inOrder(tiles []TileReport) []TileReport {
	slices.SortFunc(tiles, func(a, b TileReport) int { return cmp.Compare(a.Lo, b.Lo) })
	return tiles
}
