// Package catalogue asks for more kernels of the library for its own types.
package catalogue

// Pair is two numbers.
type Pair struct{ A, B uint32 }

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

// Below is a condition with a number in it.
type Below struct{ Bound uint32 }

// Keep reports whether v stays.
func (b Below) Keep(v uint32) bool { return v < b.Bound }

// Wide is a condition of boxes.
type Wide struct{}

// Keep reports whether b stays.
func (Wide) Keep(b Box) bool { return b.Max > b.Min }

// ByA is an order in which many pairs are equal.
type ByA struct{ Descending bool }

// Less compares A.
func (o ByA) Less(a, b Pair) bool {
	if o.Descending {
		a, b = b, a
	}
	return a.A < b.A
}

// Up is the order of numbers.
type Up struct{}

// Less is <.
func (Up) Less(a, b uint32) bool { return a < b }

//purecuda:instantiate kernels.Unique[float32]
//purecuda:instantiate kernels.Unique[Pair]
//purecuda:instantiate kernels.Partition[uint32, Below]
//purecuda:instantiate kernels.Partition[Box, Wide]
//purecuda:instantiate kernels.RunLengths[uint32]
//purecuda:instantiate kernels.RunLengths[Box]
//purecuda:instantiate kernels.ReduceByKey[uint32, uint32, block.Add[uint32]]
//purecuda:instantiate kernels.ReduceByKey[Pair, Box, Union]
//purecuda:instantiate kernels.TopK[float32]
//purecuda:instantiate kernels.TopK[int64]
//purecuda:instantiate kernels.Histogram[int32]
//purecuda:instantiate kernels.Histogram[float32]
//purecuda:instantiate kernels.Histogram[uint64]
//purecuda:instantiate kernels.SegmentedReduce[Box, Union]
//purecuda:instantiate kernels.Search[Pair, ByA]
//purecuda:instantiate kernels.StableSort[uint32, Up]
//purecuda:instantiate kernels.StableSort[Pair, ByA]
//purecuda:instantiate kernels.SegmentedSort[Pair, ByA]
