//go:build (linux && (amd64 || arm64 || loong64 || riscv64)) || (windows && (amd64 || arm64))

package nvtx

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/purecuda/purecuda/internal/dl"
	"github.com/purecuda/purecuda/internal/ffi"
)

// variable names the profiler's library.
const variable = "NVTX_INJECTION64_PATH"

// What the headers of NVTX 3 number.
const (
	tableCallbacks = 1 // NVTX_ETID_CALLBACKS
	moduleCore     = 1 // NVTX_CB_MODULE_CORE
	rangeStartA    = 5 // NVTX_CBID_CORE_RangeStartA
	rangeEnd       = 7 // NVTX_CBID_CORE_RangeEnd
	coreSize       = 16
)

// tables are what the profiler reads and writes. They never move, and callbacks, which are for ever, keep them.
type tables struct {
	callbacks struct { // NvtxExportTableCallbacks
		size  uintptr
		table uintptr // GetModuleFunctionTable
	}
	functions [coreSize]uintptr  // of the profiler
	slots     [coreSize]*uintptr // where they are stored; the first one is none
}

// listen asks a library whether it listens, once in the life of the process.
var listen = sync.OnceValue(func() *tables {
	file := dl.Getenv(variable)
	if file == "" {
		return nil
	}
	return initialize(file)
})

func initialize(file string) *tables {
	lib, _, err := dl.Open(file)
	if err != nil {
		return nil
	}
	start := lib.Symbol("InitializeInjectionNvtx2")
	if start == 0 {
		return nil
	}
	t := new(tables)
	for i := 1; i < coreSize; i++ {
		t.slots[i] = &t.functions[i]
	}
	t.callbacks.size = unsafe.Sizeof(t.callbacks)
	t.callbacks.table = purego.NewCallback(func(module uint32, table *unsafe.Pointer, size *uint32) uintptr {
		if module != moduleCore || table == nil {
			return 0
		}
		*table = unsafe.Pointer(&t.slots)
		if size != nil {
			*size = coreSize
		}
		return 1
	})
	exports := purego.NewCallback(func(id uint32) uintptr {
		if id != tableCallbacks {
			return 0
		}
		return uintptr(unsafe.Pointer(&t.callbacks))
	})
	c := &struct { // on the heap: the function calls back into Go
		ffi.Frame
		exports uintptr
		_       [ffi.RegisterWords - 1]uintptr
	}{exports: exports}
	if int32(c.Call(start, 1)) == 0 || t.functions[rangeStartA] == 0 || t.functions[rangeEnd] == 0 {
		return nil
	}
	return t
}

// Start begins a range, and returns the function that ends it, on any goroutine. It is nil where no profiler listens.
func Start(name string) (end func()) {
	if silent.Load() {
		return nil
	}
	return begin(name)
}

// silent is set once it is known that no profiler listens. All but the first request see it without a call.
var silent atomic.Bool

func begin(name string) (end func()) {
	t := listen()
	if t == nil {
		silent.Store(true)
		return nil
	}
	return t.start(name)
}

func (t *tables) start(name string) (end func()) {
	text, ok := ffi.CString(name)
	if !ok {
		return nil
	}
	c := &struct {
		ffi.Frame
		text *byte
		_    [ffi.RegisterWords - 1]uintptr
	}{text: text}
	id := c.Call(t.functions[rangeStartA], 1)
	return func() {
		c := &struct {
			ffi.Frame
			id uintptr
			_  [ffi.RegisterWords - 1]uintptr
		}{id: id}
		c.Call(t.functions[rangeEnd], 1)
	}
}
