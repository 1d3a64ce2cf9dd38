// Package targets has kernels that become functions of PTX for one target and not for another one.
package targets

import "github.com/purecuda/purecuda/gpu"

func four(x, y gpu.BFloat16) gpu.BFloat16 {
	return x.Add(y).Mul(y).Add(x).Mul(y).Add(y).Mul(x).Add(x).Mul(x)
}

func sixteen(x, y gpu.BFloat16) gpu.BFloat16 { return four(four(x, y), four(y, x)) }

func many(x, y gpu.BFloat16) gpu.BFloat16 {
	return sixteen(sixteen(sixteen(x, y), sixteen(y, x)), sixteen(sixteen(x, x), sixteen(y, y)))
}

// Mix is too much code for sm_75, which has no instructions for BFloat16: there many is a function, which could report.
//
//purecuda:kernel
func Mix(t *gpu.Thread, x []gpu.BFloat16) {
	if i := t.GlobalX(); i < len(x) {
		x[i] = many(many(x[i], x[i]), many(x[i], x[i]))
	}
}

// Sum adds up the elements of columns of x on tensor cores: product of ones and x. Only devices of compute capability 9.0 run it.
//
//purecuda:kernel block=128 checks=off arch=sm_90a
func Sum(t *gpu.Thread, ones, x gpu.Tiles[gpu.Float16], out []float32) {
	tile := gpu.SharedTile[gpu.Float16](gpu.DynamicShared[gpu.TileRow[gpu.Float16]](t))
	bars := gpu.DynamicShared[gpu.TxBarrier](t)[128*16:]
	line := gpu.NewPipeline(t, bars[:1], bars[1:2], 1)
	if t.Rank() == 0 {
		_, full := line.Produce(t, 128*128)
		gpu.CopyTile(t, tile, ones, 0, 0, 0, full)
		gpu.CopyTile(t, tile[64:], x, 0, 0, 0, full)
	}
	bars[0].Wait(t, 0)
	var acc [32]float32
	gpu.WGMMAFence(t)
	gpu.WGMMA[float32](t, &acc, tile, tile[64:], false)
	gpu.WGMMACommit(t)
	gpu.WGMMAWait(t, 0)
	if t.Rank() < 4 {
		for i := range 8 {
			out[8*i+2*t.Rank()], out[8*i+2*t.Rank()+1] = acc[4*i], acc[4*i+1]
		}
	}
}

// Leaky is an activation: less of what is below 0.
type Leaky struct{ Slope float32 }

// Apply adds the bias first.
func (l Leaky) Apply(sum, bias float32) float32 {
	if sum += bias; sum < 0 {
		sum *= l.Slope
	}
	return sum
}

//purecuda:instantiate kernels.GemmWith[gpu.BFloat16, Leaky]
//purecuda:instantiate kernels.Attention[gpu.BFloat16]

//go:noinline
func twice(a float32) float32 { return a * 2 }

// Twice has a function and no check.
//
//purecuda:kernel
func Twice(t *gpu.Thread, x []float32) {
	if i := t.GlobalX(); i < len(x) {
		x[i] = twice(x[i])
	}
}
