// Package zero makes nil receivers of exported methods zero values, which the methods refuse or
// read as they are: what a program forgot to make must not end it.
package zero

// Or returns p, or a new zero value if p is nil.
func Or[T any](p *T) *T {
	if p == nil {
		return made[T]()
	}
	return p
}

// made stays out of its callers. Else each of their frames would have room for the value, and the stack of a new goroutine would grow.
//
//go:noinline
func made[T any]() *T { return new(T) }
