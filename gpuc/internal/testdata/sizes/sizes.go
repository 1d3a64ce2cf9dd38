// Package sizes asks for kernels of the library for elements that fill no vectors, and for those that are larger than a thread's part of a tile.
package sizes

// Words are elements of 24, 40 and 216 bytes.
type Words interface {
	[3]uint64 | [5]uint64 | [27]uint64
}

// Then is one function x -> W[0]*x + W[1] after another, which is not the other way round. The other words are sums.
type Then[W Words] struct{}

// Zero is x -> x.
func (Then[W]) Zero() (w W) {
	w[0] = 1
	return w
}

// Combine is b(a(x)).
func (Then[W]) Combine(a, b W) W {
	a[0], a[1] = a[0]*b[0], b[0]*a[1]+b[1]
	for i := 2; i < len(a); i++ {
		a[i] += b[i]
	}
	return a
}

// Odd is a condition.
type Odd[W Words] struct{}

// Keep reports whether the second word is odd.
func (Odd[W]) Keep(w W) bool { return w[1]%2 != 0 }

// Fits and Large are the largest elements of a selection on compute capability 7.5, and larger ones.
type (
	Fits  [63]uint32
	Large [64]uint32
)

// Any keeps all.
type Any[T any] struct{}

// Keep is true.
func (Any[T]) Keep(T) bool { return true }

//purecuda:instantiate kernels.Select[Fits, Any[Fits]]
//purecuda:instantiate kernels.Select[Large, Any[Large]]
//purecuda:instantiate kernels.Partition[Large, Any[Large]]
//purecuda:instantiate kernels.Unique[Large]
//purecuda:instantiate kernels.SortPairs[uint32, [41]uint32]
//purecuda:instantiate kernels.SortPairs[uint32, [42]uint32]

//purecuda:instantiate kernels.Scan[[3]uint64, Then[[3]uint64]]
//purecuda:instantiate kernels.Scan[[5]uint64, Then[[5]uint64]]
//purecuda:instantiate kernels.Scan[[27]uint64, Then[[27]uint64]]
//purecuda:instantiate kernels.Select[[3]uint64, Odd[[3]uint64]]
//purecuda:instantiate kernels.Partition[[5]uint64, Odd[[5]uint64]]
//purecuda:instantiate kernels.Unique[[3]uint64]
//purecuda:instantiate kernels.RunLengths[[27]uint64]
//purecuda:instantiate kernels.ReduceByKey[uint32, [3]uint64, Then[[3]uint64]]
//purecuda:instantiate kernels.ReduceByKey[[27]uint64, [27]uint64, Then[[27]uint64]]
