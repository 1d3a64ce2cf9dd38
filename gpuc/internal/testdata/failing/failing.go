// Package failing asks for kernels of the library with operations that can fail.
package failing

// Picks says which of a few numbers stay. The index of another one is out of range.
type Picks struct{ Kept [4]uint32 }

// Keep reports whether v stays.
func (p Picks) Keep(v uint32) bool { return p.Kept[v] != 0 }

// Less orders by Kept.
func (p Picks) Less(a, b uint32) bool { return p.Kept[a] < p.Kept[b] }

// AddSmall adds, and fails where a sum is larger than Most.
type AddSmall struct{ Most uint32 }

// Zero is 0.
func (AddSmall) Zero() uint32 { return 0 }

// Combine is a + b.
func (o AddSmall) Combine(a, b uint32) uint32 {
	if a+b > o.Most {
		panic("the sum is too large")
	}
	return a + b
}

//purecuda:instantiate kernels.Scan[uint32, AddSmall]
//purecuda:instantiate kernels.Reduce[uint32, AddSmall]
//purecuda:instantiate kernels.ReduceByKey[uint32, uint32, AddSmall]
//purecuda:instantiate kernels.SegmentedReduce[uint32, AddSmall]
//purecuda:instantiate kernels.Select[uint32, Picks]
//purecuda:instantiate kernels.Partition[uint32, Picks]
//purecuda:instantiate kernels.StableSort[uint32, Picks]
//purecuda:instantiate kernels.SegmentedSort[uint32, Picks]
