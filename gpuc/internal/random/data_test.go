//lint:file-ignore U1000 the kernels use what is here

package random

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/random/testdata/other"
)

// This file is a part of each program too: its kernels take these arguments and call these functions.

const (
	// Threads is how many threads a launch has, in blocks of 64.
	Threads = 128
	// Results is how many elements of out a thread writes.
	Results = 8
	// Inputs is the length of what all threads read, a power of two.
	Inputs = 64
	// Signature is the parameters of a kernel.
	Signature = "t *gpu.Thread, out []uint64, in []int64, f []float64, h []int16, recs []Rec, quads []gpu.Uint4, sums []int64, counts []uint32, singles []float32, p Param, n int"
	// Fails is the n for which a kernel comes to its check that fails.
	Fails = 12
)

// Rec is what slices hold: a thread writes its own.
type Rec struct {
	A  int8
	B  uint16
	C  [2]int32
	D  float64
	E  uint64
	F  float32
	OK bool
}

// Sum has the record by value.
func (r Rec) Sum() int64 {
	s := int64(r.A) + 3*int64(r.B) + int64(r.C[0])<<3 ^ int64(r.C[1]) + int64(r.E)
	if r.OK {
		s = -s
	}
	return s + int64(bits64(r.D)>>7) + int64(bits32(r.F))
}

// Turn changes the record.
func (r *Rec) Turn(x int32) {
	r.C[0], r.C[1], r.OK = r.C[1], r.C[0]+x, !r.OK
	for i := range r.C {
		if r.C[i] < x {
			r.A++
		}
	}
}

// Param is a parameter by value.
type Param struct {
	A  int32
	B  [3]float32
	C  uint8
	D  int64
	On bool
}

var tableOfBytes = [16]uint8{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 97, 93, 255, 128}
var tableOfInts = [16]int32{1, -1, 2, -2, 1 << 30, -1 << 31, 7, 0, 9, 8, 7, 6, 5, 4, 3, 2}
var tableOfFloats = [16]float64{0.5, 1.5, -2.25, 1e9, 1, 2, 3, 4, 0, 1e-5, 7, 8, 9, 0.25, 1e-3, 3}

// Variables that somebody sets: a kernel that reads one is refused.
var setInInit [4]int32
var byMethod, byPointer int64 = 2, 3
var pointer = &byPointer

func init() { setInInit[2], *pointer = 5, 9 }

type setter struct{}

func (setter) init() { byMethod = 4 }

func init() { setter{}.init() }

// variables reads all of them, and one that nobody sets.
func variables(i int) int64 {
	return int64(setInInit[i&3]) + byMethod + byPointer + int64(other.Scale) + other.Filled(i) + int64(other.At(i))
}

// Refused are the names of the variables for which a kernel is refused.
var Refused = []string{"setInInit", "byMethod", "byPointer", "Scale", "filled"}

// min has the name of a function of Go, and does something else.
func min[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | int | uint | float32 | float64](a, b T) T {
	if a < b {
		return b - a
	}
	return a
}

// bump changes what it returns.
func bump[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | int | uint | float32 | float64](p *T) T {
	*p += 3
	return *p
}

// Counter has methods that change it.
type Counter struct {
	S, N uint64
	V    [4]uint64
}

// Next changes one field.
func (c *Counter) Next() uint64 { c.S = c.S*5 + 1; return c.S }

// Push changes the others.
func (c *Counter) Push(x uint64) uint64 { c.V[c.N&3] = x; c.N++; return x + c.N }

// Sum changes nothing.
func (c Counter) Sum() uint64 { return c.S + c.N + c.V[0]*3 + c.V[1] }

func id[T any](v T) T { return v }

// within is x where it fits an integer of each type; elsewhere Go does not say what a conversion gives.
func within[T float32 | float64](x T) T {
	if x >= 0 && x <= 100 {
		return x
	}
	return 3
}

// bits64 and bits32 do not tell one NaN from another.
func bits64(x float64) uint64 {
	if x != x {
		return 1
	}
	return math.Float64bits(x)
}

func bits32(x float32) uint32 {
	if x != x {
		return 1
	}
	return math.Float32bits(x)
}

func number[T float32 | float64](x T) T {
	if x != x {
		return 0
	}
	return x
}

// fold goes over a slice.
func fold[T int16 | int64 | float64](s []T, seed T) T {
	for i, v := range s {
		if i&1 == 0 {
			seed = v - seed
		} else {
			seed += v
		}
	}
	return seed
}

// spread writes to an array through a pointer.
func spread[T int8 | uint16 | int32 | uint64 | float32](a *[8]T, x T, at int) {
	a[at&7] = x
	for i := range a {
		a[i] += a[(i+at)&7]
	}
}

const text = "a text, with more than ASCII: äöü"

