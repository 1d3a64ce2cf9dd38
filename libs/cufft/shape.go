package cufft

import (
	"math"
	"math/bits"
	"slices"
)

// Shape is what is transformed, and where it lies.
type Shape struct {
	// N are the lengths of one to three dimensions, those of the real numbers where there are real ones. The last one runs
	// fastest. Any length can be transformed; products of 2, 3, 5 and 7 are the fastest.
	N []int
	// Batch is how many transforms there are. 0 means 1.
	Batch int
	// In and Out say where numbers lie. The zero Layout is without gaps.
	//
	// The complex side of a transform of real numbers has n/2+1 numbers in place of the last length n: the others are their conjugates.
	In, Out Layout
	// Scale divides the results by the product of N. cuFFT itself does not scale. It costs a pass over the results.
	Scale bool
}

// Layout says where numbers lie in their Ref, as in cufftPlanMany: number x, y, z of transform b is element
// b*Distance + ((x*Embed[1]+y)*Embed[2]+z)*Stride.
type Layout struct {
	// Embed are the lengths of the memory, where rows have gaps at their ends: as many as N has, and each at least as long as what
	// lies there. None means without gaps.
	Embed []int
	// Stride is how far neighbours are apart. 0 means 1.
	Stride int
	// Distance is how far transforms of a batch are apart. 0 means one behind the other. Those of the input may overlap, unless
	// cuFFT writes there: in place, and in C2R and Z2D.
	Distance int
}

// spelled is all of a Shape but Scale, without pointers. What has more than three lengths is no shape.
type spelled struct {
	lengths            [3][3]int // N and both Embed
	ranks              [3]int    // how many each has, and -1 for none
	batch              int
	strides, distances [2]int
}

func (s *Shape) spell() (k spelled) {
	for i, of := range [...][]int{s.N, s.In.Embed, s.Out.Embed} {
		copy(k.lengths[i][:], of)
		if k.ranks[i] = len(of); of == nil {
			k.ranks[i] = -1
		}
	}
	k.batch, k.strides, k.distances = s.Batch, [2]int{s.In.Stride, s.Out.Stride}, [2]int{s.In.Distance, s.Out.Distance}
	return k
}

// Padded is the Layout of real numbers that are transformed in place: each row has room for n/2+1 complex numbers. See runtime.Cast
// for memory as real and as complex numbers.
func Padded(n ...int) Layout {
	if len(n) == 0 {
		return Layout{}
	}
	embed := slices.Clone(n)
	last := &embed[len(n)-1]
	*last = 2 * (*last/2 + 1)
	return Layout{Embed: embed}
}

// side is a resolved Layout: how many numbers there are in each direction, the batch first, and how far apart they are.
type side struct {
	name    string
	n, step [4]int64
	span    int64 // elements from the first to behind the last
}

// transform is a Shape that has been checked for a type.
type transform struct {
	Description
	in, out side
	err     error // why there is none
}

// transform checks a shape. It returns no pointer, and callers pass none on to functions with type parameters: what such a pointer
// points to would be on the heap.
func (s *Shape) transform(t Type) (x transform) {
	x = transform{Description: Description{Type: t, Rank: int32(len(s.N)), Batch: max(int64(s.Batch), 1)}}
	x.err = x.resolve(s)
	return x
}

func (x *transform) resolve(s *Shape) error {
	t := x.Type
	if _, ok := execs[t]; !ok {
		return wrong("%v: want TypeC2C, TypeR2C or another Type of this package", t)
	}
	if len(s.N) < 1 || len(s.N) > 3 {
		return wrong("%v: N has %d lengths: want 1 to 3", t, len(s.N))
	}
	if s.Batch < 0 {
		return wrong("%v: a batch of %d: want 0, which means 1, or more", t, s.Batch)
	}
	for i, n := range s.N {
		if n < 1 {
			return wrong("%v: N[%d] is %d: want at least 1", t, i, n)
		}
		x.N[i] = int64(n)
	}
	realIn, realOut := t.real()
	err := x.in.resolve("In", x, realOut, &s.In, &x.InEmbed, &x.InStride, &x.InDistance)
	if err == nil {
		err = x.out.resolve("Out", x, realIn, &s.Out, &x.OutEmbed, &x.OutStride, &x.OutDistance)
	}
	if err == nil && realOut {
		err = x.in.apart(t) // cuFFT writes there
	}
	if err == nil {
		err = x.out.apart(t)
	}
	return err
}

