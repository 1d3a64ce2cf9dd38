package main

import (
	"cmp"
	"slices"

	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// cores are the place of one computation on the CPU.
type cores struct {
	tensors map[string]tensor
	turns   []float32
	err     error
}

// forwardCPU computes the layer on all cores.
func forwardCPU(tensors map[string]tensor, x tensor) (numbers, error) {
	p := &cores{tensors: tensors, turns: turns(x.rows, heads.Width/2)}
	y := layer(p, tensor{rows: x.rows, cols: x.cols, half: slices.Clone(x.half)})
	return y.half, p.err
}

// try keeps the first error.
func (p *cores) try(err error) { p.err = cmp.Or(p.err, err) }

func newTensor(rows, cols int) tensor {
	return tensor{rows: rows, cols: cols, half: make(numbers, rows*cols)}
}

func (p *cores) weight(name string) tensor { return p.tensors[name] }

func (p *cores) product(a, b tensor) tensor {
	c := newTensor(a.rows, b.rows)
	p.try(kernels.GemmCPU(a.rows, b.rows, a.cols, a.half, b.half, c.half))
	return c
}

func (p *cores) norm(x, add tensor, weight string) tensor {
	out := newTensor(x.rows, x.cols)
	p.try(kernels.RMSNormCPU(x.rows, x.cols, out.half, x.half, add.half, p.weight(weight).half, epsilon))
	return out
}

func (p *cores) rotate(x tensor) tensor {
	p.try(RotateCPU(runtime.Shape1D(len(x.half)/2, 256), x.half, p.turns, x.cols, heads.Width/2))
	return x
}

func (p *cores) attend(q, k, h tensor) tensor {
	v, out := p.product(h, p.weight("self_attn.v_proj.weight")), newTensor(q.rows, q.cols)
	p.try(kernels.AttentionCPU(q.rows, k.rows, q.half, k.half, v.half, out.half, heads))
	return out
}

func (p *cores) gate(a, b tensor) tensor {
	p.try(GateCPU(runtime.Shape1D(len(a.half), 256), a.half, b.half))
	return a
}

func (p *cores) add(a, b tensor) tensor {
	p.try(AddCPU(runtime.Shape1D(len(a.half), 256), a.half, b.half))
	return a
}
