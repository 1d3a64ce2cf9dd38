package random

import (
	"fmt"
	"strings"
)

// Outcome is what a program says of a kernel.
type Outcome struct {
	Result []uint32 // of Args.Result
	Failed string   // where its check fails, and which
	Out    []uint64 // for who wants to see a difference
}

// Program is the source of a program with kernels. It runs them on the CPU and writes an Outcome of each as JSON.
func Program(first uint64, count int) string {
	var b strings.Builder
	_, rest, _ := strings.Cut(data, "import (")
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

func main() {
	for _, k := range kernels {
		run := func(n int) (*Args, error) {
			a := NewArgs(n)
			return a, gpu.Run(k.shape, func(t *gpu.Thread) { k.f(t, a.Out, a.In, a.F, a.H, a.Recs, a.Quads, a.Sums, a.Counts, a.Singles, a.P, a.N) })
		}
		a, err := run(11)
		if err != nil {
			panic(err)
		}
		failed := ""
		if k.fails {
			_, err = run(Fails)
			failed = err.Error()
		}
		if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"Result": a.Result(), "Failed": failed, "Out": a.Out}); err != nil {
			panic(err)
		}
	}
	_ = bits.Len
}
`, Signature, list.String())
	return b.String()
}
