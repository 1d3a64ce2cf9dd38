// Package narrow asks for kernels of the library for types of less than 4 bytes.
package narrow

// Color has three bytes.
type Color struct{ R, G, B uint8 }

// Mark has space between its fields, and behind them.
type Mark struct {
	On bool
	ID int16
	Of uint8
}

// Last is the last value that is not zero.
type Last[T comparable] struct{}

// Zero is the zero value.
func (Last[T]) Zero() (zero T) { return zero }

// Combine is b, where that is not zero.
func (Last[T]) Combine(a, b T) T {
	if b == (Last[T]{}).Zero() {
		return a
	}
	return b
}

// Or is whether one of both holds.
type Or struct{}

// Zero is false.
func (Or) Zero() bool { return false }

// Combine is a or b.
func (Or) Combine(a, b bool) bool { return a || b }

//purecuda:instantiate kernels.Scan[int16, block.Add[int16]]
//purecuda:instantiate kernels.Scan[bool, Or]
//purecuda:instantiate kernels.Scan[Color, Last[Color]]
//purecuda:instantiate kernels.Scan[Mark, Last[Mark]]
//purecuda:instantiate kernels.Reduce[uint8, block.Add[uint8]]
//purecuda:instantiate kernels.Reduce[bool, Or]
//purecuda:instantiate kernels.Unique[bool]
//purecuda:instantiate kernels.Unique[Color]
//purecuda:instantiate kernels.ReduceByKey[uint8, bool, Or]
//purecuda:instantiate kernels.ReduceByKey[Mark, Color, Last[Color]]
//purecuda:instantiate kernels.RunLengths[int8]
