//go:build linux && (amd64 || arm64)

package ffi_test

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	goruntime "runtime"
	"runtime/debug"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/allocs"
	"github.com/purecuda/purecuda/internal/dl"
	"github.com/purecuda/purecuda/internal/ffi"
)

// libraryVariable names a library built from testdata/ffitest.c for hosts without
// a compiler, such as an emulator of another processor.
const libraryVariable = "PURECUDA_TEST_LIBRARY"

var library = sync.OnceValues(func() (*dl.Library, string) {
	path := os.Getenv(libraryVariable)
	if path == "" {
		cc, err := exec.LookPath("cc")
		if err != nil {
			return nil, "no C compiler to build testdata/ffitest.c with, and " + libraryVariable + " is not set"
		}
		dir, err := os.MkdirTemp("", "ffitest")
		if err != nil {
			return nil, err.Error()
		}
		path = filepath.Join(dir, "libffitest.so")
		out, err := exec.Command(cc, "-shared", "-fPIC", "-O2", "-o", path, "testdata/ffitest.c").CombinedOutput()
		if err != nil {
			return nil, "the C compiler failed: " + string(out)
		}
		defer os.RemoveAll(dir)
	}
	lib, _, err := dl.Open(path)
	if err != nil {
		return nil, err.Error()
	}
	return lib, ""
})

func symbol(tb testing.TB, name string) uintptr {
	tb.Helper()
	lib, why := library()
	if lib == nil {
		tb.Skip(why)
	}
	fn := lib.Symbol(name)
	require.NotZero(tb, fn, "symbol %s", name)
	return fn
}

// words is a block with room for every number of arguments.
type words struct {
	ffi.Frame
	args [ffi.MaxWords]uintptr
}

func TestCallPassesEveryWord(t *testing.T) {
	for _, c := range []struct {
		fn    string
		words int
	}{
		{"weigh1", 1}, {"weigh6", 6}, {"weigh7", 7}, {"weigh8", 8}, {"weigh9", 9}, {"weigh11", 11}, {"weigh15", 15},
		{"weigh23", 23}, {"weigh32", 32},
	} {
		t.Run(c.fn, func(t *testing.T) {
			fn := symbol(t, c.fn)
			var w words
			var want uint64
			for i := range c.words {
				v := uint64(0x0123456789abcdef) * uint64(i+3)
				w.args[i] = uintptr(v)
				want += uint64(i+1) * v
			}
			assert.Equal(t, want, uint64(w.Call(fn, c.words)))
		})
	}
	var w words
	assert.EqualValues(t, 42, w.Call(symbol(t, "weigh0"), 0))
}

func TestCallFloats(t *testing.T) {
	// Each function takes out as its first or second word. A value that is an int is a word.
	for fn, c := range map[string]struct {
		outAt int
		args  []any
	}{
		"floats1": {0, []any{float32(-1.5)}},
		"normal":  {0, []any{1 << 40, 0.25, math.Pi}},
		"mixed": {1, []any{-1.25, float32(2.5), -3, 4 << 40, 5.125, float32(6), float32(-7), 8, 9.5, -10, float32(11), 12.75,
			float32(13), -14, math.MaxFloat64, 16, float32(math.Inf(1)), 18 << 33}},
		"doubles32": {0, func() (all []any) {
			for i := range 31 {
				if i%2 == 0 {
					all = append(all, float64(i)+0.5)
				} else {
					all = append(all, i<<32)
				}
			}
			return all
		}()},
	} {
		t.Run(fn, func(t *testing.T) {
			out := make([]float64, len(c.args))
			var w words
			var floats uint32
			at := 0
			for i := range len(c.args) + 1 {
				if i == c.outAt {
					w.args[i] = uintptr(unsafe.Pointer(unsafe.SliceData(out))) // on the heap, see kept
					continue
				}
				switch v := c.args[at].(type) {
				case int:
					w.args[i] = uintptr(v)
				case float32:
					w.args[i], floats = ffi.Float32(v), floats|1<<i
				case float64:
					w.args[i], floats = ffi.Float64(v), floats|1<<i
				}
				at++
			}
			assert.Zero(t, int32(w.CallFloats(symbol(t, fn), len(c.args)+1, floats)), "the stack is aligned")
			for i, arg := range c.args {
				assert.Equal(t, reflect.ValueOf(arg).Convert(reflect.TypeFor[float64]()).Float(), out[i], "argument %d", i)
			}
			kept = out
		})
	}
}

