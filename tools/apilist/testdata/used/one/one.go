// Package one exports what package two, an example or a document uses, and what nobody does.
package one

import "fmt"

// Called is used by package two.
func Called() Shown { return Shown{} }

// Shown is the result of what is used.
type Shown struct {
	Read   int
	Unread int
	Tagged int `json:"tagged"`
}

// String implements [fmt.Stringer].
func (s Shown) String() string { return fmt.Sprint(s.Read) }

// Unused is called here only.
func (s Shown) Unused() string { return s.String() }

// Color is a type of constants, one of which is used.
type Color int

// Colors.
const (
	Red Color = iota
	Blue
)

// Lonely is a constant of no type.
const Lonely = 1

// Doer is implemented by package two.
type Doer interface{ Do() Given }

// Given is what a [Doer] returns.
type Given struct{}

// Opener is implemented here, and used by package two.
type Opener interface{ Open() }

// File implements [Opener].
type File struct{}

// Open implements [Opener].
func (*File) Open() {}

// NewFile is for package two.
func NewFile() Opener { return &File{} }

// Documented stands in README.md.
func Documented() {}

// Mentioned stands there in prose, which is no use.
func Mentioned() {}

// Exemplary has an example.
func Exemplary() {}

// Tested is used by the tests of this package only.
func Tested() {}

// Generic is used with a type.
func Generic[T any](t T) T { return t }

// Pair is written without the names of its fields.
type Pair struct{ First, Second int }
