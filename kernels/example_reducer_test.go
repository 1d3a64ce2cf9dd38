package kernels_test

import (
	"context"
	"fmt"

	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// The same sum, bit for bit, on eight GPUs, on one, and on a machine that has none.
func ExampleReducer() {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff)) // or runtime.Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	r, err := kernels.OpenReducer(rt)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()

	sum, report, err := r.Sum(context.Background(), []float32{0.5, 1.5, 40})
	fmt.Println(sum, report.Where, err)
	counts, _, err := r.Histogram256(context.Background(), []byte("hello"))
	fmt.Println(counts['l'], err)
	// Two rows of two columns, of weights 1 and 10.
	gram, _, err := r.Gram(context.Background(), []float64{1, 2, 3, 4}, []float64{1, 10}, 2)
	fmt.Println(gram, err)
	// Output:
	// 42 cpu <nil>
	// 2 <nil>
	// [91 122 122 164] <nil>
}
