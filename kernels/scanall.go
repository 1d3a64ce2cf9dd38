//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"context"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// ScanAcross has the kernels of [ScanAll] and [ExclusiveScanAll]. A line makes one, to be loaded on each device:
//
//	//purecuda:instantiate kernels.ScanAcross[Point, MinMax]
//
// An element has at most 1,488 bytes.
type ScanAcross[T any, O block.Op[T]] struct{ primitive }

// Of is called by what gpuc writes.
func (ScanAcross[T, O]) Of(k *launch.Kernels, first int) ScanAcross[T, O] {
	return ScanAcross[T, O]{primitive{k, first}}
}

//purecuda:kernel block=256 checks=off
func (ScanAcross[T, O]) kernelScan(t *gpu.Thread, op O, exclusive, wide bool, out, in []T, words []uint64, values []T, carry T, sum []T) {
	tiles.Scan(t, op, exclusive, wide, out, in, words, values, carry, sum)
}

//purecuda:kernel block=256 checks=off
func (ScanAcross[T, O]) kernelClear(t *gpu.Thread, words []uint64) { tiles.Clear(t, words) }

// ScanBlock is the block of [ScanAll] for n elements of all parts: each part begins at a multiple of it. There are at most 64 blocks.
func ScanBlock(n int) int {
	block := 1 << 10
	for block < (n-1)/64+1 {
		block *= 2
	}
	return block
}

// ScanAll combines each element with all before it, where several devices have the elements, one part after another. It sets
// each to what comes of that. A part begins at a multiple of [ScanBlock], and may be empty. Two parts may be on one device, each with a
// stream of its own.
//
// Each device combines the elements of its blocks. The program combines what comes of that, in order, and each device scans its
// blocks. So the order depends on the number of elements alone, and floats give the same bits on any number of devices. It is neither the
// order of [Scan] nor that of [ScanCPU]. Some scratch memory is from the arena of each stream.
//
// ScanAll puts its work after what is on the streams, and waits until all of it is done. No stream may be captured. Wrong arguments change
// nothing. After another error, the loss of a device, or when ctx ends, some elements may be scanned and others not. Without a device
// [ScanCPU] does it.
func ScanAll[T any, O block.Op[T]](ctx context.Context, op O, parts ...Part[ScanAcross[T, O], T]) error {
	return scanAll(ctx, op, false, parts)
}

// ExclusiveScanAll leaves each element itself out, and is as [ScanAll] else.
func ExclusiveScanAll[T any, O block.Op[T]](ctx context.Context, op O, parts ...Part[ScanAcross[T, O], T]) error {
	return scanAll(ctx, op, true, parts)
}

func scanAll[T any, O block.Op[T]](ctx context.Context, op O, exclusive bool, parts []Part[ScanAcross[T, O], T]) error {
	if err := checkParts[ScanAcross[T, O], T, struct{}]("scan", ctx, parts, nil); err != nil {
		return err
	}
	if err := scanLengths[T](0, 0); err != nil {
		return err
	}
	n := 0
	for _, p := range parts {
		n += p.Data.Len()
	}
	size, begin := ScanBlock(n), 0
	for i, p := range parts {
		if begin%size != 0 && p.Data.Len() > 0 {
			return invalidArgument("scan: part %d begins at element %d of %d, which is no multiple of %d: see kernels.ScanBlock", i, begin, n, size)
		}
		begin += p.Data.Len()
	}
	sums, onDevice := make([][]T, len(parts)), make([]*runtime.Ref[T], len(parts))
	for i, p := range parts {
		blocks := ceil(p.Data.Len(), size)
		if blocks == 0 {
			continue
		}
		all, err := runtime.Alloc[T](p.Stream, blocks)
		if err != nil {
			return ofPart("scan", i, err)
		}
		defer func() { _ = all.Close() }() // what goes wrong with that changes no result
		sums[i], onDevice[i] = make([]T, blocks), all
		var none T
		for b := range blocks {
			lo, hi := blockOf(b, size, p.Data.Len())
			if err := scanBlock(p, op, exclusive, p.Data.Slice(lo, hi), &none, all.Slice(b, b+1)); err != nil {
				return ofPart("scan", i, err)
			}
		}
	}
	for i, p := range parts {
		if len(sums[i]) > 0 {
			if err := runtime.Download(ctx, p.Stream, sums[i], onDevice[i]); err != nil {
				return ofPart("scan", i, err)
			}
		}
	}
	carry := op.Zero()
	for i, p := range parts {
		for b, sum := range sums[i] {
			lo, hi := blockOf(b, size, p.Data.Len())
			if err := scanBlock(p, op, exclusive, p.Data.Slice(lo, hi), &carry, p.Data.Slice(0, 0)); err != nil {
				return ofPart("scan", i, err)
			}
			carry = op.Combine(carry, sum)
		}
	}
	return synchronizeAll("scan", ctx, parts)
}

// scanBlock scans a block after carry, or sets the element of sum to all of it.
func scanBlock[T any, O block.Op[T]](p Part[ScanAcross[T, O], T], op O, exclusive bool, x *runtime.Ref[T], carry *T, sum *runtime.Ref[T]) error {
	grid := ceil(x.Len(), tiles.Tile(sizeOf[T]()))
	c, err := newScratch("scan", p.Stream, totalsBytes[T](grid), nil)
	if err != nil {
		return err
	}
	defer c.close()
	words, values, err := cutTotals[T](c, p.Stream, p.Kernels.primitive, 1, grid)
	if err != nil {
		return err
	}
	o, on := slice(x, true)
	w, wn := slice(words, true)
	v, vn := slice(values, true)
	s, sn := slice(sum, true)
	return p.Kernels.launch(0, p.Stream, grid, tiles.TileThreads, tiles.TileShared(sizeOf[T]()), runtime.Struct(&op), launch.Bool(exclusive), launch.Bool(aligned(x)),
		o, on, o, on, w, wn, v, vn, runtime.Struct(carry), s, sn)
}
