package nvrtc

import (
	"bytes"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ffi"
	"github.com/purecuda/purecuda/internal/zero"
)

var _ API = (*Library)(nil)

// Version implements [API].
func (l *Library) Version() (driver.Version, Result) {
	var major, minor int32
	var c struct {
		ffi.Frame
		major, minor *int32
		_            [ffi.RegisterWords - 2]uintptr
	}
	c.major, c.minor = &major, &minor
	r := l.call(fnVersion, &c.Frame, 2)
	if r == Success && (major < minVersion/1000 || major > maxVersion/1000 || minor < 0 || minor > 99) {
		return 0, l.fails(fnVersion, "succeeded with version %d.%d: want %d.0 to %d.99", major, minor, minVersion/1000, maxVersion/1000)
	}
	return driver.Version(1000*major + 10*minor), r
}

// SupportedArchs implements [API].
func (l *Library) SupportedArchs() ([]int, Result) {
	var count int32
	var c struct {
		ffi.Frame
		out *int32
		_   [ffi.RegisterWords - 1]uintptr
	}
	c.out = &count
	if r := l.call(fnGetNumSupportedArchs, &c.Frame, 1); r != Success {
		return nil, r
	}
	if count < 1 || count > maxArchs {
		return nil, l.fails(fnGetNumSupportedArchs, "succeeded with %d architectures: want 1 to %d", count, maxArchs)
	}
	values := make([]int32, count)
	c.out = unsafe.SliceData(values)
	if r := l.call(fnGetSupportedArchs, &c.Frame, 1); r != Success {
		return nil, r
	}
	archs := make([]int, count)
	for i, v := range values {
		if v < minArch || v > maxArch {
			return nil, l.fails(fnGetSupportedArchs, "succeeded with architecture %d: want %d to %d", v, minArch, maxArch)
		}
		archs[i] = int(v)
	}
	return archs, Success
}

// CreateProgram implements [API].
func (l *Library) CreateProgram(source, name string, headers []Header) (program Handle, r Result) {
	sourceC, ok1 := ffi.CString(source)
	nameC, ok2 := ffi.CString(name)
	texts, names := make([]string, len(headers)), make([]string, len(headers))
	for i, h := range headers {
		texts[i], names[i] = h.Text, h.Name
	}
	textsC, ok3 := cStrings(texts)
	namesC, ok4 := cStrings(names)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return 0, ResultInvalidInput
	}
	var c struct {
		ffi.Frame
		program      *Handle
		source, name *byte
		headers      uintptr
		texts, names **byte
		_            [ffi.RegisterWords - 6]uintptr
	}
	c.program, c.source, c.name = &program, sourceC, nameC
	c.headers, c.texts, c.names = uintptr(len(headers)), textsC, namesC
	r = l.call(fnCreateProgram, &c.Frame, 6)
	if r == Success && program == 0 {
		r = l.fails(fnCreateProgram, "succeeded with program 0, which is none")
	}
	return program, r
}

// DestroyProgram implements [API].
func (l *Library) DestroyProgram(program Handle) Result {
	var c struct {
		ffi.Frame
		program *Handle
		_       [ffi.RegisterWords - 1]uintptr
	}
	c.program = &program
	return l.call(fnDestroyProgram, &c.Frame, 1)
}

// AddNameExpression implements [API].
func (l *Library) AddNameExpression(program Handle, expression string) Result {
	text, ok := ffi.CString(expression)
	if !ok {
		return ResultInvalidInput
	}
	var c struct {
		ffi.Frame
		program    Handle
		expression *byte
		_          [ffi.RegisterWords - 2]uintptr
	}
	c.program, c.expression = program, text
	return l.call(fnAddNameExpression, &c.Frame, 2)
}

// compileCall is the argument block of nvrtcCompileProgram.
type compileCall struct {
	ffi.Frame
	program Handle
	options uintptr
	texts   **byte
	_       [ffi.RegisterWords - 3]uintptr
}

