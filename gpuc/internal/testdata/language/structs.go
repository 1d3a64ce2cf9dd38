package testlanguage

import "github.com/purecuda/purecuda/gpu"

// Matrix is a struct parameter with a slice.
type Matrix struct {
	Data       []float32
	Rows, Cols int
}

// At is an element.
func (m Matrix) At(i, j int) float32 { return m.Data[i*m.Cols+j] }

// Set sets an element.
func (m *Matrix) Set(i, j int, v float32) { m.Data[i*m.Cols+j] = v }

// Row is a part of the matrix.
func (m Matrix) Row(i int) []float32 { return m.Data[i*m.Cols : (i+1)*m.Cols] }

// Inner is nested.
type Inner struct {
	Scale [2]float32
	Flip  bool
	Bias  []float32
}

// Nested has structs, arrays of slices, and a field without a name.
type Nested struct {
	In, Out Matrix
	_       int
	Parts   [2]Inner
	N       int32
}

// Transpose has struct parameters with slices and their methods.
//
//purecuda:kernel
func Transpose(t *gpu.Thread, out, in Matrix) {
	for i := t.GlobalY(); i < in.Rows; i += t.GlobalDimY() {
		for j := t.GlobalX(); j < in.Cols; j += t.GlobalDimX() {
			out.Set(j, i, in.At(i, j))
		}
	}
}

// Nest has a nested struct.
//
//purecuda:kernel
func Nest(t *gpu.Thread, n Nested) {
	i := t.GlobalX()
	if i >= n.In.Rows {
		return
	}
	row := n.In.Row(i)
	sum, largest, odd := float32(0), float32(0), false
	for j, v := range row {
		part := &n.Parts[j&1]
		sum += v * part.Scale[i&1]
		if part.Flip {
			sum -= n.Parts[0].Bias[j]
		} else {
			sum += n.Parts[1].Bias[j]
		}
		largest, odd = keep(largest, v, odd, j)
	}
	if odd {
		sum += largest
	}
	n.Out.Set(i, 0, sum)
	n.N++
	n.Out.Data[i*n.Out.Cols+1] = float32(n.N)
}

// keep has several results.
func keep(largest, v float32, odd bool, j int) (float32, bool) {
	if v > largest {
		return v, j%2 == 1
	}
	return largest, odd
}

// cursor is a struct with a slice that changes, and with the thread.
type cursor struct {
	t    *gpu.Thread
	rest []int32
	sum  int32
}

func (c *cursor) next() bool {
	if len(c.rest) == 0 {
		return false
	}
	c.sum += c.rest[0] * int32(c.t.ThreadX()+1)
	c.rest = c.rest[1:]
	return true
}

// Walk has a struct in a variable that methods change.
//
//purecuda:kernel
func Walk(t *gpu.Thread, out, in []int32) {
	c := cursor{t: t, rest: in[t.ThreadX():]}
	for c.next() {
		if c.sum > 1000 {
			c.rest = c.rest[min(1, len(c.rest)):]
		}
	}
	if i := t.GlobalX(); i < len(out) {
		out[i] = c.sum
	}
}

// Bools has local bools, also in arrays with an index that is not constant.
//
//purecuda:kernel
func Bools(t *gpu.Thread, out []bool, in []int32) {
	i := t.GlobalX()
	if i >= len(in) || i >= len(out) {
		return
	}
	v := in[i]
	var seen [8]bool
	all, any := true, false
	for j := range 20 {
		b := v>>j&1 == 1
		seen[(i+j)&7] = seen[(i+j)&7] != b
		all, any = all && b, any || b
	}
	x := seen[v&7] == any
	out[i] = x && !all || [4]bool{all, any, x, seen[0]}[v&3]
}
