// Package primitives asks for kernels of the library for its own types.
package primitives

// Pair is x -> A*x + B.
type Pair struct{ A, B uint32 }

// Then is one function after another, which is not the other way round.
type Then struct{}

// Zero is x -> x.
func (Then) Zero() Pair { return Pair{A: 1} }

// Combine is b(a(x)).
func (Then) Combine(a, b Pair) Pair { return Pair{A: a.A * b.A, B: b.A*a.B + b.B} }

// Box is around numbers.
type Box struct {
	Min, Max float32
	Sum      uint64
}

// Union is around both.
type Union struct{}

// Zero is around nothing.
func (Union) Zero() Box { return Box{Min: 1e30, Max: -1e30} }

// Combine is around both.
func (Union) Combine(a, b Box) Box { return Box{min(a.Min, b.Min), max(a.Max, b.Max), a.Sum + b.Sum} }

// Large is more than a tile has room for.
type Large struct{ V [32]uint32 }

// AddLarge adds.
type AddLarge struct{ Factor uint32 }

// Zero is 0.
func (AddLarge) Zero() (zero Large) { return zero }

// Combine adds, and multiplies nothing: the factor is 1.
func (o AddLarge) Combine(a, b Large) Large {
	for i := range a.V {
		a.V[i] += b.V[i] * o.Factor
	}
	return a
}

// Below is a condition with a number in it.
type Below struct{ Bound uint32 }

// Keep reports whether v stays.
func (b Below) Keep(v uint32) bool { return v < b.Bound }

// Wide is a condition of boxes.
type Wide struct{}

// Keep reports whether b stays.
func (Wide) Keep(b Box) bool { return b.Max > b.Min }

//purecuda:instantiate kernels.Scan[uint32, block.Add[uint32]]
//purecuda:instantiate kernels.Scan[float32, block.Add[float32]]
//purecuda:instantiate kernels.Scan[Pair, Then]
//purecuda:instantiate kernels.Scan[Box, Union]
//purecuda:instantiate kernels.Scan[Large, AddLarge]
//purecuda:instantiate kernels.Reduce[float64, block.Add[float64]]
//purecuda:instantiate kernels.Reduce[Box, Union]
//purecuda:instantiate kernels.Select[uint32, Below]
//purecuda:instantiate kernels.Select[Box, Wide]
//purecuda:instantiate kernels.Sort[int32]
//purecuda:instantiate kernels.Sort[float64]
//purecuda:instantiate kernels.SortPairs[float32, uint32]
//purecuda:instantiate kernels.SortPairs[uint64, Box]
//purecuda:instantiate kernels.Scan[int64, block.Add[int64]]