// CompileProgram implements [API].
func (l *Library) CompileProgram(program Handle, options []string, stop func() bool) Result {
	l = zero.Or(l)
	texts, ok := cStrings(options)
	if !ok {
		return ResultInvalidInput
	}
	// The compile may call back into Go on this thread, which may move the stack. The block must be
	// on the heap, and being in the map makes certain that it is.
	c := &compileCall{program: program, options: uintptr(len(options)), texts: texts}
	l.compiling.Store(c, nil)
	defer l.compiling.Delete(c)
	if stop != nil {
		defer l.askDuringCompile(program, stop)()
	}
	return l.call(fnCompileProgram, &c.Frame, 3)
}

// askDuringCompile makes NVRTC ask stop while it compiles a program, where it can, and
// returns what ends that.
func (l *Library) askDuringCompile(program Handle, stop func() bool) (end func()) {
	if !ffi.CanCallBack || l.fn[fnSetFlowCallback] == 0 {
		return func() {}
	}
	fn, data := ffi.AnswerFunc(func() int32 {
		if stop() {
			return 1
		}
		return 0
	})
	if l.setFlowCallback(program, fn, data) != Success {
		ffi.DropHostFunc(data)
		return func() {} // then the compile runs to its end
	}
	return func() {
		l.setFlowCallback(program, 0, 0)
		ffi.DropHostFunc(data)
	}
}

func (l *Library) setFlowCallback(program Handle, fn, data uintptr) Result {
	var c struct {
		ffi.Frame
		program  Handle
		fn, data uintptr
		_        [ffi.RegisterWords - 3]uintptr
	}
	c.program, c.fn, c.data = program, fn, data
	return l.call(fnSetFlowCallback, &c.Frame, 3)
}

// ProgramLog implements [API].
func (l *Library) ProgramLog(program Handle) (string, Result) {
	log, r := l.output(program, fnGetProgramLogSize, fnGetProgramLog)
	text, _, _ := bytes.Cut(log, []byte{0})
	return string(text), r
}

// PTX implements [API].
func (l *Library) PTX(program Handle) ([]byte, Result) {
	ptx, r := l.output(program, fnGetPTXSize, fnGetPTX)
	ptx, _, _ = bytes.Cut(ptx, []byte{0})
	return ptx, r
}

// CUBIN implements [API].
func (l *Library) CUBIN(program Handle) ([]byte, Result) {
	return l.output(program, fnGetCUBINSize, fnGetCUBIN)
}

// LTOIR implements [API].
func (l *Library) LTOIR(program Handle) ([]byte, Result) {
	return l.output(program, fnGetLTOIRSize, fnGetLTOIR)
}

// output calls a pair of functions: how many bytes there are, and copy them.
func (l *Library) output(program Handle, sizeOf, get function) ([]byte, Result) {
	var size uintptr
	var s struct {
		ffi.Frame
		program Handle
		size    *uintptr
		_       [ffi.RegisterWords - 2]uintptr
	}
	s.program, s.size = program, &size
	if r := l.call(sizeOf, &s.Frame, 2); r != Success || size == 0 {
		return nil, r
	}
	if size > maxOutput {
		return nil, l.fails(sizeOf, "succeeded with %d bytes: want %d at most", size, maxOutput)
	}
	data := make([]byte, size)
	var c struct {
		ffi.Frame
		program Handle
		data    *byte
		_       [ffi.RegisterWords - 2]uintptr
	}
	c.program, c.data = program, unsafe.SliceData(data)
	if r := l.call(get, &c.Frame, 2); r != Success {
		return nil, r
	}
	return data, Success
}

// LoweredName implements [API].
func (l *Library) LoweredName(program Handle, expression string) (string, Result) {
	text, ok := ffi.CString(expression)
	if !ok {
		return "", ResultInvalidInput
	}
	var name *byte // owned by the program
	var c struct {
		ffi.Frame
		program    Handle
		expression *byte
		name       **byte
		_          [ffi.RegisterWords - 3]uintptr
	}
	c.program, c.expression, c.name = program, text, &name
	if r := l.call(fnGetLoweredName, &c.Frame, 3); r != Success {
		return "", r
	}
	if name == nil {
		return "", l.fails(fnGetLoweredName, "succeeded with no name")
	}
	return ffi.GoString(name), Success
}
