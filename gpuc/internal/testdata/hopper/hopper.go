// Package hopper has kernels for sm_90a alone.
package hopper

import (
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
)

// Mistakes that Product can make.
const (
	None          = iota
	NoWait        // for a stage that is copied
	WaitShort     // for all products but the last group
	EarlyRelease  // of a stage that is still read
	NoStoreWait   // at the end
	StoreTooEarly // to a tile that is still stored
)

const (
	rows   = 64
	cols   = 64
	slots  = 2
	height = rows + cols
)

// SharedBytes is the dynamic shared memory of Product.
const SharedBytes = (slots*height+rows)*128 + 2*slots*8

// Product computes c = a * transposed b of 64 rows and columns, of a depth that is a multiple of 64, and twice c after it. Warps 0 to 3 compute,
// and warp 4 copies.
//
//purecuda:kernel block=160 checks=off
func Product(t *gpu.Thread, a, b, c gpu.Tiles[gpu.BFloat16], steps int32, mistake int) {
	tile := gpu.SharedTile[gpu.BFloat16](gpu.DynamicShared[gpu.TileRow[gpu.BFloat16]](t))
	out := tile[slots*height:]
	bars := gpu.DynamicShared[gpu.TxBarrier](t)[(slots*height+rows)*16:]
	full, empty := bars[:slots], bars[slots:2*slots]
	line := gpu.NewPipeline(t, full, empty, 4)
	lane, warp := t.Lane(), t.Warp()
	if warp == 4 {
		for step := range steps {
			if lane == 0 {
				slot, full := line.Produce(t, height*128)
				gpu.CopyTile(t, tile[slot*height:], a, step*64, 0, 0, full)
				gpu.CopyTile(t, tile[slot*height+rows:], b, step*64, 0, 0, full)
			}
		}
		return
	}
	var acc [32]float32
	before := -1
	for step := range steps {
		slot := int(step) % slots
		if mistake != NoWait || step != 3 {
			full[slot].Wait(t, uint32(step)/slots&1)
		}
		if mistake == EarlyRelease && lane == 0 {
			line.Release(t, slot)
			t.Nanosleep(1)
		}
		gpu.WGMMAFence(t)
		gpu.WGMMA[float32](t, &acc, tile[slot*height:], tile[slot*height+rows:], step > 0)
		gpu.WGMMACommit(t)
		if mistake == WaitShort || step < steps-1 {
			gpu.WGMMAWait(t, 1)
		} else {
			gpu.WGMMAWait(t, 0)
		}
		if before >= 0 && lane == 0 && mistake != EarlyRelease {
			line.Release(t, before)
		}
		before = slot
	}
	to := out[warp*16:]
	for twice := range int32(2) {
		for i := range 4 {
			gpu.StoreMatrix[gpu.BFloat16](t, to.Quad(lane&15, 2*i+lane>>4), &acc, 16*i)
		}
		gpu.FenceShared(t)
		gpu.WarpBarrier(t)
		if lane == 0 {
			gpu.StoreTile(t, c, 0, int32(warp*16), twice, to)
			if mistake != NoStoreWait && (mistake != StoreTooEarly || twice == 1) {
				gpu.StoreWait(t, 0)
			}
		}
		gpu.WarpBarrier(t)
		for i := range acc {
			acc[i] *= 2
		}
	}
}

// Rows computes c = a * b with a in registers: 64 rows of 64, and b with 64 rows of 128. c has the sums of each lane.
//
//purecuda:kernel block=128 checks=off
func Rows(t *gpu.Thread, a, b gpu.Tiles[gpu.Float16], c []float32) {
	tile := gpu.SharedTile[gpu.Float16](gpu.DynamicShared[gpu.TileRow[gpu.Float16]](t))
	bars := gpu.DynamicShared[gpu.TxBarrier](t)[192*16:]
	line := gpu.NewPipeline(t, bars[:1], bars[1:2], 1)
	if t.Rank() == 0 {
		_, full := line.Produce(t, 192*128)
		gpu.CopyTile(t, tile, a, 0, 0, 0, full)
		gpu.CopyTile(t, tile[64:], b, 0, 0, 0, full)
		gpu.CopyTile(t, tile[128:], b, 64, 0, 0, full)
		bars[0].Wait(t, 0)
	} else {
		line.Consume(t)
	}
	lane, warp := t.Lane(), t.Warp()
	var acc [64]float32
	gpu.WGMMAFence(t)
	for k := range 4 {
		f := gpu.LoadMatrixA[gpu.Float16](t, tile.Quad(warp*16+lane&15, 2*k+lane>>4))
		gpu.WGMMARows(t, &acc, f, tile[64:], 16*k, 64, true)
	}
	gpu.WGMMACommit(t)
	gpu.WGMMAWait(t, 0)
	for i := range acc {
		c[t.Rank()*64+i] = acc[i]
	}
}

// Deadlock waits for a phase that nobody ends.
//
//purecuda:kernel block=64 checks=off
func Deadlock(t *gpu.Thread, x []float32) {
	bar := gpu.Shared[gpu.TxBarrier](t)
	if t.Rank() == 0 {
		bar.Init(t, 2)
		gpu.FenceTxBarriers(t)
	}
	t.Barrier()
	if t.Rank() == 33 {
		bar.Arrive(t)
	}
	bar.Wait(t, 0)
	x[t.Rank()] = 1
}

// Integers computes c = a * transposed b of 64 rows, and a depth of steps tiles. c has the sums of each lane.
//
//purecuda:kernel block=128 checks=off T=int8,uint8
func Integers[T gpu.Element](t *gpu.Thread, a, b gpu.Tiles[T], c []int32, steps int32) {
	each[int32, [32]int32](t, a, b, c, steps)
}

// Floats is Integers for others.
//
//purecuda:kernel block=128 checks=off T=gpu.Float8E4M3,gpu.Float8E5M2,gpu.TF32,gpu.Float16
func Floats[T gpu.Element](t *gpu.Thread, a, b gpu.Tiles[T], c []float32, steps int32) {
	each[float32, [32]float32](t, a, b, c, steps)
}

func each[S gpu.Sum, A gpu.Accumulator[S], T gpu.Element](t *gpu.Thread, a, b gpu.Tiles[T], c []S, steps int32) {
	tile := gpu.SharedTile[T](gpu.DynamicShared[gpu.TileRow[T]](t))
	bars := gpu.DynamicShared[gpu.TxBarrier](t)[height*16:]
	line := gpu.NewPipeline(t, bars[:1], bars[1:2], 4)
	var acc A
	for step := range steps {
		if t.Rank() == 0 {
			_, full := line.Produce(t, height*128)
			cols := int32(128 / unsafe.Sizeof(*new(T)))
			gpu.CopyTile(t, tile, a, step*cols, 0, 0, full)
			gpu.CopyTile(t, tile[rows:], b, step*cols, 0, 0, full)
		}
		bars[0].Wait(t, uint32(step)&1)
		gpu.WGMMAFence(t)
		gpu.WGMMA[S](t, &acc, tile, tile[rows:], step > 0)
		gpu.WGMMACommit(t)
		gpu.WGMMAWait(t, 0)
		if t.Lane() == 0 {
			line.Release(t, 0)
		}
	}
	for i := range len(acc) {
		c[t.Rank()*len(acc)+i] = acc[i]
	}
}
