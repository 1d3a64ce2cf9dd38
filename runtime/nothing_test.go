package runtime_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// A call with nothing is an error of kind ErrInvalidArgument where it needs something, never a
// panic: every method of objects that are well, with arguments that are zero.
func TestArgumentsThatAreNothing(t *testing.T) {
	rt, _ := open(t, twoDevices())
	b, err := rt.Probe("nothing")
	require.NoError(t, err)
	c, s := b.Context, b.Stream
	e, err := c.NewTimingEvent()
	require.NoError(t, err)
	m, err := c.LoadModule(runtime.Image{Code: kernelsPTX})
	require.NoError(t, err)
	k, err := m.Kernel("add")
	require.NoError(t, err)
	g, err := s.Capture(func(*runtime.Stream) error { return nil })
	require.NoError(t, err)
	x, err := g.Instantiate()
	require.NoError(t, err)
	h, err := runtime.AllocHost[float32](c, 10)
	require.NoError(t, err)
	r, err := runtime.Alloc[float32](s, 10)
	require.NoError(t, err)
	l, err := c.NewLibraryHandle("library", func() (func() error, error) { return nil, nil })
	require.NoError(t, err)
	managed, err := runtime.AllocManaged[float32](s, 10)
	require.NoError(t, err)
	objects := []any{b, c, s, e, m, k, g, x, h, r, l, managed, rt}
	for _, object := range objects {
		v := reflect.ValueOf(object)
		for i := range v.NumMethod() {
			name, method := v.Type().String()+"."+v.Type().Method(i).Name, v.Method(i)
			if name := v.Type().Method(i).Name; name == "Close" || name == "Release" {
				continue // others use it
			}
			var args []reflect.Value
			for i := range method.Type().NumIn() {
				if !method.Type().IsVariadic() || i < method.Type().NumIn()-1 {
					args = append(args, reflect.Zero(method.Type().In(i)))
				}
			}
			assert.NotPanics(t, func() {
				results := method.Call(args)
				if len(results) == 0 {
					return
				}
				if err, ok := results[len(results)-1].Interface().(error); ok {
					var known *driver.Error
					assert.ErrorAs(t, err, &known, name)
				}
			}, name)
		}
	}
	// In the order in which they depend on each other.
	for _, object := range []interface{ Close() error }{r, h, managed, x, g, m, e, l} {
		assert.NoError(t, object.Close())
	}
}

func TestFunctionsOfNothing(t *testing.T) {
	rt, _ := open(t, twoDevices())
	b, err := rt.Probe("nothing")
	require.NoError(t, err)
	r, err := runtime.Alloc[float32](b.Stream, 1)
	require.NoError(t, err)
	defer func() { assert.NoError(t, r.Close()) }()
	data := make([]float32, 1)
	var none context.Context
	wrap := func(s *runtime.Stream, at driver.DevicePtr) error {
		_, err := runtime.WrapRef[float32](s, at, 1)
		return err
	}
	alloc := func(s *runtime.Stream) error { _, err := runtime.Alloc[float32](s, 1); return err }
	allocHost := func(c *runtime.Context) error { _, err := runtime.AllocHost[float32](c, 1); return err }
	leaseHost := func(c *runtime.Context) error { _, err := runtime.LeaseHost[float32](c, 1); return err }
	allocManaged := func(s *runtime.Stream) error { _, err := runtime.AllocManaged[float32](s, 1); return err }
	find := func(m *runtime.Module) error { _, err := runtime.FindVariable[float32](m, "x"); return err }
	for name, err := range map[string]error{
		"Alloc": alloc(nil), "Alloc zero": alloc(new(runtime.Stream)),
		"WrapRef": wrap(nil, 4), "WrapRef zero": wrap(new(runtime.Stream), 4), "WrapRef nothing": wrap(b.Stream, 0),
		"AllocHost": allocHost(nil), "AllocHost zero": allocHost(new(runtime.Context)),
		"LeaseHost": leaseHost(nil), "LeaseHost zero": leaseHost(new(runtime.Context)),
		"AllocManaged": allocManaged(nil), "AllocManaged zero": allocManaged(new(runtime.Stream)),
		"FindVariable": find(nil), "FindVariable zero": find(new(runtime.Module)),
		"Upload": runtime.Upload(bg, nil, r, data), "Upload nil ctx": runtime.Upload(none, b.Stream, r, data),
		"Upload nil Ref": runtime.Upload(bg, b.Stream, nil, data), "Upload zero": runtime.Upload(bg, new(runtime.Stream), r, data),
		"Download": runtime.Download(bg, nil, data, r), "Download nil ctx": runtime.Download(none, b.Stream, data, r),
		"Download nil Ref": runtime.Download(bg, b.Stream, data, nil),
		"UploadHost":       runtime.UploadHost(nil, r, nil), "UploadHost nil buffer": runtime.UploadHost(b.Stream, r, nil),
		"DownloadHost": runtime.DownloadHost(nil, nil, r), "DownloadHost nil buffer": runtime.DownloadHost(b.Stream, nil, r),
		"DownloadHost zero buffer": runtime.DownloadHost(b.Stream, new(runtime.HostBuffer[float32]), r),
		"Copy":                     runtime.Copy(nil, r, r), "Copy nil": runtime.Copy(b.Stream, r, nil),
		"Upload2D": runtime.Upload2D(bg, nil, r, 1, data, 1, 1, 1), "Upload2D nil ctx": runtime.Upload2D(none, b.Stream, r, 1, data, 1, 1, 1),
		"Upload2D nil Ref": runtime.Upload2D(bg, b.Stream, nil, 1, data, 1, 1, 1),
		"Download2D":       runtime.Download2D(bg, nil, data, 1, r, 1, 1, 1), "Download2D nil Ref": runtime.Download2D(bg, b.Stream, data, 1, nil, 1, 1, 1),
		"Copy2D": runtime.Copy2D(nil, r, 1, r, 1, 1, 1), "Copy2D nil": runtime.Copy2D(b.Stream, r, 1, nil, 1, 1, 1),
		"Fill": runtime.Fill(nil, r, 1), "Fill zero": runtime.Fill(new(runtime.Stream), r, 1), "Fill nil": runtime.Fill[float32](b.Stream, nil, 1),
		"Zero": runtime.Zero(nil, r), "Zero zero": runtime.Zero(new(runtime.Stream), r), "Zero nil": runtime.Zero[float32](b.Stream, nil),
	} {
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, name)
	}
}