// kept keeps what C writes to on the heap.
var kept []float64

func TestCallAlignsTheStack(t *testing.T) {
	for n, fn := range map[int]string{0: "misalignment", 7: "misalignment7"} {
		var w words
		assert.Zero(t, w.Call(symbol(t, fn), n), fn)
	}
}

func TestCallNarrowTypes(t *testing.T) {
	var w words
	w.args[0] = uintptr(uint32(5))
	minus := int32(-7)
	w.args[1] = uintptr(minus)
	assert.EqualValues(t, -2, int32(w.Call(symbol(t, "narrow"), 2)))
}

func TestCallByValueStructure(t *testing.T) {
	if goruntime.GOARCH != "amd64" {
		t.Skip("only System V on amd64 passes a large structure on the stack")
	}
	var c struct {
		ffi.Frame
		out   *uint64
		flags uintptr
		_     [4]uintptr
		bytes [64]byte
	}
	var out, want uint64
	for i := range c.bytes {
		c.bytes[i] = byte(i * 7)
		want = want*31 + uint64(c.bytes[i])
	}
	c.out, c.flags = &out, 9
	assert.EqualValues(t, 9, c.Call(symbol(t, "by_value"), 6+8))
	assert.Equal(t, want, out)
}

type storeCall struct {
	ffi.Frame
	out *uint64
	v   uintptr
	_   [ffi.RegisterWords - 2]uintptr
}

// store is called at a random stack depth, and moves the stack before the call so
// that a stale address would write elsewhere.
//
//go:noinline
func store(fn uintptr, v uint64, depth int) uint64 {
	if depth > 0 {
		var pad [64]uint64
		r := store(fn, v, depth-1)
		goruntime.KeepAlive(&pad)
		return r
	}
	var out uint64
	var c storeCall
	c.out, c.v = &out, uintptr(v)
	grow(20)
	c.Call(fn, 2)
	return out
}

//go:noinline
func grow(n int) int {
	var pad [512]byte
	if n == 0 {
		return int(pad[n])
	}
	return grow(n-1) + int(pad[n])
}

func TestResultsSurviveMovingStacks(t *testing.T) {
	fn := symbol(t, "store")
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	const goroutines = 1000
	var wg sync.WaitGroup
	lost := make([]int, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			for i := range 20 {
				want := uint64(g)<<32 | uint64(i)
				if store(fn, want, g%40) != want {
					lost[g]++
				}
			}
			_ = make([]byte, 1<<12)
		})
	}
	wg.Wait()
	for g, n := range lost {
		require.Zero(t, n, "goroutine %d lost results", g)
	}
}

// callbackBlock is not on the stack: C calls back into Go on the calling thread,
// and the callback moves the stack. new would not be enough, since the compiler
// may place its result on the stack as well.
var callbackBlock words

func TestHostFuncRunsOnceOrIsKept(t *testing.T) {
	callback := symbol(t, "call_back")
	for _, keep := range []bool{false, true} {
		ran := 0
		fn, data := ffi.HostFunc(func() { ran++; grow(50) }, keep)
		w := &callbackBlock
		w.args[0], w.args[1] = fn, data
		for range 3 {
			assert.EqualValues(t, 1, w.Call(callback, 2))
		}
		if keep {
			assert.Equal(t, 3, ran)
			ffi.DropHostFunc(data)
			w.Call(callback, 2)
			assert.Equal(t, 3, ran, "a dropped function must not run")
		} else {
			assert.Equal(t, 1, ran)
		}
	}
}

