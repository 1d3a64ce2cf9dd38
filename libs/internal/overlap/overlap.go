// Package overlap finds memory that a call of a library writes and uses in another place as well. The libraries say
// that the result is undefined then, and return success.
package overlap

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// Box is the memory of an operand: so many Bytes from At on, repeated by each level. The zero Box is no memory.
type Box struct {
	Name   string
	Number int // from 1 on among those of the name, or 0
	At     driver.DevicePtr
	Bytes  int64
	Levels [2]Level // the inner one first: the rows of a matrix, and the matrices of a batch
}

// Level repeats memory N times, Step bytes apart. An N of 0 is one of 1.
type Level struct{ N, Step int64 }

// Batch is the memory of count matrices, step elements apart: rows of cols elements, stride elements apart, from an offset on. It is
// no memory where the Ref cannot be used, which the call itself says.
func Batch[T any](name string, ref *runtime.Ref[T], offset, rows, cols, stride, count, step int) Box {
	at, err := ref.Access()
	if err != nil || rows < 1 || cols < 1 || count < 1 {
		return Box{}
	}
	size := int(unsafe.Sizeof(*new(T)))
	return Box{Name: name, At: at + driver.DevicePtr(offset*size), Bytes: int64(cols * size),
		Levels: [2]Level{{int64(rows), int64(stride * size)}, {int64(count), int64(step * size)}}}
}

// First is the memory of the first n elements of a Ref.
func First[T any](name string, ref *runtime.Ref[T], n int) Box {
	return Batch(name, ref, 0, 1, n, n, 1, 0)
}

// span is how far the first so many levels of a box reach.
func (b *Box) span(levels int) int64 {
	bytes := b.Bytes
	for _, l := range b.Levels[:levels] {
		bytes += max(l.N-1, 0) * l.Step
	}
	return bytes
}

func (b *Box) end() driver.DevicePtr { return b.At + driver.DevicePtr(b.span(len(b.Levels))) }

func (b Box) String() string {
	name := b.Name
	if b.Number > 0 {
		name = fmt.Sprintf("%s[%d]", name, b.Number-1)
	}
	return fmt.Sprintf("%s at %#x to %#x", name, uint64(b.At), uint64(b.end()))
}

// Of is an error of kind driver.ErrInvalidArgument if out has memory in common with one of the others.
func Of(out Box, others ...Box) error {
	for i := range others {
		if out.meets(&others[i]) {
			return wrong(&out, &others[i])
		}
	}
	return nil
}

// Each is Of for many calls in one: no out has memory in common with another out, or with one of the others. The boxes of a
// list have one shape.
func Each(out []Box, others ...[]Box) error {
	out = slices.Clone(out)
	slices.SortFunc(out, func(a, b Box) int { return cmp.Compare(a.At, b.At) })
	for i := range out {
		for j := i + 1; j < len(out) && out[j].At < out[i].end(); j++ {
			if out[i].meets(&out[j]) {
				return wrong(&out[j], &out[i])
			}
		}
	}
	for _, all := range others {
		for i := range all {
			b := &all[i]
			for j := sort.Search(len(out), func(j int) bool { return out[j].end() > b.At }); j < len(out) && out[j].At < b.end(); j++ {
				if out[j].meets(b) {
					return wrong(&out[j], b)
				}
			}
		}
	}
	return nil
}

func wrong(out, other *Box) error {
	return driver.Errorf(driver.ErrInvalidArgument, "the call writes %v, which overlaps %v: use memory of its own for each, "+
		"or rows of one stride with nothing in common", *out, *other)
}

// meets tells whether two boxes have memory in common. Of boxes that lie between each other with different steps it says so
// as well: nobody has asked for these yet.
func (b *Box) meets(o *Box) bool {
	if b.Bytes == 0 || o.Bytes == 0 {
		return false
	}
	return b.meetsAt(o, int64(o.At-b.At), len(b.Levels))
}

// maxNear bounds how many pairs of parts of two boxes are compared.
const maxNear = 64

// meetsAt is meets for the first so many levels, with o so many bytes behind b.
func (b *Box) meetsAt(o *Box, distance int64, levels int) bool {
	if distance >= b.span(levels) || -distance >= o.span(levels) {
		return false
	}
	if levels == 0 {
		return true
	}
	mine, theirs := b.Levels[levels-1], o.Levels[levels-1]
	step := mine.Step
	switch {
	case mine.N <= 1 && theirs.N <= 1:
		return b.meetsAt(o, distance, levels-1)
	case mine.N <= 1:
		step = theirs.Step
	case theirs.N > 1 && mine.Step != theirs.Step:
		return true
	}
	if step == 0 { // all parts are one
		return b.meetsAt(o, distance, levels-1)
	}
	// Part j of o is (j-i)*step farther from part i of b than the first ones are from each other.
	first := max(-max(mine.N-1, 0), floor(-o.span(levels-1)-distance, step)+1)
	last := min(max(theirs.N-1, 0), -floor(-b.span(levels-1)+distance, step)-1)
	if last-first >= maxNear {
		return true
	}
	for k := first; k <= last; k++ {
		if b.meetsAt(o, distance+k*step, levels-1) {
			return true
		}
	}
	return false
}

// floor is a divided by b, which is above 0, rounded down.
func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
