// Package refused has kernels that are outside the language, each for one reason.
package refused

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
)

type node struct{ next *node }
type shape interface{ area() float32 }

//purecuda:kernel
func Append(t *gpu.Thread, x []int) { x = append(x, 1); x[0] = 1 }

//purecuda:kernel
func Make(t *gpu.Thread, x []int) { y := make([]int, len(x)); x[0] = y[0] }

//purecuda:kernel
func Map(t *gpu.Thread, x []int) { m := map[int]int{1: 2}; x[0] = m[x[0]] }

//purecuda:kernel
func Closure(t *gpu.Thread, x []int) {
	n := x[0]
	f := func() int { return n + 1 }
	n++
	x[0] = f()
}

//purecuda:kernel
func FunctionValue(t *gpu.Thread, x []int) {
	f := double
	if x[0] > 1 {
		f = half
	}
	x[0] = f(x[0])
}

func double(x int) int { return 2 * x }
func half(x int) int   { return x / 2 }

//purecuda:kernel
func InterfaceParameter(t *gpu.Thread, x []float32, s shape) { x[0] = s.area() }

//purecuda:kernel
func Assertion(t *gpu.Thread, x []int) { x[0] = any(x[1]).(int) }

//purecuda:kernel
func StringParameter(t *gpu.Thread, x []int, s string) { x[0] = len(s) }

//purecuda:kernel
func PointerParameter(t *gpu.Thread, x *int) { *x = 1 }

//purecuda:kernel
func MapParameter(t *gpu.Thread, x map[int]int) { x[0] = 1 }

//purecuda:kernel
func SliceOfSlices(t *gpu.Thread, x [][]int) { x[0][0] = 1 }

//purecuda:kernel
func Print(t *gpu.Thread, x []int) { fmt.Println(x[0]) }

//purecuda:kernel
func Println(t *gpu.Thread, x []int) { println(x[0]) }

//purecuda:kernel
func Copy(t *gpu.Thread, x, y []int) { copy(x, y) }

//purecuda:kernel
func Sort(t *gpu.Thread, x []int) { sort.Ints(x) }

//purecuda:kernel
func Strings(t *gpu.Thread, x []byte) { x[0] = strings.ToUpper("a")[0] }

//purecuda:kernel
func Random(t *gpu.Thread, x []int) { x[0] = rand.Int() }

//purecuda:kernel
func Atomic(t *gpu.Thread, x []int64) { atomic.AddInt64(&x[0], 1) }

//purecuda:kernel
func AtomicVariable(t *gpu.Thread, x []int64) {
	var n [4]int64
	gpu.AtomicAdd(&n[x[0]&3], 1)
	x[0] = n[1]
}

//purecuda:kernel
func List(t *gpu.Thread, n []node) { n[0].next = &n[1] }

//purecuda:kernel
func Goroutine(t *gpu.Thread, x []int) { go func() { x[0] = 1 }() }

//purecuda:kernel
func Channel(t *gpu.Thread, x []int) { c := make(chan int); c <- x[0] }

//purecuda:kernel
func Defer(t *gpu.Thread, x []int) { defer t.Barrier(); x[0] = 1 }

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func outer(n int) int { return 1 + fib(n) }

//purecuda:kernel
func Recursive(t *gpu.Thread, x []int) { x[0] = outer(x[0]) }

//purecuda:kernel
func Result(t *gpu.Thread, x []int) int { return x[0] }

//purecuda:kernel
func NoThread(x []int) { x[0] = 1 }

//purecuda:kernel
func Complex(t *gpu.Thread, x []complex64) { x[0] *= x[1] }

var counter int

//purecuda:kernel
func SetGlobal(t *gpu.Thread, x []int) { counter++; x[0] = counter }

var table [4]int

// SetTable changes what ReadTable would read.
func SetTable(i int) { table[i&3] = i }

func look(i int) int { return table[i&3] }

//purecuda:kernel
func ReadTable(t *gpu.Thread, x []int) { x[0] = look(x[1]) }

var computed = [2]int{len(fmt.Sprint(1)), 2}

//purecuda:kernel
func ReadComputed(t *gpu.Thread, x []int) { x[0] = computed[x[1]&1] }

var list = []int{1, 2, 3}

//purecuda:kernel
func ReadSlice(t *gpu.Thread, x []int) { x[0] = list[x[1]] }

//purecuda:kernel
func OutOfRange(t *gpu.Thread, x []int) {
	var a [4]int
	b := &a
	i := 5
	x[2] = b[i]
}

//purecuda:kernel
func DivideByZero(t *gpu.Thread, x []int) {
	zero := 0
	x[0] /= zero
}

//purecuda:kernel
func TwoSpaces(t *gpu.Thread, x []int) {
	s := gpu.Shared[[4]int](t)
	p := &x[0]
	if x[1] > 0 {
		p = &s[1]
	}
	*p = 1
}

//purecuda:kernel
func SharedInLoop(t *gpu.Thread, x []int) {
	for i := range x {
		s := gpu.Shared[[4]int](t)
		s[0] = i
	}
}

//purecuda:kernel
func SharedInCondition(t *gpu.Thread, x []int) {
	if x[0] > 0 {
		s := gpu.Shared[[4]int](t)
		s[0] = 1
	}
	s := gpu.Shared[[4]float32](t)
	s[0] = 1
}

//purecuda:kernel
func SharedPointer(t *gpu.Thread, x []int) { *gpu.Shared[*int](t) = &x[0] }

//purecuda:kernel
func KeepsPointer(t *gpu.Thread, x []int) {
	first := 0
	last := &first
	for i := range x {
		v := i
		*last += v
		last = &v
	}
	x[0] = *last
}

//purecuda:kernel
func Unsafe(t *gpu.Thread, x []int) { *(*float64)(unsafe.Pointer(&x[0])) = 1 }

//purecuda:kernel
func ComparePointers(t *gpu.Thread, x []int) {
	if &x[0] == &x[1] {
		x[0] = 1
	}
}

//purecuda:kernel
func Run(t *gpu.Thread, x []int) { _ = gpu.Run(gpu.Shape{}, nil) }
