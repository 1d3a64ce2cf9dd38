// Package callsite finds the line of a program from which it called the libraries of this module.
package callsite

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

const module = "github.com/purecuda/purecuda/"

// libraries are the packages that a program calls, and those below them: what it called is the
// line that helps.
var libraries = []string{"driver.", "runtime.", "arena.", "refs.", "pool.", "pool/isolate.", "kernels.", "nvrtc.", "gpu/launch.", "internal/",
	"libs/cublas.", "libs/cublas/gonumblas.", "libs/cufft.", "libs/curand.", "libs/cusolver.", "libs/nccl.", "libs/internal/"}

// inLibrary tells the functions of the libraries, and Go's functions that they go through.
func inLibrary(function string) bool {
	name, ours := strings.CutPrefix(function, module)
	if !ours {
		return strings.HasPrefix(function, "sync.") || strings.HasPrefix(function, "runtime.")
	}
	if strings.Contains(name, "_test.") {
		return false // a test of a library is a program
	}
	return slices.ContainsFunc(libraries, func(l string) bool { return strings.HasPrefix(name, l) })
}

// Package is what the names of the functions of a package of this module begin with.
func Package(folder string) string { return module + folder + "." }

// Outside returns the innermost call of a stack that is not in a library, as "file.go:12". Where
// all are, it returns the innermost one whose function does not begin with own. It returns "" for
// an empty stack.
func Outside(stack []uintptr, own string) (line string) {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		switch {
		case frame.PC == 0 || strings.HasPrefix(frame.Function, own):
		case !inLibrary(frame.Function):
			return Line(frame)
		case line == "":
			line = Line(frame)
		}
		if !more {
			return line
		}
	}
}

// Line is the file, without its folder, and the line of a call.
func Line(f runtime.Frame) string {
	return fmt.Sprintf("%s:%d", f.File[strings.LastIndexByte(f.File, '/')+1:], f.Line)
}
