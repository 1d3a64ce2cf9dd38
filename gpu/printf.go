package gpu

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
)

// output is where Printf writes.
var output = struct {
	sync.Mutex
	io.Writer
}{Writer: os.Stdout}

// SetOutput says where Printf writes on the CPU; nil is os.Stdout, where it writes at first. Nothing calls w
// concurrently.
func SetOutput(w io.Writer) {
	output.Lock()
	defer output.Unlock()
	output.Writer = w
	if w == nil {
		output.Writer = os.Stdout
	}
}

// Printf prints from a kernel, for debugging. format is a constant. The verbs are package fmt's with flags, width
// and precision: d, x, X, o, e, f, g, t, v, and s for constant strings. A float has 6 digits unless the precision says
// otherwise. Numbers print as numbers, also if their types have a String method.
//
// On a GPU the driver prints, at the latest when the program waits for the kernel. It drops what does not fit into its
// buffer. On the CPU [SetOutput] sets the writer, and calls of Printf are ordered, for the race detector as well.
func (t *Thread) Printf(format string, args ...any) {
	format, args = sixDigits(format, plainArgs(args))
	text := fmt.Sprintf(format, args...)
	output.Lock()
	defer output.Unlock()
	_, _ = io.WriteString(output.Writer, text) // as on a GPU, lost output is nobody's error
}

// plainArgs returns numbers without methods.
func plainArgs(args []any) []any {
	list := make([]any, len(args))
	for i, a := range args {
		if h, ok := a.(interface{ Float32() float32 }); ok {
			a = h.Float32()
		}
		v := reflect.ValueOf(a)
		switch {
		case v.CanInt():
			a = v.Int()
		case v.CanUint():
			a = v.Uint()
		case v.CanFloat():
			a = v.Float()
		case v.Kind() == reflect.Bool:
			a = v.Bool()
		}
		list[i] = a
	}
	return list
}

// sixDigits writes %v and %g of floats as %.6g.
func sixDigits(format string, args []any) (string, []any) {
	var b strings.Builder
	n := 0
	for i := 0; i < len(format); i++ {
		b.WriteByte(format[i])
		if format[i] != '%' {
			continue
		}
		end := i + 1
		for end < len(format) && strings.IndexByte("+-# 0123456789.", format[end]) >= 0 {
			end++
		}
		if end == len(format) {
			break
		}
		spec, verb := format[i+1:end], format[end]
		i = end
		if verb != '%' && n < len(args) {
			if _, ok := args[n].(float64); ok && strings.IndexByte("vgG", verb) >= 0 {
				verb = map[byte]byte{'v': 'g', 'g': 'g', 'G': 'G'}[verb]
				if !strings.Contains(spec, ".") {
					spec += ".6"
				}
			}
			n++
		}
		b.WriteString(spec)
		b.WriteByte(verb)
	}
	return b.String(), args
}
