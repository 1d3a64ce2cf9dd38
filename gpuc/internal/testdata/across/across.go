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
//purecuda:instantiate kernels.Sort[uint32]
//purecuda:instantiate kernels.Sort[float32]
//purecuda:instantiate kernels.Sort[int64]

// Place is where an element was.
type Place struct{ Part, At, More uint32 }

//purecuda:instantiate kernels.SortPairs[float32, uint32]
//purecuda:instantiate kernels.SortPairs[int64, Place]

// Bid is what is sorted by a part of it.
type Bid struct {
	Cents uint32
	From  Place
}

// Cheaper orders by Cents, in steps.
type Cheaper struct{ Step uint32 }

// Less reports whether a is cheaper.
func (c Cheaper) Less(a, b Bid) bool { return a.Cents/c.Step < b.Cents/c.Step }

//purecuda:instantiate kernels.StableSort[Bid, Cheaper]

// Disorder is no order: each kind in its own way.
type Disorder struct{ Kind uint32 }

// Disorders is how many kinds there are.
const Disorders = 7

// Less compares numbers, which may be NaNs, as a program should not.
func (d Disorder) Less(a, b float32) bool {
	switch d.Kind {
	case 0:
		return a < b
	case 1:
		return true
	case 2:
		return a <= b
	case 3:
		return a != b
	case 4:
		return !(a < b)
	case 5: // in a circle
		return int32(a*100)%3 == (int32(b*100)+1)%3
	}
	h := uint32(int32(a*1000))*0x9E3779B1 ^ uint32(int32(b*1000))*0x85EBCA77
	return h>>16&1 != 0
}

//purecuda:instantiate kernels.StableSort[float32, Disorder]
//purecuda:instantiate kernels.SegmentedSort[float32, Disorder]
//purecuda:instantiate kernels.Search[float32, Disorder]