// lengths is a copy of N.
func (x *transform) lengths() []int64 { return slices.Clone(x.N[:x.Rank]) }

// resolve checks a layout. half is for the complex side of a transform of real numbers.
func (o *side) resolve(name string, x *transform, half bool, l *Layout, embed *[3]int64, stride, distance *int64) error {
	rank := int(x.Rank)
	o.name, o.n = name, [4]int64{x.Batch, 1, 1, 1}
	lengths := x.N
	if half {
		lengths[rank-1] = lengths[rank-1]/2 + 1
	}
	*embed = lengths
	switch {
	case l.Embed != nil && len(l.Embed) != rank:
		return wrong("%v: %s.Embed has %d lengths: want %d, as N has", x.Type, name, len(l.Embed), rank)
	case l.Stride < 0 || l.Distance < 0:
		return wrong("%v: %s has a stride of %d and a distance of %d: want 0, which means without gaps, or more", x.Type, name, l.Stride, l.Distance)
	}
	for i, n := range l.Embed {
		if int64(n) < lengths[i] {
			return wrong("%v: %s.Embed[%d] is %d: want at least %d, the numbers that lie there", x.Type, name, i, n, lengths[i])
		}
		embed[i] = int64(n)
	}
	*stride, *distance = max(int64(l.Stride), 1), int64(l.Distance)
	step := *stride
	for i := rank - 1; i >= 0; i-- { // the last one runs fastest
		o.n[4-rank+i], o.step[4-rank+i] = lengths[i], step
		step = times(step, embed[i])
	}
	if *distance == 0 {
		*distance = step
	}
	o.step[0] = *distance
	o.span = 1
	for i, n := range o.n {
		if o.span += times(n-1, o.step[i]); o.span < 0 || o.span > most {
			return wrong("%v: %s reaches over more than the %d elements that can be addressed: N is %v, the batch %d, the stride %d and the distance %d",
				x.Type, name, int64(most), x.lengths(), x.Batch, *stride, *distance)
		}
	}
	return nil
}

// most is how many elements can be addressed, of the largest type.
const most = math.MaxInt64 / 16

// times is the product, or the largest number where it is larger.
func times(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt64/2 { // two of them have a sum
		return math.MaxInt64 / 2
	}
	return int64(lo)
}

// apart is why two numbers may lie in the same place, where cuFFT writes, or nil.
func (o *side) apart(t Type) error {
	for i, step := range o.step {
		reach := int64(0) // of what lies closer together
		for j, closer := range o.step {
			if j != i && closer <= step {
				reach += (o.n[j] - 1) * closer
			}
		}
		if o.n[i] > 1 && step <= reach {
			return wrong("%v: numbers of %s lie in each other's place: %d of them are %d elements apart, and what lies between takes %d; see Layout",
				t, o.name, o.n[i], step, reach+1)
		}
	}
	return nil
}

// inPlace is why the output cannot be written over the input, or nil. The sizes are of an element.
func (x *transform) inPlace(in, out int64) error {
	for i := range x.in.n {
		if x.in.n[i] == 1 && x.out.n[i] == 1 {
			continue
		}
		a, b := x.in.step[i]*in, x.out.step[i]*out
		if i == 3 && in != out { // a row of real numbers is half a row of complex ones
			a, b = x.in.step[i], x.out.step[i]
			if a == 1 && b == 1 {
				continue
			}
			return wrong("%v in place: the strides are %d and %d: want 1", x.Type, a, b)
		}
		if a != b {
			return wrong("%v in place: the layouts differ: In has numbers %d bytes apart, and Out %d bytes (for real numbers, see Padded)", x.Type, a, b)
		}
	}
	return x.in.apart(x.Type)
}

// line is a dimension for the kernel that scales.
type line struct{ n, step int }

// lines are the numbers of a side in as few dimensions as can be: the last one is the innermost. parts is 2 for complex numbers.
func (o *side) lines(parts int) []line {
	all := []line{{parts, 1}}
	for i := 3; i >= 0; i-- {
		next, last := line{int(o.n[i]), int(o.step[i]) * parts}, &all[len(all)-1]
		switch {
		case next.n == 1:
		case last.n == 1:
			*last = next
		case next.step == last.n*last.step:
			last.n *= next.n
		default:
			all = append(all, next)
		}
	}
	slices.Reverse(all)
	return all
}
