// Transformer computes one layer of a transformer as in Llama: on a GPU if there is one, and on the CPU if not. The binary holds the
// weights, and what PyTorch makes of them. It prints how far its own result is from that.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

//go:embed testdata/layer.safetensors
var file []byte

// heads are those of the layer in the file, where two heads of Q share one of K and V.
var heads = kernels.Heads{Width: 64, Heads: 4, Keys: 2, Causal: true}

// epsilon is added to the mean of squares in the norms.
const epsilon = 1e-5

// numbers are elements on the host.
type numbers = []gpu.BFloat16

// place is where a layer is computed. M is a matrix there. The first error makes all that follows do nothing.
type place[M any] interface {
	weight(name string) M
	product(a, b M) M               // a * transposed b
	norm(x, add M, weight string) M // of x + add, which is in x from then on
	rotate(x M) M                   // in place: position embeddings
	attend(q, k, h M) M             // with V = h * transposed weight
	gate(a, b M) M                  // in a: SiLU of a, times b
	add(a, b M) M                   // in a
}

// layer is the whole computation. What is in x is lost.
func layer[M any](p place[M], x M) M {
	var none M
	h := p.norm(x, none, "input_layernorm.weight")
	q := p.rotate(p.product(h, p.weight("self_attn.q_proj.weight")))
	k := p.rotate(p.product(h, p.weight("self_attn.k_proj.weight")))
	y := p.product(p.attend(q, k, h), p.weight("self_attn.o_proj.weight"))
	h = p.norm(y, x, "post_attention_layernorm.weight")
	g := p.gate(p.product(h, p.weight("mlp.gate_proj.weight")), p.product(h, p.weight("mlp.up_proj.weight")))
	return p.add(y, p.product(g, p.weight("mlp.down_proj.weight")))
}

// Layer has its weights on each device that has worked for it. It is safe for concurrent use.
type Layer struct {
	tensors map[string]tensor
	pool    *pool.Pool
	device  *pool.State[*device]
}

// Open reads a file of weights.
func Open(rt *runtime.Runtime, file []byte) (*Layer, error) {
	tensors, err := readTensors(file)
	if err == nil {
		err = check(tensors)
	}
	if err != nil {
		return nil, err
	}
	l := &Layer{tensors: tensors, device: pool.PerDevice(func(c *runtime.Context) (*device, error) { return newDevice(c, tensors) })}
	l.pool, err = pool.Open(rt, pool.Options{Setup: []pool.Setup{l.device}})
	return l, err
}

// Close waits for what runs.
func (l *Layer) Close() error { return l.pool.Close() }

// Forward computes the layer for a sequence, and leaves x as it is, so that the CPU can do it after a failure.
func (l *Layer) Forward(ctx context.Context, x tensor) (out numbers, report pool.Report, err error) {
	if dim := l.tensors["input_layernorm.weight"].cols; x.rows < 1 || x.cols != dim || len(x.half) != x.rows*x.cols {
		return nil, report, fmt.Errorf("the input has %d elements and is %d x %d, want rows of %d", len(x.half), x.rows, x.cols, dim)
	}
	report, err = l.pool.Do(ctx, func(w *pool.Worker) (err error) {
		out, err = l.device.Of(w).forward(w, x)
		return err
	}, pool.DoOptions{Fallback: func(context.Context) (err error) {
		out, err = forwardCPU(l.tensors, x)
		return err
	}})
	return out, report, err
}

// check compares the tensors of a file with what the layer takes.
func check(tensors map[string]tensor) error {
	dim, hidden, q, k := tensors["input_layernorm.weight"].cols, tensors["mlp.gate_proj.weight"].rows, heads.Heads*heads.Width, heads.Keys*heads.Width
	for name, want := range map[string][2]int{
		"input_layernorm.weight": {1, dim}, "self_attn.q_proj.weight": {q, dim}, "self_attn.k_proj.weight": {k, dim}, "self_attn.v_proj.weight": {k, dim}, "self_attn.o_proj.weight": {dim, q},
		"post_attention_layernorm.weight": {1, dim}, "mlp.gate_proj.weight": {hidden, dim}, "mlp.up_proj.weight": {hidden, dim}, "mlp.down_proj.weight": {dim, hidden},
	} {
		if t := tensors[name]; t.half == nil || t.rows != want[0] || t.cols != want[1] {
			return fmt.Errorf("%s is %d x %d, want %d x %d of BF16", name, t.rows, t.cols, want[0], want[1])
		}
	}
	return nil
}

func main() {
	rt, err := runtime.Open() // no GPU is no error; a broken one is
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	l, err := Open(rt, file)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	out, report, err := l.Forward(context.Background(), l.tensors["input"])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Where, report.Wall)
	if report.Err != nil {
		fmt.Println("not on a GPU:", report.Err)
	}
	away, torch := deviation(l.tensors, out), deviation(l.tensors, l.tensors["output.bfloat16"].half)
	fmt.Printf("at most %.4f from PyTorch in float64. PyTorch in bfloat16 is %.4f from it, and twice that is the bound\n", away, torch)
	if !(away <= 2*torch) {
		log.Fatal("the result is wrong")
	}
}

// deviation is the largest difference from the output of PyTorch in float64.
func deviation(tensors map[string]tensor, out numbers) (most float32) {
	for i, want := range tensors["output"].float {
		most = max(most, gpu.Abs32(out[i].Float32()-want)) // NaN stays
	}
	return most
}
