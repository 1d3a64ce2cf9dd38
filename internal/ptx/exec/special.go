package exec

import (
	"math/bits"
	"time"

	"github.com/purecuda/purecuda/internal/ptx"
)

// runSpecial reads a special register. inst.sub is its number, inst.esz its dimension.
func runSpecial(w *warp, in *inst, mask uint32) {
	d := w.reg(in.d)
	id, dim := ptx.Special(in.sub), in.esz
	if id == ptx.Tid && dim < 3 {
		x, y := w.b.l.Block[0], w.b.l.Block[1]
		t := uint32(w.id * 32)
		switch {
		case y == 1 && w.b.l.Block[2] == 1: // one dimension: no division
			for m := mask; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m) & 31
				d[i] = 0
				if dim == 0 {
					d[i] = uint64(t) + uint64(i)
				}
			}
		default:
			for m := mask; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m) & 31
				n := t + uint32(i)
				d[i] = uint64([3]uint32{n % x, n / x % y, n / x / y}[dim])
			}
		}
		return
	}
	switch id {
	case ptx.LaneID, ptx.LanemaskEq, ptx.LanemaskLe, ptx.LanemaskLt, ptx.LanemaskGe, ptx.LanemaskGt:
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			d[i] = laneSpecial(id, uint(i))
		}
	default:
		w.broadcast(in.d, w.uniformSpecial(id, dim)&in.mask, mask)
	}
}

func laneSpecial(id ptx.Special, i uint) uint64 {
	eq := uint32(1) << i
	switch id {
	case ptx.LanemaskEq:
		return uint64(eq)
	case ptx.LanemaskLe:
		return uint64(eq | (eq - 1))
	case ptx.LanemaskLt:
		return uint64(eq - 1)
	case ptx.LanemaskGe:
		return uint64(^(eq - 1))
	case ptx.LanemaskGt:
		return uint64(^(eq | (eq - 1)))
	}
	return uint64(i)
}

// uniformSpecial returns what is the same for a warp. Clusters have one block, since
// larger ones are refused when a kernel is compiled.
func (w *warp) uniformSpecial(id ptx.Special, dim uint8) uint64 {
	b, l := w.b, w.b.l
	at := func(v [3]uint32, beyond uint64) uint64 {
		if dim < 3 {
			return uint64(v[dim])
		}
		return beyond
	}
	switch id {
	case ptx.NTid:
		return at(l.Block, 1)
	case ptx.CtaID, ptx.ClusterID:
		return at(b.ctaid, 0)
	case ptx.NCtaID, ptx.NClusterID:
		return at(l.Grid, 1)
	case ptx.ClusterNCtaID, ptx.ClusterNCtaRank:
		return 1
	case ptx.WarpID:
		return uint64(w.id)
	case ptx.NWarpID:
		return uint64(len(b.warps))
	case ptx.SmID:
		return uint64(b.worker % l.SMCount)
	case ptx.NSmID:
		return uint64(l.SMCount)
	case ptx.GridID:
		return l.GridID
	case ptx.Clock, ptx.Clock64:
		return w.clock
	case ptx.ClockHi:
		return w.clock >> 32
	case ptx.GlobalTimer, ptx.GlobalTimerLo:
		return uint64(time.Now().UnixNano())
	case ptx.GlobalTimerHi:
		return uint64(time.Now().UnixNano()) >> 32
	case ptx.DynamicSmemSize:
		return uint64(l.SharedBytes)
	case ptx.TotalSmemSize, ptx.AggrSmemSize:
		return l.sharedBytes
	case ptx.EnvReg:
		return b.environment(dim)
	}
	return 0
}
