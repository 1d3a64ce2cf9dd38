package runtime

import (
	"fmt"
	"slices"

	"github.com/purecuda/purecuda/internal/ptx"
)

// argType is what an argument is, as one bit.
type argType uint8

// A Struct has none of these: its bytes fit every parameter of their size.
const (
	signedArg argType = 1 << iota
	unsignedArg
	floatArg
	addressArg
	anyWidth // with signedArg: a number that a parameter of 4 bytes takes as well, if it fits
)

// argTypeOf is the type of a scalar. The compiler knows it.
func argTypeOf[T Scalar]() argType {
	var zero T
	switch one := zero + 1; {
	case one/2 != 0:
		return floatArg
	case zero-one < zero:
		return signedArg
	}
	return unsignedArg
}

// refusedBy is what a parameter does not take, among the arguments of its size. PTX does
// not tell a signed number from an unsigned one or from an address, and has arrays of bytes
// for structures. Half precision has no type in Go.
func refusedBy(p *ptx.Param) argType {
	switch {
	case p.Array:
		return 0
	case p.Type == ptx.F32 || p.Type == ptx.F64:
		return signedArg | unsignedArg | addressArg
	case p.Type.Class() == ptx.ClassUint || p.Type.Class() == ptx.ClassSint:
		return floatArg
	}
	return 0
}

// what is the type of an argument in Go's words.
func (a *Arg) what() string {
	bits := 8 * a.size
	switch a.typ {
	case signedArg:
		return fmt.Sprintf("an int%d", bits)
	case signedArg | anyWidth:
		return "an int"
	case unsignedArg:
		return fmt.Sprintf("a uint%d", bits)
	case floatArg:
		return fmt.Sprintf("a float%d", bits)
	case addressArg:
		return "an address"
	}
	return fmt.Sprintf("a structure of %d bytes", a.size)
}

// typeError says which argument does not fit the type of its parameter, if all have the
// right sizes.
func (k *Kernel) typeError(args []Arg) error {
	if !slices.EqualFunc(args, k.params, func(a Arg, p param) bool { return a.size == p.size || a.typ&anyWidth != 0 && p.size == 4 }) {
		return nil
	}
	for i := range args {
		if a, p := &args[i], &k.declared[i]; a.typ&k.params[i].refused != 0 {
			want := fmt.Sprintf("an integer of %d bytes", p.Size)
			if p.Type.Class() == ptx.ClassFloat {
				want = fmt.Sprintf("a float%d", 8*p.Size)
			}
			return k.invalid("argument %d is %s, and parameter %s of kernel %s is a %v: want %s (Struct passes bytes as they are)",
				i, a.what(), p.Name, k.name, p.Type, want)
		}
	}
	return nil
}
