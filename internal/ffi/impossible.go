package ffi

import "sync"

// Impossible keeps what a library has returned that cannot be true: the last value of each
// function, for the error of the call. The zero value is ready. It is safe for concurrent use.
type Impossible struct{ texts sync.Map }

// Note keeps what a function has returned, and what it should have.
func (i *Impossible) Note(function, text string) {
	i.texts.Store(function, function+" succeeded with "+text)
}

// Text is what was noted last of a function, or empty.
func (i *Impossible) Text(function string) string {
	text, _ := i.texts.Load(function)
	s, _ := text.(string)
	return s
}
