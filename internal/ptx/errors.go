package ptx

import "fmt"

// SyntaxError says where and why a source is not PTX that this package reads.
// Line and Column count from one; Column counts bytes.
type SyntaxError struct {
	Line   int
	Column int
	Token  string // the token at fault; empty at the end of the source
	Msg    string
}

func (e *SyntaxError) Error() string {
	if e.Token == "" {
		return fmt.Sprintf("ptx: line %d, column %d: %s", e.Line, e.Column, e.Msg)
	}
	return fmt.Sprintf("ptx: line %d, column %d: near %q: %s", e.Line, e.Column, e.Token, e.Msg)
}
