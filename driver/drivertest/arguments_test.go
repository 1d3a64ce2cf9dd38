package drivertest_test

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// TestArgumentsOfAllKinds calls every method of the API with arguments that make no sense, and
// with a stream or a function that is good among them: no call may panic or hang.
func TestArgumentsOfAllKinds(t *testing.T) {
	numbers := []uint64{0, 1, 2, 3, 77, 1024, 1025, 1 << 20, 1 << 30, 1<<31 - 1, 1 << 31, 1 << 52, 1<<63 - 1, 1 << 63, 1<<64 - 1}
	api := reflect.TypeFor[driver.API]()
	for i := range api.NumMethod() {
		method := api.Method(i)
		t.Run(method.Name, func(t *testing.T) {
			g := start(t, drivertest.Config{})
			good := map[reflect.Type]reflect.Value{
				reflect.TypeFor[driver.Stream]():   reflect.ValueOf(g.stream()),
				reflect.TypeFor[driver.Function](): reflect.ValueOf(g.function("add_one")),
			}
			call := reflect.ValueOf(g.Driver).MethodByName(method.Name)
			for _, x := range numbers {
				for _, use := range []map[reflect.Type]reflect.Value{nil, good} {
					args := make([]reflect.Value, method.Type.NumIn())
					for i := range args {
						typ := method.Type.In(i)
						if v, ok := use[typ]; ok {
							args[i] = v
						} else {
							args[i] = junk(typ, x)
						}
					}
					assert.NotPanics(t, func() { call.Call(args) }, "%v", args)
				}
			}
		})
	}
}

// junk makes a value of a type of which all numbers are x. Pointers are nil.
func junk(typ reflect.Type, x uint64) reflect.Value {
	v := reflect.New(typ).Elem()
	switch {
	case typ.Kind() == reflect.Func:
	case v.CanInt():
		v.SetInt(reflect.ValueOf(x).Convert(typ).Int())
	case v.CanUint():
		v.SetUint(reflect.ValueOf(x).Convert(typ).Uint())
	case typ.Kind() == reflect.String:
		v.SetString(string(rune(int32(x))))
	case typ.Kind() == reflect.Struct:
		for i := range typ.NumField() {
			field := reflect.NewAt(typ.Field(i).Type, unsafe.Pointer(v.Field(i).UnsafeAddr())).Elem()
			field.Set(junk(field.Type(), x))
		}
	case typ.Kind() == reflect.Slice && typ.Elem().Kind() != reflect.UnsafePointer && x%2 == 1:
		v.Set(reflect.Append(v, junk(typ.Elem(), x)))
	case typ.Kind() == reflect.Array:
		for i := range typ.Len() {
			v.Index(i).Set(junk(typ.Elem(), x))
		}
	}
	return v
}

// TestRefused calls what the simulated driver does not have: it says so, and why.
func TestRefused(t *testing.T) {
	g := start(t, drivertest.Config{})
	api, refused := reflect.TypeFor[driver.API](), map[string]bool{}
	for i := range api.NumMethod() {
		method := api.Method(i)
		args := make([]reflect.Value, method.Type.NumIn())
		for i := range args {
			args[i] = reflect.Zero(method.Type.In(i))
		}
		if method.Name == "DevicePrimaryCtxReset" || method.Name == "DevicePrimaryCtxRelease" {
			continue // the others need the context
		}
		g.ok(g.CtxSetCurrent(g.ctx))
		g.ResetCalls()
		results := reflect.ValueOf(g.Driver).MethodByName(method.Name).Call(args)
		for _, e := range driver.Entries() {
			if g.Calls(e.Name) > 0 && drivertest.Refused(e.Name) != "" {
				refused[e.Name] = true
				assert.Equal(t, driver.ResultNotSupported, results[len(results)-1].Interface(), e.Name)
			}
		}
	}
	for _, e := range driver.Entries() {
		assert.Equal(t, drivertest.Refused(e.Name) != "", refused[e.Name], e.Name)
	}
	assert.Panics(t, func() { drivertest.Refused("cuNothing") })
}
