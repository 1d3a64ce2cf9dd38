// Package zero makes nil receivers of exported methods zero values, which the methods refuse or
// read as they are: what a program forgot to make must not end it.
package zero

// Or returns p, or a new zero value if p is nil.
func Or[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}
