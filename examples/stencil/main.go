// Stencil blurs a picture from top to bottom over all GPUs of the machine, and over all cores where
// there are none. A row of the result needs the rows above and below it, so a piece of the work takes
// one row more on each side: its halo.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

//go:generate go run -C ../../gpuc . ../examples/stencil

// Blur makes rows of out from rows of in: the mean of a row, that above and that below. The first row of
// out is made from row first of in and its neighbours. At the edges of in the row itself is the neighbour.
//
//purecuda:kernel
func Blur(t *gpu.Thread, width, first int, in, out []float32) {
	last := len(in)/width - 1
	for i := t.GlobalX(); i < len(out); i += t.GlobalDimX() {
		x, y := i%width, first+i/width
		out[i] = (in[max(y-1, 0)*width+x] + in[y*width+x] + in[min(y+1, last)*width+x]) / 3
	}
}

// kernels are loaded once for each device.
var kernels = pool.PerDevice(Load)

func main() {
	rt, err := runtime.Open() // no GPU is no error; a broken one is
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	const width, height = 1000, 2000
	in := make([]float32, width*height)
	for i := range in {
		in[i] = float32(i / width % 3) // 0, 1, 2, 0, ... so that the mean of three rows is 1
	}
	out, report, err := blur(context.Background(), rt, width, in, pool.ScatterOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Where, out[width], report.Wall) // 1
	if report.Err != nil {
		fmt.Println("not on a GPU:", report.Err)
	}
}

// blur keeps nothing; a service would open its pool once. An item is a row.
func blur(ctx context.Context, rt *runtime.Runtime, width int, in []float32, options pool.ScatterOptions) (out []float32, report pool.Report, err error) {
	p, err := pool.Open(rt, pool.Options{Setup: []pool.Setup{kernels}})
	if err != nil {
		return nil, report, err
	}
	defer p.Close()
	height := len(in) / width
	out = make([]float32, len(in))
	onGPU := func(w *pool.Worker, t pool.Tile) error {
		lo, hi := max(t.Lo-1, 0), min(t.Hi+1, height) // with the halo, and without it at the edges of the picture
		return blurRows(w, width, t.Lo-lo, in[lo*width:hi*width], out[t.Lo*width:t.Hi*width])
	}
	options.Fallback = func(_ context.Context, lo, hi int) error {
		return BlurCPU(runtime.Shape1D((hi-lo)*width, 256), width, lo, in, out[lo*width:hi*width])
	}
	report, err = p.Scatter(ctx, height, onGPU, options)
	return out, report, err
}

func blurRows(w *pool.Worker, width, first int, in, out []float32) error {
	s := w.Stream()
	var scope runtime.Scope
	defer scope.Close()
	w.Phase(pool.Upload)
	x := runtime.Keep(runtime.UploadNew(w.CallContext(), s, in))(&scope)
	y := runtime.Keep(runtime.Alloc[float32](s, len(out)))(&scope)
	if err := scope.Err(); err != nil {
		return err
	}
	w.Phase(pool.Compute)
	if err := kernels.Of(w).Blur(s, runtime.Shape1D(len(out), 256), width, first, x, y); err != nil {
		return err
	}
	w.Phase(pool.Download)
	return runtime.Download(w.CallContext(), s, out, y)
}
