package refused

import (
	"sort"
	"time"

	"github.com/purecuda/purecuda/gpu"
)

//purecuda:kernel
func DeferBehindReturn(t *gpu.Thread, x []int) {
	if len(x) == 0 {
		return
	}
	x[0] = 2
	defer func() { x[0] = 1 }()
}

//purecuda:kernel
func BinarySearch(t *gpu.Thread, x []int) {
	x[0] = sort.Search(len(x), func(i int) bool { return x[i] > 3 })
}

//purecuda:kernel
func Now(t *gpu.Thread, x []int64) { x[0] = time.Now().UnixNano() }

//purecuda:kernel
func Sleep(t *gpu.Thread, x []int64) { time.Sleep(1) }

// operations has a function in each field and element.
type operations struct {
	sums [4]int
	ops  [2]func(int) int
}

//purecuda:kernel
func FunctionByIndex(t *gpu.Thread, x []int) {
	o := operations{ops: [2]func(int) int{double, half}}
	o.sums[x[0]&3]++
	x[0] = o.ops[x[1]&1](o.sums[x[2]&3])
}

//purecuda:kernel
func FunctionBehindPointer(t *gpu.Thread, x []int) {
	a, b := operations{ops: [2]func(int) int{double, half}}, operations{ops: [2]func(int) int{half, double}}
	p := &a
	if x[0] > 3 {
		p = &b
	}
	x[0] = p.ops[1](x[1])
}

//purecuda:kernel
func FunctionToPointer(t *gpu.Thread, x []int) {
	var a, b operations
	p := &a
	if x[0] > 3 {
		p = &b
	}
	p.ops[1] = half
	x[0] = a.ops[1](x[1])
}

// count makes another closure for each call of itself.
func count(n int, f func(int) int) int {
	if n == 0 {
		return f(0)
	}
	return count(n-1, func(i int) int { return f(i) + 1 })
}

//purecuda:kernel
func ClosureOfClosure(t *gpu.Thread, x []int) { x[0] = count(x[0], double) }

// set is not inlined.
//
//go:noinline
func set(o *operations) { o.ops[0] = half }

//purecuda:kernel
func FunctionSetByCall(t *gpu.Thread, x []int) {
	o := operations{ops: [2]func(int) int{double, half}}
	set(&o)
	x[0] = o.ops[0](x[1])
}
