// Package refused has kernels that are outside the language, each for one reason.
package refused

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sort"
	"strconv"
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
	if n > 3 {
		f = func() int { return n + 2 }
	}
	x[0] = f()
}

//purecuda:kernel
func NilFunction(t *gpu.Thread, x []int) {
	var f func(int) int
	x[0] = f(x[0])
}

//purecuda:kernel
func FunctionParameter(t *gpu.Thread, x []int, f func(int) int) { x[0] = f(x[0]) }

//purecuda:kernel
func FunctionInStruct(t *gpu.Thread, x []int) {
	var list [2]func(int) int
	list[0], list[1] = double, half
	x[0] = list[x[1]&1](x[0])
}

var operation = double

//purecuda:kernel
func FunctionVariable(t *gpu.Thread, x []int) { x[0] = operation(x[0]) }

//purecuda:kernel
func Method(t *gpu.Thread, x []int) {
	var s fmt.Stringer
	x[0] = len(s.String())
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
func ForeignStruct(t *gpu.Thread, x []int, b bytes.Buffer) { x[0] = 1 }

//purecuda:kernel
func ManySlices(t *gpu.Thread, x [65][]int) { x[0][0] = 1 }

// wanted is no parameter, but a type.
type wanted struct{ x []int }

//purecuda:kernel equal=x,w.y
func EqualToNothing(t *gpu.Thread, x []int, w wanted) { x[0] = w.x[0] }

//purecuda:kernel
func UnrollsForever(t *gpu.Thread, x []int) { total(x) }

func total(x []int) (n int) {
	//purecuda:unroll
	for _, v := range x {
		n += v
	}
	return n
}

//purecuda:kernel
func SliceOfStructsWithSlices(t *gpu.Thread, x []wanted) { x[0].x[0] = 1 }

//purecuda:kernel
func StoresSlice(t *gpu.Thread, x []int) { gpu.Shared[wanted](t).x = x }

//purecuda:kernel
func Print(t *gpu.Thread, x []int) { fmt.Println(x[0]) }

//purecuda:kernel
func Println(t *gpu.Thread, x []int) { println(x[0]) }

//purecuda:kernel
func PrintfFormat(t *gpu.Thread, x []int) {
	f := "%d"
	if x[1] > 0 {
		f = "%v"
	}
	t.Printf(f, x[0])
}

//purecuda:kernel
func PrintfCount(t *gpu.Thread, x []int) { t.Printf("%d\n", x[0], x[1]) }

//purecuda:kernel
func PrintfMissing(t *gpu.Thread, x []int) { t.Printf("%d %d\n", x[0]) }

//purecuda:kernel
func PrintfSigned(t *gpu.Thread, x []int) { t.Printf("%08x", x[0]) }

//purecuda:kernel
func PrintfUnsigned(t *gpu.Thread, x []uint8) { t.Printf("%c", x[0]) }

//purecuda:kernel
func PrintfFloat(t *gpu.Thread, x []float32) { t.Printf("%d", x[0]) }

//purecuda:kernel
func PrintfBool(t *gpu.Thread, x []bool) { t.Printf("%d", x[0]) }

//purecuda:kernel
func PrintfString(t *gpu.Thread, x []int) { t.Printf("%x", "text") }

//purecuda:kernel
func PrintfStruct(t *gpu.Thread, x []gpu.Uint4) { t.Printf("%v", x[0]) }

func logf(t *gpu.Thread, args ...any) { t.Printf("%v", args...) }

//purecuda:kernel
func PrintfSlice(t *gpu.Thread, x []int) { logf(t, x[0]) }

//purecuda:kernel
func PrintfVerb(t *gpu.Thread, x []int) { t.Printf("%", x[0]) }

//purecuda:kernel
func ShortArray(t *gpu.Thread, x []int) {
	y := [2]int{x[0], x[1]}
	x[0] = [4]int(y[:])[3]
}

//purecuda:kernel
func NilSlice(t *gpu.Thread, x []int) {
	if x == nil {
		return
	}
	x[0] = 1
}

//purecuda:kernel
func ClearMap(t *gpu.Thread, x []int) { clear(map[int]int{}) }

//purecuda:kernel
func CompareInterfaces(t *gpu.Thread, x []int) {
	if any(x[0]) == any(x[1]) {
		x[0] = 1
	}
}

//purecuda:kernel
func Concatenate(t *gpu.Thread, x []byte) {
	s := "a"
	for range x {
		s += "b"
	}
	x[0] = s[1]
}

//purecuda:kernel
func CompareStrings(t *gpu.Thread, x []byte) {
	s := "abc"[x[0]&1:]
	if s < "b" {
		x[0] = 1
	}
}

//purecuda:kernel
func RangeOverString(t *gpu.Thread, x []rune) {
	for i, r := range "abc"[x[0]&1:] {
		x[i] = r
	}
}

//purecuda:kernel
func BytesOfString(t *gpu.Thread, x []byte) { copy(x, []byte("abc")) }

//purecuda:kernel
func StringOfBytes(t *gpu.Thread, x []byte) { x[0] = string(x)[1] }

//purecuda:kernel
func StringTable(t *gpu.Thread, x []byte) { x[0] = names[x[1]&1][0] }

var names = [2]string{"a", "b"}

//purecuda:kernel
func AppendBinary(t *gpu.Thread, x []byte) { x[0] = binary.LittleEndian.AppendUint16(x, 1)[0] }

//purecuda:kernel
func ReadBinary(t *gpu.Thread, x []byte) {
	var n uint32
	_ = binary.Read(bytes.NewReader(x), binary.LittleEndian, &n)
	x[0] = byte(n)
}

//purecuda:kernel
func NoSource(t *gpu.Thread, x []byte) { x[0] = byte(hex.EncodedLen(len(x))) }

//purecuda:kernel
func Recover(t *gpu.Thread, x []int) {
	if recover() != nil {
		x[0] = 1
	}
}

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
func OrderOfLoad(t *gpu.Thread, x []int64) {
	x[0] = gpu.AtomicLoad(&x[1], gpu.Release, gpu.DeviceScope)
}

//purecuda:kernel
func OrderNotConstant(t *gpu.Thread, x []int64) { gpu.Fence(gpu.Order(x[0]), gpu.DeviceScope) }

//purecuda:kernel
func LoadOfVariable(t *gpu.Thread, x []int64) {
	n := x[0]
	x[1] = gpu.AtomicLoad(&n, gpu.Relaxed, gpu.DeviceScope)
}

//purecuda:kernel
func PairOfStruct(t *gpu.Thread, x []struct {
	N uint64
	P gpu.Uint64x2
}) {
	gpu.AtomicStorePair(&x[1].P, gpu.Uint64x2{}, gpu.DeviceScope)
}

//purecuda:kernel
func List(t *gpu.Thread, n []node) { n[0].next = &n[1] }

//purecuda:kernel
func Goroutine(t *gpu.Thread, x []int) { go func() { x[0] = 1 }() }

//purecuda:kernel
func Channel(t *gpu.Thread, x []int) { c := make(chan int); c <- x[0] }

//purecuda:kernel
func Defer(t *gpu.Thread, x []int) { defer t.Barrier(); x[0] = 1 }

func tail(x []int) []int {
	if len(x) < 2 || x[0] == 0 {
		return x
	}
	return tail(x[1:])
}

func outer(x []int) int { return tail(x)[0] }

//purecuda:kernel
func RecursiveSlice(t *gpu.Thread, x []int) { x[0] = outer(x) }

func down(t *gpu.Thread, x []int) {
	s := gpu.Shared[int](t)
	if *s = x[0]; *s > 0 {
		up(t, x[1:])
	}
}

func up(t *gpu.Thread, x []int) { down(t, x) }

//purecuda:kernel
func RecursiveShared(t *gpu.Thread, x []int) { down(t, x) }

//go:noinline
func text(i int) string { return "abc"[i:] }

//purecuda:kernel
func NotInlinedString(t *gpu.Thread, x []int) { x[0] = len(text(1)) }

func n0(i int) int  { return n1(i) + 1 }
func n1(i int) int  { return n2(i) + 1 }
func n2(i int) int  { return n3(i) + 1 }
func n3(i int) int  { return n4(i) + 1 }
func n4(i int) int  { return n5(i) + 1 }
func n5(i int) int  { return n6(i) + 1 }
func n6(i int) int  { return n7(i) + 1 }
func n7(i int) int  { return n8(i) + 1 }
func n8(i int) int  { return n9(i) + 1 }
func n9(i int) int  { return n10(i) + 1 }
func n10(i int) int { return n11(i) + 1 }
func n11(i int) int { return n12(i) + 1 }
func n12(i int) int { return n13(i) + 1 }
func n13(i int) int { return n14(i) + 1 }
func n14(i int) int { return n15(i) + 1 }
func n15(i int) int { return n16(i) + 1 }
func n16(i int) int { return n17(i) + 1 }
func n17(i int) int { return n18(i) + 1 }
func n18(i int) int { return n19(i) + 1 }
func n19(i int) int { return n20(i) + 1 }
func n20(i int) int { return n21(i) + 1 }
func n21(i int) int { return n22(i) + 1 }
func n22(i int) int { return n23(i) + 1 }
func n23(i int) int { return n24(i) + 1 }
func n24(i int) int { return i }

//purecuda:kernel
func DeepCalls(t *gpu.Thread, x []int) { x[0] = n0(x[0]) }

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
func TwoSpaces(t *gpu.Thread, x []int) {
	s := gpu.Shared[[4]int](t)
	p := &x[0]
	if x[1] > 0 {
		p = &s[1]
	}
	*p = 1
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
func KeepsPointers(t *gpu.Thread, x []int) {
	var list [4]*int
	for i := range list {
		v := x[i]
		list[i] = &v
	}
	x[0] = *list[x[0]&3]
}

//purecuda:kernel
func KeepsLoopVariable(t *gpu.Thread, x []int) {
	var last *int
	for i := 0; i < len(x); i++ {
		if x[i] > 0 {
			last = &i
		}
		i++
	}
	x[0] = *last
}

//purecuda:kernel
func Run(t *gpu.Thread, x []int) { _ = gpu.Run(gpu.Shape{}, nil) }

type policy struct {
	of func(int) int
	n  int
}

//purecuda:kernel
func FunctionInField(t *gpu.Thread, x []int) {
	p := policy{n: 3}
	if x[0] > 1 {
		p.of = double
	}
	x[0] = p.of(p.n)
}

//purecuda:kernel
func FunctionFieldInLoop(t *gpu.Thread, x []int) {
	p := policy{of: half}
	for i := range x {
		x[i] = p.of(i)
		p.of = double
	}
}

//purecuda:kernel
func Variadic(t *gpu.Thread, x ...int) { x[0] = 1 }

//purecuda:kernel
func Address(t *gpu.Thread, x []int, p uintptr) { x[0] = int(p) }

//purecuda:kernel
func Addresses(t *gpu.Thread, x []uintptr) { x[0] = 1 }

//purecuda:kernel
func Checksum(t *gpu.Thread, x []uint32, b []byte) { x[0] = crc32.ChecksumIEEE(b) }

//purecuda:kernel
func Number(t *gpu.Thread, x []int) { x[0], _ = strconv.Atoi("1") }

func positive(i int) (int, error) {
	if i < 0 {
		return 0, errors.New("negative")
	}
	return i, nil
}

//purecuda:kernel
func NewError(t *gpu.Thread, x []int) { x[0], _ = positive(x[1]) }

var errNegative = errors.New("negative")

//purecuda:kernel
func ErrorVariable(t *gpu.Thread, x []int) {
	var err error
	if x[0] < 0 {
		err = errNegative
	}
	if err == nil {
		x[0] = 1
	}
}

//purecuda:kernel
func CompareErrors(t *gpu.Thread, x []int) {
	var err error
	if err == nil {
		x[0] = 1
	}
}

var words = map[int]int{1: 2}

//purecuda:kernel
func MapVariable(t *gpu.Thread, x []int) { x[0] = words[x[1]] }

//purecuda:kernel
func Capacity(t *gpu.Thread, x []int) { x[0] = cap(x[:2]) }

//purecuda:kernel
func MinBlocks(t *gpu.Thread, x []int) { gpu.MinBlocksPerMultiprocessor(x[0]) }
