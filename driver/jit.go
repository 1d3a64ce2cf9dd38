package driver

import (
	"math"
	goruntime "runtime"
	"unsafe"
)

// JIT says how the driver compiles PTX. The zero value is the driver's default.
type JIT struct {
	// MaxRegisters limits the registers of a thread; 0 is no limit.
	MaxRegisters int
	// Optimization is the level from 1 to 4, or 0 for the highest.
	Optimization int
	// LineInfo and DebugInfo keep source lines for profilers and debuggers.
	LineInfo, DebugInfo bool
	// Verbose adds registers and memory of each kernel to the information log.
	Verbose bool
}

// JITLog is what the driver's compiler said. Both texts are empty for an image
// that was compiled before, and cut at 16 KiB.
type JITLog struct {
	Info, Error  string
	Milliseconds float32 // spent compiling
}

// jitLogBytes is the size of each log buffer. make gives a slice of this size
// heap memory, which does not move: C is told its address as a plain number.
const jitLogBytes = 16 << 10

// jitCall holds the option arrays of one call and the buffers behind them.
type jitCall struct {
	options     []jitOption
	values      []uintptr
	info, error []byte
	timeAt      int
}

func (jit JIT) call() *jitCall {
	c := &jitCall{info: make([]byte, jitLogBytes), error: make([]byte, jitLogBytes)}
	add := func(option jitOption, value uintptr) {
		c.options = append(c.options, option)
		c.values = append(c.values, value)
	}
	c.timeAt = len(c.values)
	add(jitWallTime, 0) // a float, written into the value itself
	add(jitInfoLog, uintptr(unsafe.Pointer(unsafe.SliceData(c.info))))
	add(jitInfoLogBytes, jitLogBytes)
	add(jitErrorLog, uintptr(unsafe.Pointer(unsafe.SliceData(c.error))))
	add(jitErrorLogBytes, jitLogBytes)
	if jit.MaxRegisters > 0 {
		add(jitMaxRegisters, uintptr(min(jit.MaxRegisters, math.MaxInt32)))
	}
	if jit.Optimization > 0 {
		add(jitOptimizationLevel, uintptr(min(jit.Optimization, math.MaxInt32)))
	}
	if jit.LineInfo {
		add(jitGenerateLineInfo, 1)
	}
	if jit.DebugInfo {
		add(jitGenerateDebugInfo, 1)
	}
	if jit.Verbose {
		add(jitLogVerbose, 1)
	}
	return c
}

func (c *jitCall) log() JITLog {
	ms := *(*float32)(unsafe.Pointer(&c.values[c.timeAt]))
	return JITLog{Info: textOf(c.info), Error: textOf(c.error), Milliseconds: ms}
}

// ModuleLoadData implements [API].
func (l *Library) ModuleLoadData(image []byte, jit JIT) (module Module, log JITLog, r Result) {
	image, ok := imageForC(image)
	if !ok {
		return 0, log, ResultInvalidImage
	}
	c := jit.call()
	r = l.moduleLoadDataEx(&module, unsafe.SliceData(image),
		uint32(len(c.options)), unsafe.SliceData(c.options), unsafe.SliceData(c.values))
	log = c.log()
	goruntime.KeepAlive(c)
	return module, log, notZero(l, fnModuleLoadDataEx, r, "module", module)
}

// LibraryLoadData implements [API].
func (l *Library) LibraryLoadData(image []byte, jit JIT) (library KernelLibrary, log JITLog, r Result) {
	image, ok := imageForC(image)
	if !ok {
		return 0, log, ResultInvalidImage
	}
	c := jit.call()
	r = l.libraryLoadData(&library, unsafe.SliceData(image),
		unsafe.SliceData(c.options), unsafe.SliceData(c.values), uint32(len(c.options)), nil, nil, 0)
	log = c.log()
	goruntime.KeepAlive(c)
	return library, log, notZero(l, fnLibraryLoadData, r, "library", library)
}
