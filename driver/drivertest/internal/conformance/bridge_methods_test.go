//go:build linux && (amd64 || arm64)

package conformance

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// answering is an API that notes the arguments of a call and answers it with results
// that a test has chosen.
type answering struct {
	method        string
	args, results []any
	calls         int
	parameters    int // of every kernel
}

func (a *answering) pass(method string, args, results []any) bool {
	switch method {
	case "DriverGetVersion":
		if a.method != method {
			*results[0].(*driver.Version) = 13000
			*results[1].(*driver.Result) = driver.Success
			return true
		}
	case "LibraryGetKernelCount": // asked before the kernels are
		if a.method == "LibraryEnumerateKernels" {
			*results[0].(*uint32) = uint32(len(a.results[0].([]driver.Kernel)))
			*results[1].(*driver.Result) = driver.Success
			return true
		}
	case "StreamIsCapturing": // asked before a host function is launched
		if a.method == "LaunchHostFunc" {
			*results[1].(*driver.Result) = driver.Success
			return true
		}
	}
	a.calls++
	a.method, a.args = method, copied(args)
	for i, r := range results {
		reflect.ValueOf(r).Elem().Set(reflect.ValueOf(a.results[i]))
	}
	if method == "LaunchHostFunc" && a.results[0] == driver.Success {
		args[1].(func())()
	}
	return true
}

// copied keeps lists that are valid only during the call.
func copied(args []any) []any {
	kept := slices.Clone(args)
	for i, arg := range kept {
		if v := reflect.ValueOf(arg); v.Kind() == reflect.Slice {
			kept[i] = reflect.AppendSlice(reflect.Zero(v.Type()), v).Interface()
		}
	}
	return kept
}

// answerer is the API of an answering. It knows how many parameters a kernel has.
type answerer struct {
	proxy
	a *answering
}

func (a *answerer) Params(driver.Function) (int, bool) { return a.a.parameters, true }

// value makes a random value. Of a string it makes one without a NUL.
func value(r *rand.Rand, t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Int, reflect.Int32:
		v.SetInt(int64(int32(r.Uint32())))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(r.Uint64() >> (64 - t.Bits()))
	case reflect.Float32:
		v.SetFloat(float64(r.Float32()))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.String:
		v.SetString(fmt.Sprintf("some text %d", r.Uint32()))
	case reflect.UnsafePointer:
		v.SetPointer(unsafe.Pointer(new([16]byte)))
	case reflect.Pointer:
		v.Set(value(r, t.Elem()).Addr())
	case reflect.Func:
		v.Set(reflect.ValueOf(func() {}))
	case reflect.Array:
		for i := range t.Len() {
			v.Index(i).Set(value(r, t.Elem()))
		}
	case reflect.Slice:
		v = reflect.MakeSlice(t, 1+r.IntN(5), 9)
		for i := range v.Len() {
			v.Index(i).Set(value(r, t.Elem()))
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				v.Field(i).Set(value(r, t.Field(i).Type))
			}
		}
	default:
		panic("no random " + t.String())
	}
	return v
}

// adapt makes values legal where the functions of C cannot carry all of them.
func adapt(r *rand.Rand, method string, args []reflect.Value) {
	for i := range args {
		switch v := args[i].Interface().(type) {
		case []byte: // an image is text here
			args[i] = reflect.ValueOf([]byte(fmt.Sprintf(".version 6.4 // %d", r.Uint32())))
		case driver.JIT:
			v.MaxRegisters, v.Optimization = 1+r.IntN(255), 1+r.IntN(4)
			args[i] = reflect.ValueOf(v)
		case driver.TensorTiles: // one length for all dimensions
			rank := 1 + r.IntN(5)
			v.Dims, v.Strides, v.Box, v.ElementStrides = make([]uint64, rank), make([]uint64, rank-1), make([]uint32, rank), make([]uint32, rank)
			v.Dims[rank-1], v.Box[rank-1], v.ElementStrides[0] = r.Uint64(), r.Uint32(), r.Uint32()
			args[i] = reflect.ValueOf(v)
		case []driver.LinkPart:
			for j := range v {
				v[j].Kind, v[j].Data = driver.LinkPTX, fmt.Appendf(nil, ".version 6.4 // %d", r.Uint32())
			}
		case []driver.LaunchAttribute:
			for j := range v {
				v[j] = driver.ClusterSize(driver.Dim3{X: r.Uint32(), Y: r.Uint32(), Z: r.Uint32()})
			}
		}
	}
}

// possible makes results such that a driver may return: others are failures.
func possible(r *rand.Rand, method string, args, results []reflect.Value) {
	for i, v := range results {
		switch v.Kind() {
		case reflect.Int32:
			v.SetInt(1 + int64(r.IntN(1000)))
		case reflect.Uint32, reflect.Uint64, reflect.Uintptr:
			v.SetUint(max(1, v.Uint()>>8))
		case reflect.UnsafePointer: // as large as 16 bytes, and aligned to them
			results[i] = reflect.ValueOf(unsafe.Pointer(unsafe.SliceData(make([]complex128, 1))))
		}
	}
	switch method {
	case "CtxGetStreamPriorityRange": // the lowest priority is the largest number
		results[0].SetInt(results[1].Int() + results[0].Int())
	case "MemGetInfo":
		results[0].SetUint(results[1].Uint() / 2)
	case "MemHostAlloc":
		args[0].SetUint(16)
	case "FuncGetParamInfo", "KernelGetParamInfo":
		args[1].SetUint(uint64(r.IntN(100)))
		results[0].SetUint(args[1].Uint() + uint64(r.IntN(1000)))
		results[1].SetUint(1 + uint64(r.IntN(1000)))
	case "DevicePrimaryCtxGetState", "DeviceCanAccessPeer":
		results[len(results)-2].SetInt(int64(r.IntN(2)))
	case "StreamIsCapturing", "ThreadExchangeStreamCaptureMode":
		results[0].SetInt(int64(r.IntN(3)))
	case "OccupancyAvailableDynamicSMemPerBlock":
		results[0].SetUint(uint64(r.Uint32() >> 1))
	case "LibraryGetKernelCount":
		results[0].SetUint(uint64(r.IntN(1000)))
	}
}

