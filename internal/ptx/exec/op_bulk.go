package exec

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/purecuda/purecuda/internal/ptx"
)

// Copies of tiles between global and shared memory (PTX ISA, "cp.async.bulk.tensor"): two and three dimensions.
// A copy arrives at once, or when somebody asks about its mbarrier, in turns; a store is done in the wait. So a kernel
// that does not wait finds what was there before.

// TensorMagic begins a tensor map of the simulated driver. There follow the address, the swizzle, the bytes of an element, and the number of
// dimensions. Then come three words each of lengths, lengths of the box, and bytes from one to the next.
const TensorMagic = 0x70636d6170

// tileCopy is a copy of a tile that has begun.
type tileCopy struct {
	barrier uint64
	f       func()
}

// tilesArrive completes the copies for an mbarrier, and reports whether there were some.
func (b *block) tilesArrive(barrier uint64) (some bool) {
	b.tiles = slices.DeleteFunc(b.tiles, func(c tileCopy) bool {
		if c.barrier != barrier {
			return false
		}
		c.f()
		some = true
		return true
	})
	return some
}

// bulk is cp.async.bulk.
func (x *fnc) bulk(in *ptx.Instruction, m *mods) error {
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(in.Mods, n) })
	}
	m.used = ^uint64(0)
	switch {
	case has("commit_group"):
		r := blank(kRun)
		r.run = func(w *warp, _ *inst, mask uint32) {
			for m := mask; m != 0; m &= m - 1 {
				w.storeGroup[firstLane(m)]++
			}
		}
		x.emit(r)
		return nil
	case has("wait_group"):
		if len(in.Operands) != 1 || in.Operands[0].Kind != ptx.OperandInt || in.Operands[0].Bits > 1<<20 {
			return x.invalid("needs a number of groups")
		}
		but := int(in.Operands[0].Bits)
		r := blank(kRun)
		r.run = func(w *warp, _ *inst, mask uint32) {
			w.stores = finish(w.stores, mask, func(lane int) int { return w.storeGroup[lane] - but })
		}
		x.emit(r)
		return nil
	case !has("tensor") || !has("2d") && !has("3d") || has("multicast::cluster") || has("im2col"):
		return x.unsupported("")
	case has("shared::cluster", "global", "mbarrier::complete_tx::bytes") && len(in.Operands) == 3:
		return x.tileCopy(in, &in.Operands[1], &in.Operands[0], &in.Operands[2])
	case has("global", "shared::cta", "bulk_group") && len(in.Operands) == 2:
		return x.tileCopy(in, &in.Operands[0], &in.Operands[1], nil)
	}
	return x.unsupported("")
}

// tileCopy copies a tile of a tensor to shared memory for a barrier, or without one from there.
func (x *fnc) tileCopy(in *ptx.Instruction, tensor, shared, barrier *ptx.Operand) error {
	rank := 2
	if slices.Contains(in.Mods, "3d") {
		rank = 3
	}
	if tensor.Kind != ptx.OperandMem || len(tensor.Elems) != 2 || len(tensor.Elems[1].Elems) != rank {
		return x.invalid("operands do not fit")
	}
	r := blank(kRun)
	r.sub = memStore
	x.addressOf(shared, spShared, &r)
	var of, bar inst
	at := *tensor
	at.Elems = at.Elems[:1]
	x.addressOf(&at, spGeneric, &of)
	r.b = of.a
	if barrier != nil {
		x.addressOf(barrier, spShared, &bar)
		r.c = bar.a
	}
	for i := range rank {
		s := x.src(&tensor.Elems[1].Elems[i], ptx.S32, false)
		r.vs = append(r.vs, s)
	}
	r.run = func(w *warp, in *inst, mask uint32) {
		for m := mask; m != 0 && w.flt == nil; m &= m - 1 {
			i := firstLane(m)
			c := w.tileAt(in, i, w.lane(in.b)[i]+of.imm, rank)
			if c == nil {
				return
			}
			c.shared = w.lane(in.a)[i] + in.imm
			for d, v := range in.vs {
				c.at[d] = int64(int32(w.lane(v)[i]))
			}
			if barrier == nil {
				w.stores = append(w.stores, later{lane: i, group: w.storeGroup[i], f: func() { c.move(w, in, i, false) }})
				continue
			}
			to := w.lane(in.c)[i] + bar.imm
			arrive := func() { // by the warp that asks, as far as a fault is concerned
				if c.move(w, in, i, true) {
					c.complete(w, in, i, to)
				}
			}
			if w.b.begun++; w.b.begun*0x9e3779b97f4a7c15>>63 == 0 {
				arrive()
				continue
			}
			w.b.tiles = append(w.b.tiles, tileCopy{to, arrive})
		}
	}
	x.emit(r)
	return nil
}

