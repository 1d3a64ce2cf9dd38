package library

import (
	"fmt"
	"reflect"
	goruntime "runtime"
	"strconv"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ffi"
	"github.com/purecuda/purecuda/internal/zero"
)

// Status is what a function returned that did not succeed. It is a target for errors.Is:
// errors.Is(err, library.Status(3)).
type Status int32

func (s Status) Error() string { return "status " + strconv.Itoa(int(s)) }

// Call calls a function that returns a status. See [Library.Word] for the arguments.
//
// The error is of kind [driver.ErrDriverCallFailed] and wraps a [Status] where the function did not return 0. It is of kind
// [driver.ErrSymbolMissing] where the library does not have the function, and of kind [driver.ErrInvalidArgument] where an
// argument cannot be passed.
func (l *Library) Call(function string, args ...any) error {
	word, err := l.Word(function, args...)
	if s := Status(int32(word)); err == nil && s != 0 {
		name := zero.Or(l).description.Statuses[s]
		if name == "" {
			name = "a result that its description does not name"
		}
		e := driver.Errorf(driver.ErrDriverCallFailed, "%s: %w", name, s)
		e.Op = function
		return e
	}
	return err
}

// Word calls a function and returns what it left in the register of integers: a number of 32 bits is in the lower half.
//
// The arguments are the C function's, and their types must have its sizes: int32 for int, uint64 for size_t. An
// argument is an integer, a float32 or float64, a bool, a string, nil, or a pointer. A slice is the address of its first
// element. A handle of the library is a uintptr, memory of the device a [driver.DevicePtr]. Structures by value and functions
// cannot be passed.
//
// The call blocks as long as the function does, and allocates some hundred bytes. What an argument points to may be used by
// the function until it returns, and must not be moved by the program meanwhile: no other goroutine writes there. A function
// that needs the context of CUDA current is called within runtime.Context.Do or runtime.Stream.Submit.
func (l *Library) Word(function string, args ...any) (uintptr, error) {
	fn := l.Symbol(function)
	if fn == 0 {
		e := driver.Errorf(driver.ErrSymbolMissing, "%s %v does not have %s: look at its documentation for the version that brings it",
			zero.Or(l).name(), l.Version(), function)
		e.Op = function
		return 0, e
	}
	if len(args) > ffi.MaxWords {
		return 0, refused(function, "%d arguments: want %d at most", len(args), ffi.MaxWords)
	}
	b := &block{args: args}
	floats := uint32(0)
	for i, arg := range args {
		word, float, err := b.word(arg)
		if err != nil {
			return 0, refused(function, "argument %d: %w", i, err)
		}
		b.words[i] = word
		if float {
			floats |= 1 << i
		}
	}
	defer goruntime.KeepAlive(b)
	if floats != 0 {
		return b.CallFloats(fn, len(args), floats), nil
	}
	return b.Call(fn, len(args)), nil
}

func (l *Library) name() string {
	if l.description.Name == "" {
		return "a library that is not open"
	}
	return l.description.Name
}

func refused(function, format string, a ...any) error {
	e := driver.Errorf(driver.ErrInvalidArgument, format, a...)
	e.Op = function
	return e
}

// block is what C reads in a call. It is on the heap, and keeps the arguments there: words that are addresses of them stay true.
type block struct {
	ffi.Frame
	words [ffi.MaxWords]uintptr
	args  []any
	texts []*byte
}

// word is an argument as C gets it.
func (b *block) word(arg any) (word uintptr, float bool, err error) {
	v := reflect.ValueOf(arg)
	switch v.Kind() {
	case reflect.Invalid: // nil
		return 0, false, nil
	case reflect.Bool:
		if v.Bool() {
			word = 1
		}
		return word, false, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return uintptr(v.Int()), false, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return uintptr(v.Uint()), false, nil
	case reflect.Float32:
		return ffi.Float32(float32(v.Float())), true, nil
	case reflect.Float64:
		return ffi.Float64(v.Float()), true, nil
	case reflect.String:
		text, ok := ffi.CString(v.String())
		if !ok {
			return 0, false, fmt.Errorf("%q has a NUL, where a string of C ends", v.String())
		}
		b.texts = append(b.texts, text)
		return uintptr(unsafe.Pointer(text)), false, nil
	case reflect.Pointer, reflect.UnsafePointer, reflect.Slice:
		return v.Pointer(), false, nil
	}
	return 0, false, fmt.Errorf("a %v: want an integer, a float, a bool, a string, a slice, a pointer or nil", v.Type())
}
