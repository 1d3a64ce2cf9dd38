// Package sample has one of each declaration.
package sample

import "io"

const (
	Untyped       = "a b"
	Typed   Level = 1 << 40
	Ratio         = 0.25
	private       = 1
)

var Changed = map[string]func(before int) (after int, err error){}

type Level int64

func (l Level) String() string { return "" }

type hidden struct {
	Promoted int
	kept     int
}

func (h *hidden) Method() {}

type Both struct {
	hidden
	io.Reader
	Named  []byte `json:"named"`
	secret bool
}

func (b Both) ByValue(n int, more ...string) (first, second error) { return nil, nil }

type List[T any, N ~int64 | ~uint] struct{ Items []T }

func (l *List[T, N]) At(n N) (item T) { return item }

type Short = List[int, Level]

type Sealed interface {
	io.Closer
	Read(p []byte) (n int, err error)
	sealed()
}

type Number interface{ ~int | ~float64 }

func Map[In, Out any](f func(in In) Out, in []In, to chan<- Out) {}

func unused() { _, _, _ = private, hidden{}.kept, Both{}.secret }

type Doer interface{ Do() }

// Embeds has the methods of Doer, which are listed there.
type Embeds struct{ Doer }
