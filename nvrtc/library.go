package nvrtc

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/dl"
	"github.com/purecuda/purecuda/internal/ffi"
	"github.com/purecuda/purecuda/internal/zero"
)

// Library is the NVRTC of this machine. It implements [API] and is safe for concurrent
// use. It is never unloaded.
type Library struct {
	lib   *library.Library
	file  string // that was loaded, or "" where that is not known
	build string
	fn    [functionCount]uintptr

	// compiling holds the argument blocks of the compiles that run.
	compiling sync.Map

	impossible atomic.Pointer[string] // what was returned last that cannot be true
}

// Open loads NVRTC. With no argument it looks in the places where it is installed (see
// [Candidates]); otherwise it tries the given files, in order. libnvrtc-builtins of the
// same directory, without which NVRTC loads and cannot compile, is loaded with it.
//
// The error is of kind [driver.ErrLibraryUnavailable] if no candidate is there or the platform has none,
// and says what to install; errors.Is finds [driver.ErrUnsupported] in it as well. It is of kind
// [driver.ErrDriverLibraryLoadFailed] if one is there and none can be used. Both carry all attempts. It
// reads files and may block on them: loading takes from 2 ms, if the files are in memory, to a second.
func Open(candidates ...string) (*Library, error) {
	lib, err := description.Open(candidates...)
	if err != nil {
		return nil, err
	}
	l := &Library{lib: lib, file: lib.File()}
	l.resolve()
	openBuiltins(l.file)
	l.build = buildOf(l.file)
	return l, nil
}

// openBuiltins loads libnvrtc-builtins from beside a library. It is no dependency that the
// loader knows of: NVRTC asks for it by its bare name at the first compile, and gets the one
// that is loaded already. Where there is none, or it does not load, NVRTC says so then.
func openBuiltins(library string) {
	for _, builtins := range builtinsOf(library) {
		_, _, _ = dl.Open(builtins)
	}
}

// buildOf is the name of a library's file, with all links resolved, libnvrtc.so.12.4.127, and
// its size.
func buildOf(file string) string {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return ""
	}
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d", filepath.Base(file), info.Size())
}

// Shared reports that other code had loaded the library into the process before.
func (l *Library) Shared() bool { return zero.Or(l).lib.Shared() }

// Build implements [API].
func (l *Library) Build() string { return zero.Or(l).build }

// call makes one call. It lets frame, and what it points to, stay on the stack.
func (l *Library) call(f function, frame *ffi.Frame, words int) Result {
	if l == nil || l.fn[f] == 0 {
		return ResultSymbolMissing
	}
	fn := l.fn[f]
	r := Result(int32(frame.Call(fn, words)))
	if r < Success { // ours are negative
		return l.fails(f, "returned %d: want a result that is not negative", int32(r))
	}
	return r
}

// The bounds of what an NVRTC returns.
const (
	minVersion, maxVersion = 1000, 999_999
	minArch, maxArch       = 10, 9999
	maxArchs               = 1024
	maxOutput              = 1 << 30 // bytes of code, or of a log
)

// fails keeps what a function has returned for the error of the call, and is its result.
func (l *Library) fails(f function, format string, args ...any) Result {
	text := functions[f].names[0] + " " + fmt.Sprintf(format, args...)
	l.impossible.Store(&text)
	return ResultImpossibleValue
}

// explain says what was returned last that cannot be true.
func (l *Library) explain() string {
	if text := l.impossible.Load(); text != nil {
		return *text
	}
	return ""
}
