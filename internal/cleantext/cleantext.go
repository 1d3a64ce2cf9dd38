// Package cleantext makes text of others safe to print: names that a driver tells, variables
// of the environment, flags, paths and contents of files.
package cleantext

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// String returns s as one line of printable text. What does not print becomes an escape of Go's
// syntax. That is control characters with ESC and C1 among them, line ends and separators, and
// tabs. It is also marks that turn the direction of writing, spaces other than ' ', and bytes that
// are not UTF-8. All else, a backslash included, stays as it is, so cleaning twice is cleaning
// once. Nothing is cut.
func String(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) {
		return s
	}
	clean := make([]byte, 0, len(s)+16)
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 || hidden(r) {
			quoted := strconv.Quote(s[:size])
			clean = append(clean, quoted[1:len(quoted)-1]...)
		} else {
			clean = append(clean, s[:size]...)
		}
		s = s[size:]
	}
	return string(clean)
}

func hidden(r rune) bool { return !strconv.IsPrint(r) }