func word(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

func putWord(b []byte, x uint64) { binary.BigEndian.PutUint64(b, x) }

func apply[T any](f func(T) T, x T) T { return f(f(x)) }

// find is where a number is; nil where it is not.
func find[T comparable](s []T, x T) *T {
	for i := range s {
		if s[i] == x {
			return &s[i]
		}
	}
	return nil
}

// addTo adds to a number, if there is one.
func addTo[T int8 | uint16 | int32 | uint64 | int64 | float32](p *T, x T) bool {
	if p != nil {
		*p += x
	}
	return p == nil
}

// Pair is generic, and so are its methods.
type Pair[T any] struct{ First, Second T }

// Swap changes it.
func (p *Pair[T]) Swap() *Pair[T] { p.First, p.Second = p.Second, p.First; return p }

// Of does not.
func (p Pair[T]) Of(first bool) T {
	if first {
		return p.First
	}
	return p.Second
}

// Base is embedded in Derived.
type Base struct {
	ID   int32
	Last *int64
}

// Move changes what Last leads to as well, if it leads anywhere.
func (b *Base) Move(x int32) int32 {
	if b.ID += x; b.Last != nil && b.ID&1 == 0 {
		*b.Last ^= int64(x)
	}
	return b.ID
}

// Derived has the methods of Base.
type Derived struct {
	Base
	Name [3]uint8
}

// Move hides that of Base.
func (d *Derived) Move(x int32) int32 { d.Name[uint32(x)%3]++; return d.Base.Move(x+1) - x }

// Mask is a number with methods.
type Mask uint32

// Has is a test of a bit.
func (m Mask) Has(i int) bool { return m>>(i&31)&1 != 0 }

// Set sets a bit.
func (m *Mask) Set(i int) Mask { *m |= 1 << (i & 31); return *m }

type operation interface{ Do(a, b int64) int64 }

type adding struct{}

func (adding) Do(a, b int64) int64 { return a + b }

type scaling struct{ By int64 }

func (s scaling) Do(a, b int64) int64 { return a*s.By ^ b }

func reduce[O operation](o O, s []int64) (r int64) {
	for _, v := range s {
		r = o.Do(r, v)
	}
	return r
}

// Policy holds a function.
type Policy struct {
	F func(int64) int64
	N int64
}

func (p Policy) run() int64 { return p.F(p.N) + 1 }

//go:noinline
func slow(a, b int64, c *Counter) (r int64, ok bool) {
	if c != nil {
		r = int64(c.Push(uint64(a)))
	}
	if a > b {
		return r - b, true
	}
	return r + tableOfSums[uint64(a)%8], b&1 == 0
}

var tableOfSums = [8]int64{1, -2, 1 << 40, 7, 0, -9}

// gcd calls itself, 12 deep at most for numbers of 8 bits.
func gcd(a, b uint64) uint64 {
	if b == 0 {
		return a
	}
	return gcd(b, a%b)
}

func isEven(n int, c *Counter) bool {
	if n == 0 {
		return c.Next()&1 == 0
	}
	return isOdd(n-1, c)
}

func isOdd(n int, c *Counter) bool {
	if n == 0 {
		return false
	}
	c.N += uint64(n)
	return isEven(n-1, c)
}

// below is the numbers up to n, for a range.
func below(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := 0; i < n; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

// total adds up a warp.
func total(t *gpu.Thread, v int32) int32 {
	for d := 16; d > 0; d >>= 1 {
		v += gpu.ShuffleXor(t, v, d)
	}
	return v
}

// Args are the arguments of one launch.
type Args struct {
	Out     []uint64
	In      []int64
	F       []float64
	H       []int16
	Recs    []Rec
	Quads   []gpu.Uint4
	Sums    []int64
	Counts  []uint32
	Singles []float32
	P       Param
	N       int
}

// NewArgs makes what a launch begins with.
func NewArgs(n int) *Args {
	a := &Args{
		Out: make([]uint64, Threads*Results), In: make([]int64, Inputs), F: make([]float64, Inputs), H: make([]int16, Inputs),
		Recs: make([]Rec, Threads), Quads: make([]gpu.Uint4, Inputs),
		Sums: []int64{0, 99, -99, -1, 0, 5, 1 << 40}, Counts: []uint32{0, 99, 1, math.MaxUint32, 0, 5, 0}, Singles: make([]float32, 4),
		P: Param{A: -77, B: [3]float32{1.5, -0.25, 1e6}, C: 200, D: 1 << 45, On: true}, N: n,
	}
	for i := range a.In {
		a.In[i] = int64(i*i) * 0x9e3779b97f4a7c >> (i % 64)
		a.F[i] = float64(i-20) / 7
		a.H[i] = int16(i * 1999)
		a.Quads[i] = gpu.Uint4{X: uint32(i), Y: uint32(i * i), Z: uint32(i) << 27, W: ^uint32(i)}
	}
	a.In[7], a.In[8], a.In[9], a.In[10] = math.MinInt64, math.MinInt32, math.MinInt8, -1
	a.F[3], a.F[4], a.F[5], a.F[6] = math.NaN(), math.Inf(1), math.Copysign(0, -1), 1e-310
	for i := range a.Recs {
		a.Recs[i] = Rec{int8(i), uint16(i * 999), [2]int32{int32(-i), int32(i) << 20}, float64(i) / 3, uint64(i) << 50, float32(i) / 7, i%3 == 0}
	}
	return a
}

// Result is a hash of what each thread left, and one of the rest.
func (a *Args) Result() []uint32 {
	var r []uint32
	sum := func(v ...any) {
		h := fnv.New32a()
		for _, v := range v {
			_ = binary.Write(h, binary.LittleEndian, v)
		}
		r = append(r, h.Sum32())
	}
	for i := range Threads {
		sum(a.Out[i*Results:(i+1)*Results], a.Recs[i])
	}
	sum(a.Sums, a.Counts, a.Singles)
	return slices.Clip(r)
}