func TestHostFuncDoesNotAllocate(t *testing.T) {
	f := func() {}
	allocs.AtMost(t, 0, 100, func() {
		_, data := ffi.HostFunc(f, false)
		ffi.DropHostFunc(data)
	})
}

func TestCallDoesNotAllocate(t *testing.T) {
	if portable {
		t.Skip("the portable path keeps its blocks on the heap")
	}
	fn := symbol(t, "store")
	allocs.AtMost(t, 0, 100, func() {
		var out uint64
		var c storeCall
		c.out, c.v = &out, 7
		c.Call(fn, 2)
		if out != 7 {
			t.Error("lost result")
		}
	})
}

func BenchmarkCall11(b *testing.B) {
	fn := symbol(b, "weigh11")
	b.ReportAllocs()
	for b.Loop() {
		var c struct {
			ffi.Frame
			args [11]uintptr
		}
		c.args[10] = 1
		if c.Call(fn, 11) != 11 {
			b.Fatal("wrong sum")
		}
	}
}

// BenchmarkCallWithin is one crossing, and BenchmarkThreeCalls what it replaces.
func BenchmarkCallWithin(b *testing.B) {
	fn, in := symbol(b, "weigh11"), ffi.Within{Push: symbol(b, "push"), Pop: symbol(b, "pop"), Context: 1}
	for b.Loop() {
		var w words
		if _, pushed, popped := w.CallWithin(fn, 11, 0, in); pushed != 0 || popped != 0 {
			b.Fatal(pushed, popped)
		}
	}
}

func BenchmarkThreeCalls(b *testing.B) {
	fn, push, pop := symbol(b, "weigh11"), symbol(b, "push"), symbol(b, "pop")
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	for b.Loop() {
		var w words
		var off struct {
			ffi.Frame
			off *uintptr
			_   [ffi.RegisterWords - 1]uintptr
		}
		off.off = new(uintptr)
		w.args[0] = 1
		if w.Call(push, 1) != 0 {
			b.Fatal("push")
		}
		w.Call(fn, 11)
		if int32(off.Call(pop, 1)) != 0 {
			b.Fatal("pop")
		}
	}
}

func BenchmarkCallStore(b *testing.B) {
	fn := symbol(b, "store")
	b.ReportAllocs()
	for b.Loop() {
		var out uint64
		var c storeCall
		c.out, c.v = &out, 7
		c.Call(fn, 2)
	}
}

func TestCallWithin(t *testing.T) {
	in := func(context uintptr) ffi.Within {
		return ffi.Within{Push: symbol(t, "push"), Pop: symbol(t, "pop"), Context: context}
	}
	var w words
	for i := range 7 {
		w.args[i] = uintptr(i) << 33
	}
	sum := uintptr(1*2+2*3+3*4+4*5+5*6+6*7) << 33
	ret, pushed, popped := w.CallWithin(symbol(t, "within7"), 7, 0, in(1<<40))
	assert.Equal(t, []any{1<<40 + sum, int32(0), int32(0)}, []any{ret, pushed, popped})
	assert.Equal(t, sum, w.Call(symbol(t, "within7"), 7), "a context is current after the call")

	_, pushed, _ = w.CallWithin(symbol(t, "within7"), 7, 0, in(0))
	assert.EqualValues(t, 201, pushed)
	ret, pushed, popped = w.CallWithin(symbol(t, "within7"), 7, 0, in(13))
	assert.Equal(t, []any{13 + sum, int32(0), int32(700)}, []any{ret, pushed, popped})

	var f struct {
		ffi.Frame
		a, b uintptr
		out  *float64
		_    [ffi.RegisterWords - 3]uintptr
	}
	f.a, f.b, f.out = 5, ffi.Float64(-2.5), new(float64)
	ret, _, _ = f.CallWithin(symbol(t, "within_floats"), 3, 0b10, in(1<<40))
	assert.EqualValues(t, 1<<40+5, ret)
	assert.Equal(t, -2.5, *f.out)
	if fn, within := symbol(t, "within7"), in(1); !portable {
		allocs.AtMost(t, 0, 100, func() { w.CallWithin(fn, 7, 0, within) })
	}
}
