package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf16"

	"github.com/purecuda/purecuda/internal/cleantext"
)

// output is stdout. It keeps the first error of writing, for those who print and do not look.
type output struct {
	io.Writer
	columns int // of a terminal; 0: Writer tells
	err     error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// width of the terminal on stdout, or what is usual.
func (o *output) width() int {
	if o.columns > 0 {
		return o.columns
	}
	if file, ok := o.Writer.(*os.File); ok {
		if width, _ := terminalWidth(file); width > 0 {
			return width
		}
	}
	return 80
}

// line prints a line for people. Names of devices and files and whatever else was not written here
// may hold anything.
func line(out io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintln(out, cleantext.String(fmt.Sprintf(format, args...)))
}

// writeJSON prints a document. What a terminal would obey is escaped, as JSON allows for
// every character.
func writeJSON(out io.Writer, document any) error {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		return err
	}
	lines := strings.Split(b.String(), "\n")
	for i, text := range lines {
		if cleantext.String(text) != text {
			lines[i] = escapeJSON(text)
		}
	}
	_, err := io.WriteString(out, strings.Join(lines, "\n"))
	return err
}

// escapeJSON writes what does not print as escapes of JSON.
func escapeJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case cleantext.String(string(r)) == string(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
