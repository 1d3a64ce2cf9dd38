package main

import (
	"context"
	"io"
	"math"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// matrix is one on a device.
type matrix = kernels.Matrix[gpu.BFloat16]

// device is what a device keeps: kernels and weights.
type device struct {
	scope   runtime.Scope
	own     *Kernels
	gemm    kernels.Gemm[gpu.BFloat16]
	rms     kernels.RMSNorm[gpu.BFloat16]
	softmax kernels.Softmax[gpu.BFloat16]
	weights map[string]matrix
}

// newDevice loads the kernels, and uploads the weights.
func newDevice(c *runtime.Context, tensors map[string]tensor) (*device, error) {
	d := &device{weights: map[string]matrix{}}
	d.own = runtime.Keep(Load(c))(&d.scope)
	d.gemm = runtime.Keep(kernels.Load[kernels.Gemm[gpu.BFloat16]](c))(&d.scope)
	d.rms = runtime.Keep(LoadRMSNormBFloat16(c))(&d.scope)
	d.softmax = runtime.Keep(LoadSoftmaxBFloat16(c))(&d.scope)
	s := runtime.Keep(c.NewStream())(&d.scope)
	for name, w := range tensors {
		if w.half == nil {
			continue // what PyTorch has computed
		}
		ref := runtime.Keep(runtime.UploadNew(context.Background(), s, w.half))(&d.scope)
		d.weights[name] = matrix{Ref: ref, Rows: w.rows, Cols: w.cols, Pitch: w.cols}
	}
	if err := d.scope.Err(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Close frees all of it.
func (d *device) Close() error { return d.scope.Close() }

// forward computes the layer on the stream of a worker. The memory between the steps goes back at the end.
func (d *device) forward(w *pool.Worker, x tensor) (numbers, error) {
	p := &pass{d: d, s: w.Stream()}
	defer p.scope.Close()
	p.turns = runtime.Keep(runtime.UploadNew(w.CallContext(), p.s, turns(x.rows, heads.Width/2)))(&p.scope)
	ref := runtime.Keep(runtime.UploadNew(w.CallContext(), p.s, x.half))(&p.scope)
	y := layer(p, matrix{Ref: ref, Rows: x.rows, Cols: x.cols, Pitch: x.cols})
	out := make(numbers, x.rows*x.cols)
	p.try(runtime.Download(w.CallContext(), p.s, out, y.Ref))
	return out, p.scope.Err()
}

// pass is the place of one computation. Its scope has the first error.
type pass struct {
	d     *device
	s     *runtime.Stream
	scope runtime.Scope
	turns *runtime.Ref[float32]
}

// try keeps an error. The steps after it fail as well, because their memory was not made, or compute what nobody takes.
func (p *pass) try(err error) { runtime.Keep[io.Closer](nil, err)(&p.scope) }

// matrix allocates one. Its rows begin at multiples of 16 bytes.
func (p *pass) matrix(rows, cols int) matrix {
	pitch := (cols + 7) &^ 7
	ref := runtime.Keep(runtime.Alloc[gpu.BFloat16](p.s, rows*pitch))(&p.scope)
	return matrix{Ref: ref, Rows: rows, Cols: cols, Pitch: pitch}
}

func (p *pass) weight(name string) matrix { return p.d.weights[name] }

func (p *pass) product(a, b matrix) matrix {
	c := p.matrix(a.Rows, b.Rows)
	p.try(p.d.gemm.Launch(p.s, a, b, c))
	return c
}

func (p *pass) norm(x, add matrix, weight string) matrix {
	out := p.matrix(x.Rows, x.Cols)
	p.try(p.d.rms.Launch(p.s, out, x, add, p.weight(weight).Ref, epsilon))
	return out
}

func (p *pass) rotate(x matrix) matrix {
	p.try(p.d.own.Rotate(p.s, runtime.Shape1D(x.Ref.Len()/2, 256), x.Ref, p.turns, x.Cols, heads.Width/2))
	return x
}

// attend has three steps for each head, which devices from compute capability 8.0 on can do. A head is some columns of a matrix. Gemm takes its
// second matrix transposed, so that is how V is made: from its weights and the transposed input.
func (p *pass) attend(q, k, h matrix) matrix {
	v := p.product(p.weight("self_attn.v_proj.weight"), h)
	scores, out := p.matrix(q.Rows, k.Rows), p.matrix(q.Rows, q.Cols)
	columns := func(m matrix, head int) matrix {
		return matrix{Ref: m.Ref.Slice(head*heads.Width, m.Ref.Len()), Rows: m.Rows, Cols: heads.Width, Pitch: m.Pitch}
	}
	for head := range heads.Heads {
		key := head / (heads.Heads / heads.Keys)
		p.try(p.d.gemm.Launch(p.s, columns(q, head), columns(k, key), scores))
		p.try(p.d.softmax.Launch(p.s, scores, scores, float32(1/math.Sqrt(float64(heads.Width))), heads.Causal))
		values := matrix{Ref: v.Ref.Slice(key*heads.Width*v.Pitch, v.Ref.Len()), Rows: heads.Width, Cols: v.Cols, Pitch: v.Pitch}
		p.try(p.d.gemm.Launch(p.s, scores, values, columns(out, head)))
	}
	return out
}

func (p *pass) gate(a, b matrix) matrix {
	p.try(p.d.own.Gate(p.s, runtime.Shape1D(a.Ref.Len(), 256), a.Ref, b.Ref))
	return a
}

func (p *pass) add(a, b matrix) matrix {
	p.try(p.d.own.Add(p.s, runtime.Shape1D(a.Ref.Len(), 256), a.Ref, b.Ref))
	return a
}
