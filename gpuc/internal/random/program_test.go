package random

import (
	"fmt"
	"strings"
)

// Outcome is what a program says of a kernel.
type Outcome struct {
	Result []uint32 // of Args.Result
	Loops  []uint32 // the same of the loops on the CPU; nil where gpuc refuses the kernel
	Failed string   // where its check fails, and which
	Out    []uint64 // for who wants to see a difference
}

// Program is the source of a program with kernels. It runs them on the CPU and writes an Outcome of each as JSON.
func Program(first uint64, count int) string {
	var b strings.Builder
	_, rest, _ := strings.Cut(strings.Replace(data, "github.com/purecuda/purecuda/gpuc/internal/random/testdata/other", "random/other", 1), "import (")
	b.WriteString("package main\n\nimport (\n\t\"encoding/json\"\n\t\"math/bits\"\n\t\"os\"" + rest)
	var list strings.Builder
	for i := range count {
		k := New(first+uint64(i), fmt.Sprint("K", i))
		b.WriteString(k.Source)
		fmt.Fprintf(&list, "\t{%#v, %v, K%d},\n", k.Shape, k.Fails, i)
	}
	fmt.Fprintf(&b, `var kernels = []struct {
	shape gpu.Shape
	fails bool
	f     func(%s)
}{
%s}

// loops are the kernels as gpuc writes them for the CPU, by number: another file sets them.
var loops = map[int]func(*Args, gpu.Shape) error{}

func main() {
	for number, k := range kernels {
		run := func(n int) (*Args, error) {
			a := NewArgs(n)
			return a, gpu.Run(k.shape, func(t *gpu.Thread) { k.f(t, a.Out, a.In, a.F, a.H, a.Recs, a.Quads, a.Sums, a.Counts, a.Singles, a.P, a.N) })
		}
		a, err := run(11)
		if err != nil {
			panic(err)
		}
		var byLoops []uint32
		if f := loops[number]; f != nil {
			a := NewArgs(11)
			if err := f(a, k.shape); err != nil {
				panic(err)
			}
			byLoops = a.Result()
		}
		failed := ""
		if k.fails {
			_, err = run(Fails)
			failed = err.Error()
		}
		if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"Result": a.Result(), "Loops": byLoops, "Failed": failed, "Out": a.Out}); err != nil {
			panic(err)
		}
	}
	_ = bits.Len
}
`, Signature, list.String())
	return b.String()
}

// Loops is the source of the file that sets the loops of kernels.
func Loops(numbers []int) string {
	var b strings.Builder
	b.WriteString(`package main

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/runtime"
)

func dim(d gpu.Dim3) runtime.Dim3 {
	return runtime.Dim3{X: uint32(d.X), Y: uint32(d.Y), Z: uint32(d.Z)}
}

func init() {
`)
	for _, i := range numbers {
		fmt.Fprintf(&b, `	loops[%[1]d] = func(a *Args, s gpu.Shape) error {
		return K%[1]dCPU(runtime.Shape{Grid: dim(s.Grid), Block: dim(s.Block), SharedBytes: uint32(s.SharedBytes)}, a.Out, a.In, a.F, a.H, a.Recs, a.Quads, a.Sums, a.Counts, a.Singles, a.P, a.N)
	}
`, i)
	}
	b.WriteString("}\n")
	return b.String()
}