// boxed is a tile of a tensor: where the tensor is, and where the tile.
type boxed struct {
	base, swizzle, shared uint64
	size                  int64
	dims, box, step, at   [3]int64
}

// tileAt reads a tensor map.
func (w *warp) tileAt(in *inst, lane int, at uint64, rank int) *boxed {
	load := *in
	load.sub = memLoad
	p, _ := w.ptr(&load, lane, spGeneric, at, 128, 8)
	if p == nil {
		return nil
	}
	t := (*[16]uint64)(p)
	if t[0] != TensorMagic {
		w.fail(IllegalInstruction, in, lane, "this is no tensor map")
		return nil
	}
	if t[4] != uint64(rank) {
		w.fail(IllegalInstruction, in, lane, fmt.Sprintf("the tensor map has %d dimensions, and the instruction takes %d", t[4], rank))
		return nil
	}
	c := &boxed{base: t[1], swizzle: t[2], size: int64(t[3]), dims: [3]int64{2: 1}, box: [3]int64{2: 1}}
	for i := range rank {
		c.dims[i], c.box[i], c.step[i] = int64(t[5+i]), int64(t[8+i]), int64(t[11+i])
	}
	return c
}

// move copies the tile, 16 bytes at a time in shared memory. A store changes 16 bytes at a time in global memory too, as it did on an H200:
// also those behind the last column.
func (c *boxed) move(w *warp, in *inst, lane int, toShared bool) bool {
	if c.shared&127 != 0 {
		w.fail(MisalignedAddress, in, lane, "a tile lies at no multiple of 128 bytes")
		return false
	}
	load, store := *in, *in
	load.sub, store.sub = memLoad, memStore
	inShared, inGlobal, cols := &store, &load, c.dims[0]
	if !toShared {
		inShared, inGlobal, cols = &load, &store, (cols*c.size+15)/16*16/c.size
	}
	for r := range c.box[1] * c.box[2] {
		y, z := c.at[1]+r%c.box[1], c.at[2]+r/c.box[1]
		for col := int64(0); col < c.box[0]; col += 16 / c.size {
			at := c.shared + uint64((r*c.box[0]+col)*c.size)
			if c.swizzle == 3 {
				at ^= at >> 7 & 7 << 4
			}
			p, _ := w.ptr(inShared, lane, spShared, at, 16, 16)
			if p == nil {
				return false
			}
			for e := range 16 / c.size {
				x, here := c.at[0]+col+e, (*[16]byte)(p)[e*c.size:][:c.size]
				outside := x < 0 || x >= cols || y < 0 || y >= c.dims[1] || z < 0 || z >= c.dims[2]
				if outside && toShared {
					clear(here)
				}
				if outside {
					continue
				}
				g, _ := w.ptr(inGlobal, lane, spGlobal, c.base+uint64(z*c.step[2]+y*c.step[1]+x*c.size), uint64(c.size), uint64(c.size))
				if g == nil {
					return false
				}
				there := unsafe.Slice((*byte)(g), c.size)
				if toShared {
					copy(here, there)
				} else {
					copy(there, here)
				}
			}
		}
	}
	return true
}

// complete tells the barrier that the bytes are there.
func (c *boxed) complete(w *warp, in *inst, lane int, barrier uint64) {
	access := *in
	access.sub = memAtom
	if p, _ := w.ptr(&access, lane, spShared, barrier, 8, 8); p != nil {
		v := (*uint64)(p)
		*v = mbSettle(mbAddTx(*v, -uint64(c.box[0]*c.box[1]*c.box[2]*c.size)))
	}
}
