// Package across asks for the kernels of calls over several devices.
package across

// Pair is x -> A*x + B.
type Pair struct{ A, B uint32 }

// Then is one function after another, which is not the other way round.
type Then struct{}

// Zero is x -> x.
func (Then) Zero() Pair { return Pair{A: 1} }

// Combine is b(a(x)).
func (Then) Combine(a, b Pair) Pair { return Pair{A: a.A * b.A, B: b.A*a.B + b.B} }

//purecuda:instantiate kernels.ScanAcross[float32, block.Add[float32]]
//purecuda:instantiate kernels.ScanAcross[Pair, Then]
//purecuda:instantiate kernels.SortAcross[uint32]
//purecuda:instantiate kernels.SortAcross[float32]
//purecuda:instantiate kernels.SortAcross[int64]