// Arguments and results of every function arrive as they were sent.
func TestEveryFunctionPassesItsValues(t *testing.T) {
	a := &answering{}
	target := &answerer{proxy{pass: a.pass}, a}
	lib := open(t, target)
	api := reflect.TypeFor[driver.API]()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range api.NumMethod() {
		name, typ := api.Method(i).Name, api.Method(i).Type
		t.Run(name, func(t *testing.T) {
			for round := range 20 {
				args := make([]reflect.Value, typ.NumIn())
				for i := range args {
					args[i] = value(r, typ.In(i))
				}
				adapt(r, name, args)
				ran := false
				for i, arg := range args {
					switch arg.Type() {
					case reflect.TypeFor[[]unsafe.Pointer]():
						a.parameters = arg.Len()
					case reflect.TypeFor[func()]():
						args[i] = reflect.ValueOf(func() { ran = true })
					}
				}
				a.method, a.args, a.results, a.calls = name, nil, nil, 0
				var results []reflect.Value
				for i := range typ.NumOut() {
					results = append(results, value(r, typ.Out(i)))
				}
				possible(r, name, args, results)
				for _, v := range results {
					a.results = append(a.results, v.Interface())
				}
				result := driver.Success
				if round%4 == 3 && typ.NumOut() == 1 {
					result = driver.ResultIllegalState
				}
				a.results[len(a.results)-1] = result

				got := reflect.ValueOf(lib).MethodByName(name).Call(args)
				times := 1
				if name == "GraphGetNodes" || name == "DevSmResourceSplitByCount" {
					times = 2 // how many there are, and which
				}
				require.Equal(t, times, a.calls)
				require.Equal(t, name, a.method)
				for i, arg := range args {
					if arg.Kind() != reflect.Func {
						assert.Equal(t, arg.Interface(), a.args[i], "argument %d", i)
					}
				}
				for i, want := range a.results {
					assert.Equal(t, want, got[i].Interface(), "result %d", i)
				}
				assert.Equal(t, name == "LaunchHostFunc" && result == driver.Success, ran)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// Machine code is passed with all of its bytes.
func TestImagesOfMachineCode(t *testing.T) {
	a := &answering{results: []any{driver.Module(1), driver.JITLog{Milliseconds: 1}, driver.Success}}
	lib := open(t, &answerer{proxy{pass: a.pass}, a})
	cubin := make([]byte, 64+2*64)
	copy(cubin, "\x7fELF\x02\x01")
	cubin[0x28], cubin[0x3a], cubin[0x3c] = 64, 64, 2
	cubin[0x34] = 64
	copy(cubin[len(cubin)-4:], "last")
	fatbin := append([]byte{0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 8, 0, 0, 0, 0, 0, 0, 0}, "\x00inside\x00"...)
	for _, image := range [][]byte{cubin, fatbin, []byte(".version 6.4")} {
		_, _, r := lib.ModuleLoadData(append(bytes.Clone(image), "and more"...)[:len(image)], driver.JIT{})
		require.Equal(t, driver.Success, r)
		assert.Equal(t, image, a.args[0])
	}
}

// The three ways to find functions lead to the same ones, in every version.
func TestResolution(t *testing.T) {
	for name, config := range machines() {
		for _, hidden := range [][]string{nil, {"cuGetProcAddress_v2"}, {"cuGetProcAddress_v2", "cuGetProcAddress"}} {
			t.Run(fmt.Sprint(name, " without ", hidden), func(t *testing.T) {
				gpu := drivertest.New(config)
				version, _ := gpu.DriverGetVersion()
				find := cSymbols(gpu)
				var lib *driver.Library
				var err error
				done := make(chan struct{})
				go func() {
					defer close(done)
					onStillStack(func() {
						lib, err = driver.NewLibrary("bridged", func(symbol string) uintptr {
							if slices.Contains(hidden, symbol) {
								return 0
							}
							return find(symbol)
						})
					})
				}()
				<-done
				require.NoError(t, err)
				assert.Equal(t, version, lib.Version())
				assert.Equal(t, "bridged", lib.Path())
				assert.False(t, lib.Shared())
				var want []string
				for _, e := range driver.Entries() {
					if e.Since() > version {
						want = append(want, fmt.Sprintf("%s (%v)", e.Name, e.Since()))
					}
				}
				assert.Equal(t, want, lib.Missing())
				api := onStillStacks(lib)
				require.Equal(t, driver.Success, api.Init(0))
				uuid, r := api.DeviceGetUUID(0)
				require.Equal(t, driver.Success, r)
				assert.True(t, strings.HasPrefix(string(uuid[:]), "purecuda"))
				require.NoError(t, gpu.Close())
			})
		}
	}
}

func TestRequiredFunctionsMissing(t *testing.T) {
	_, err := driver.NewLibrary("nothing", func(string) uintptr { return 0 })
	require.ErrorIs(t, err, driver.ErrDriverLibraryLoadFailed)
	assert.ErrorContains(t, err, "nothing lacks cuInit (2.0), cuDriverGetVersion (2.2)")
}
