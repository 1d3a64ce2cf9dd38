package runtime_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// mixed is the structure that the kernel store takes.
type mixed struct {
	A uint8
	B float64
	C int16
}

func TestLaunch(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		k := kernel(t, c, "add")
		assert.Equal(t, "add", k.Name())
		assert.Equal(t, 3, k.Params())
		assert.Equal(t, 1024, k.MaxThreads())
		assert.NotZero(t, k.Handle())
		for _, n := range []int{1, 127, 128, 129, 100_000} {
			x := upload(t, s, count(0, n))
			require.NoError(t, addTo(k, s, x, 10))
			require.NoError(t, addTo(k, s, x.Slice(n/2, n), 100))
			want := count(10, n)
			for i := n / 2; i < n; i++ {
				want[i] += 100
			}
			assert.Equal(t, want, download(t, s, x), n)
		}
	})
}

func TestLaunchPassesArguments(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		k := kernel(t, c, "store")
		out := alloc[int64](t, s, 9)
		for _, v := range []struct {
			a int8
			b int16
			c int32
			d int64
			e float32
			f float64
			m mixed
		}{
			{1, 2, 3, 4, 5, 6, mixed{7, 8, 9}},
			{-1, -2, -3, -4, 1 << 20, 1 << 40, mixed{255, 1 << 50, -9}},
			{math.MinInt8, math.MinInt16, math.MinInt32, math.MinInt64, 0, 0, mixed{}},
			{math.MaxInt8, math.MaxInt16, math.MaxInt32, math.MaxInt64, 3, 4, mixed{1, 2, math.MinInt16}},
		} {
			m := v.m
			err := k.Launch(s, one, runtime.InOut(out), runtime.Value(v.a), runtime.Value(v.b), runtime.Value(v.c),
				runtime.Value(v.d), runtime.Value(v.e), runtime.Value(v.f), runtime.Struct(&m))
			m = mixed{A: 99} // the launch has copied it
			require.NoError(t, err)
			want := []int64{int64(v.a), int64(v.b), int64(v.c), v.d, int64(v.e), int64(v.f), int64(v.m.A), int64(v.m.B), int64(v.m.C)}
			assert.Equal(t, want, download(t, s, out))
		}
	})
}

// PTX tells the types of parameters, so that a number of another type is an error and not a
// lost process.
func TestLaunchChecksTypes(t *testing.T) {
	type handle uint64
	const types = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry types(.param .u64 p, .param .s32 i, .param .f32 f, " +
		".param .f64 d, .param .b32 b, .param .f16 h, .param .align 4 .b8 v[4], .param .u64 .ptr .global .align 4 q) { ret; }"
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	m, err := c.LoadModule(runtime.Image{Code: []byte(types)})
	require.NoError(t, err)
	cached, err := c.CachedModule(runtime.Image{Code: []byte(types)})
	require.NoError(t, err)
	x := alloc[float32](t, s, 8)
	host, err := runtime.AllocHost[float64](c, 1)
	require.NoError(t, err)
	address := runtime.Value(uint64(x.Core().Ptr()))
	good := []runtime.Arg{runtime.InOut(x), runtime.Value(int32(1)), runtime.Value(float32(1)), runtime.Value(1.0),
		runtime.Value(float32(1)), runtime.Value(uint16(0x3c00)), runtime.Value(float32(1)), runtime.In(x)}
	for _, test := range []struct {
		name string
		at   int
		arg  runtime.Arg
		text string // of the error, or "" for an argument that fits
	}{
		{"an address as a number", 0, address, ""},
		{"an address of another type", 0, runtime.Value(handle(1)), ""},
		{"an address as an int", 7, runtime.Value(0), ""},
		{"memory of the host", 7, host.Arg(), ""},
		{"unsigned for signed", 1, runtime.Value(uint32(1)), ""},
		{"a structure for a number", 1, runtime.Struct(new(float32)), ""},
		{"an integer for bits", 4, runtime.Value(int32(1)), ""},
		{"an integer for bytes", 6, runtime.Value(uint32(1)), ""},
		{"a duration for an int64", 0, runtime.Value(time.Second), ""},

		{"float32 for .s32", 1, runtime.Value(float32(1)), "argument 1 is a float32, and parameter i of kernel types is a .s32: want an integer of 4 bytes (Struct passes bytes as they are)"},
		{"int32 for .f32", 2, runtime.Value(int32(1)), "argument 2 is an int32, and parameter f of kernel types is a .f32: want a float32"},
		{"uint32 for .f32", 2, runtime.Value(uint32(1)), "argument 2 is a uint32"},
		{"an int for .f64", 3, runtime.Value(1), "argument 3 is an int64, and parameter d of kernel types is a .f64: want a float64"},
		{"memory for .f64", 3, runtime.In(x), "argument 3 is an address"},
		{"memory of the host for .f64", 3, host.Arg(), "argument 3 is an address"},
		{"float64 for an address", 0, runtime.Value(1.0), "argument 0 is a float64, and parameter p of kernel types is a .u64: want an integer of 8 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, m := range []*runtime.Module{m, cached} {
				k, err := m.Kernel("types")
				require.NoError(t, err)
				args := slices.Clone(good)
				args[test.at] = test.arg
				before := gpu.Calls("cuLaunchKernel")
				err = k.Launch(s, one, args...)
				if test.text == "" {
					require.NoError(t, err)
					continue
				}
				require.ErrorIs(t, err, driver.ErrInvalidArgument)
				assert.ErrorContains(t, err, test.text)
				assert.Equal(t, before, gpu.Calls("cuLaunchKernel"))
			}
		})
	}
	require.NoError(t, s.Synchronize(bg))
}

// Launches from many goroutines do not mix their arguments up.
func TestLaunchConcurrently(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		k := kernel(t, c, "add")
		var wg sync.WaitGroup
		for i := range 8 {
			s := newStream(t, c)
			x := upload(t, s, count(0, 10))
			wg.Go(func() {
				for range 50 {
					if !assert.NoError(t, addTo(k, s, x, uint32(i))) {
						return
					}
				}
				got := make([]uint32, 10)
				assert.NoError(t, runtime.Download(bg, s, got, x))
				assert.Equal(t, count(uint32(50*i), 10), got)
			})
		}
		wg.Wait()
	})
}

func TestLaunchChecksArguments(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	k := kernel(t, c, "add")
	x := alloc[uint32](t, s, 8)
	closed := alloc[uint32](t, s, 8)
	require.NoError(t, closed.Close())
	n, amount := runtime.Value(uint64(8)), runtime.Value(uint32(1))
	for _, c := range []struct {
		name string
		args []runtime.Arg
		kind driver.Kind
		text string
	}{
		{"none", nil, driver.ErrInvalidArgument, "kernel add takes 3 arguments of (8, 8, 4) bytes, got 0 of ()"},
		{"too few", []runtime.Arg{runtime.InOut(x), n}, driver.ErrInvalidArgument, "kernel add takes 3 arguments of (8, 8, 4) bytes, got 2 of (8, 8)"},
		{"too many", []runtime.Arg{runtime.InOut(x), n, amount, amount}, driver.ErrInvalidArgument, "takes 3 arguments of (8, 8, 4) bytes, got 4 of (8, 8, 4, 4)"},
		{"an int for an int32", []runtime.Arg{runtime.InOut(x), n, runtime.Value(1)}, driver.ErrInvalidArgument, "takes 3 arguments of (8, 8, 4) bytes, got 3 of (8, 8, 8)"},
		{"wrong order", []runtime.Arg{amount, n, runtime.InOut(x)}, driver.ErrInvalidArgument, "got 3 of (4, 8, 8)"},
		{"a structure of another size", []runtime.Arg{runtime.InOut(x), n, runtime.Struct(&mixed{})}, driver.ErrInvalidArgument, "got 3 of (8, 8, 24)"},
		{"no structure", []runtime.Arg{runtime.InOut(x), n, runtime.Struct[uint32](nil)}, driver.ErrInvalidArgument, "nil"},
		{"the zero Arg", []runtime.Arg{runtime.InOut(x), n, {}}, driver.ErrInvalidArgument, "got 3 of (8, 8, 0)"},
		{"no memory", []runtime.Arg{runtime.InOut[uint32](nil), n, amount}, driver.ErrInvalidArgument, "a Ref that was never allocated"},
		{"the zero Ref", []runtime.Arg{runtime.In(new(runtime.Ref[uint32])), n, amount}, driver.ErrInvalidArgument, "a Ref that was never allocated"},
		{"a view outside the Ref", []runtime.Arg{runtime.InOut(x.Slice(4, 9)), n, amount}, driver.ErrInvalidArgument, "slice [4:9] of a Ref of 8 elements"},
		{"a closed Ref", []runtime.Arg{runtime.InOut(closed), n, amount}, driver.ErrClosed, "the Ref was closed before"},
		{"a view of a closed Ref", []runtime.Arg{runtime.InOut(closed.Slice(0, 1)), n, amount}, driver.ErrClosed, "the Ref was closed before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := k.Launch(s, one, c.args...)
			require.ErrorIs(t, err, c.kind)
			assert.ErrorContains(t, err, c.text)
		})
	}
	assert.Zero(t, gpu.Calls("cuLaunchKernel"))
	assert.Zero(t, rt.Stats().Launches)
	require.NoError(t, k.Launch(s, one, runtime.InOut(x), n, amount))
}

func TestLaunchChecksTheShape(t *testing.T) {
	dim := func(xyz ...uint32) runtime.Dim3 { return runtime.Dim3{X: xyz[0], Y: xyz[1], Z: xyz[2]} }
	for _, c := range []struct {
		kernel string
		shape  runtime.Shape
		text   string // "" is allowed
	}{
		{"add", runtime.Shape{Grid: dim(1, 0, 0), Block: dim(1, 0, 0)}, ""},
		{"add", runtime.Shape{Grid: dim(1, 1, 1), Block: dim(1024, 1, 1)}, ""},
		{"add", runtime.Shape{Grid: dim(2, 65535, 1), Block: dim(1, 1, 1)}, ""},
		{"add", runtime.Shape{Grid: dim(2, 3, 4), Block: dim(16, 16, 4)}, ""},
		{"rotate", runtime.Shape{Grid: dim(1, 1, 1), Block: dim(64, 1, 1)}, ""},

		{"add", runtime.Shape{}, "block 0x1x1: want at least one thread"},
		{"add", runtime.Shape{Grid: dim(1, 1, 1)}, "block 0x1x1: want at least one thread"},
		{"add", runtime.Shape{Grid: dim(1<<31, 1, 1), Block: dim(1, 1, 1)}, "grid 2147483648x1x1: the device takes at most 2147483647x65535x65535 blocks"},
		{"add", runtime.Shape{Grid: dim(1, 65536, 1), Block: dim(1, 1, 1)}, "grid 1x65536x1: the device takes at most 2147483647x65535x65535 blocks"},
		{"add", runtime.Shape{Grid: dim(1, 1, 65536), Block: dim(1, 1, 1)}, "at most 2147483647x65535x65535 blocks"},
		{"add", runtime.Shape{Grid: dim(1, 1, 1), Block: dim(1025, 1, 1)}, "block 1025x1x1: the device takes at most 1024x1024x64 threads"},
		{"add", runtime.Shape{Grid: dim(1, 1, 1), Block: dim(1, 1, 65)}, "block 1x1x65: the device takes at most 1024x1024x64 threads"},
		{"add", runtime.Shape{Grid: dim(1, 1, 1), Block: dim(32, 32, 2)}, "block 32x32x2 is 2048 threads: this kernel takes at most 1024 on the device"},
		{"rotate", runtime.Shape{Grid: dim(1, 1, 1), Block: dim(65, 1, 1)}, "block 65x1x1 is 65 threads: this kernel takes at most 64 on the device"},
	} {
		t.Run(fmt.Sprintf("%s %v %v", c.kernel, c.shape.Grid, c.shape.Block), func(t *testing.T) {
			rt, gpu := open(t, drivertest.Config{})
			ctx := contextOf(t, rt)
			s := newStream(t, ctx)
			k := kernel(t, ctx, c.kernel)
			x := upload(t, s, count(0, 256))
			// Threads that differ in y or z alone would all add to the same elements.
			args := []runtime.Arg{runtime.InOut(x), runtime.Value(uint64(0)), runtime.Value(uint32(1))}
			err := k.Launch(s, c.shape, args[:k.Params()]...)
			if c.text == "" {
				require.NoError(t, err)
				synchronize(t, s)
				return
			}
			require.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.ErrorContains(t, err, c.text)
			var e *driver.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, c.kernel, e.Kernel)
			assert.Zero(t, gpu.Calls("cuLaunchKernel"))
		})
	}
}

func TestLaunchWithMemoryOfAnotherDevice(t *testing.T) {
	rt, _ := open(t, twoDevices())
	here, there := contextAt(t, rt, 0), contextAt(t, rt, 1)
	k, s, x := kernel(t, here, "add"), newStream(t, here), alloc[uint32](t, newStream(t, there), 4)
	err := addTo(k, s, x, 1)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "argument 0 is memory of device 1, and the kernel is loaded on device 0")
}

func TestLaunchOnAStreamOfAnotherDevice(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		k := kernel(t, contextAt(t, rt, 0), "add")
		other := contextAt(t, rt, 1)
		s := newStream(t, other)
		err := addTo(k, s, alloc[uint32](t, newStream(t, other), 1), 1)
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, "launch on a stream of device 1, and the kernel is loaded on device 0")
	})
}

func TestLaunchThatTheDriverRefuses(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	k := kernel(t, c, "add")
	x := alloc[uint32](t, s, 300)
	gpu.Fail("cuLaunchKernel", 1, driver.ResultLaunchOutOfResources)
	err := addTo(k, s, x, 1)
	var e *driver.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, driver.ErrDriverCallFailed, e.Kind)
	assert.Equal(t, driver.ResultLaunchOutOfResources, e.Code)
	assert.Equal(t, "cuLaunchKernel", e.Op)
	assert.Equal(t, "add", e.Kernel)
	assert.Equal(t, s.ID(), e.Stream)
	assert.Equal(t, "grid 3x1x1, block 128x1x1", e.Detail)
	require.NoError(t, addTo(k, s, x, 1))
}

func TestLinear(t *testing.T) {
	for _, c := range []struct {
		n, threads    int
		blocks, block uint32
	}{
		{1, 1, 1, 1},
		{128, 128, 1, 128},
		{129, 128, 2, 128},
		{1000, 256, 4, 256},
		{math.MaxInt, 1, math.MaxUint32, 1},
		{1, math.MaxInt, 1, math.MaxUint32},
	} {
		got := runtime.Shape1D(c.n, c.threads)
		want := runtime.Shape{Grid: runtime.Dim3{X: c.blocks, Y: 1, Z: 1}, Block: runtime.Dim3{X: c.block, Y: 1, Z: 1}}
		assert.Equal(t, want, got, "%d items, %d threads", c.n, c.threads)
	}
}

func TestDynamicSharedMemory(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		k := kernel(t, c, "reverse")
		d := c.Device()
		launch := func(bytes int) error {
			n := bytes / 4
			x := upload(t, s, count(0, n))
			defer x.Close()
			shape := runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 256}, SharedBytes: uint32(bytes)}
			if err := k.Launch(s, shape, runtime.InOut(x), runtime.Value(uint32(n))); err != nil {
				return err
			}
			want := count(0, n)
			slices.Reverse(want)
			assert.Equal(t, want, download(t, s, x), bytes)
			return nil
		}
		for _, bytes := range []int{4, d.SharedPerBlock, d.SharedPerBlockOptin, d.SharedPerBlock} {
			require.NoError(t, launch(bytes), bytes)
		}
		err := launch(d.SharedPerBlockOptin + 4)
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, fmt.Sprintf("%d bytes of dynamic shared memory: device %d has %d for a block of this kernel, which uses 0 itself",
			d.SharedPerBlockOptin+4, d.Ordinal, d.SharedPerBlockOptin))
	})
}

func TestDynamicSharedMemoryIsAskedForOnce(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	launch := func(k *runtime.Kernel, bytes uint32) error {
		return k.Launch(s, runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 1}, SharedBytes: bytes},
			runtime.InOut(upload(t, s, count(0, 256))))
	}
	k := kernel(t, c, "rotate") // uses 1 KiB itself
	require.NoError(t, launch(k, 47<<10))
	assert.Zero(t, gpu.Calls("cuFuncSetAttribute"))
	require.NoError(t, launch(k, 47<<10+1))
	require.NoError(t, launch(k, 100<<10))
	assert.Equal(t, 2, gpu.Calls("cuFuncSetAttribute"))
	for _, bytes := range []uint32{100 << 10, 47 << 10, 99 << 10, 0} {
		require.NoError(t, launch(k, bytes))
	}
	assert.Equal(t, 2, gpu.Calls("cuFuncSetAttribute"))
	require.NoError(t, launch(k, 226<<10))
	err := launch(k, 226<<10+1)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "231425 bytes of dynamic shared memory: device 0 has 231424 for a block of this kernel, which uses 1024 itself")

	gpu.Fail("cuFuncSetAttribute", 1, driver.ResultUnknown)
	k = kernel(t, c, "rotate")
	require.ErrorIs(t, launch(k, 100<<10), driver.ResultUnknown)
	require.NoError(t, launch(k, 100<<10), "the next try asks again")
	synchronize(t, s)
}

// Two launches that both ask for more do not take it away from each other.
func TestDynamicSharedMemoryOfTwoLaunches(t *testing.T) {
	var mu sync.Mutex
	asked, launched := 0, 0
	bothAsk, oneLaunches, bothLaunch := make(chan struct{}), make(chan struct{}), make(chan struct{})
	config := drivertest.Config{OnCall: func(op string) driver.Result {
		mu.Lock()
		defer mu.Unlock()
		wait := func(c chan struct{}, limit time.Duration) {
			mu.Unlock()
			defer mu.Lock()
			select {
			case <-c:
			case <-time.After(limit):
			}
		}
		switch op {
		case "cuFuncSetAttribute":
			if asked++; asked == 1 {
				wait(bothAsk, 50*time.Millisecond) // the smaller one asks as well, if it may
			} else if asked == 2 {
				close(bothAsk)
				wait(oneLaunches, patience) // the larger one is granted first
			}
		case "cuLaunchKernel":
			switch launched++; launched {
			case 1:
				close(oneLaunches)
			case 2:
				close(bothLaunch)
			}
			wait(bothLaunch, patience)
		}
		return driver.Success
	}}
	rt, _ := open(t, config)
	c := contextOf(t, rt)
	k := kernel(t, c, "rotate")
	launch := func(bytes uint32) <-chan error {
		s := newStream(t, c)
		x := upload(t, s, count(0, 256))
		return async(func() error {
			return k.Launch(s, runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 1}, SharedBytes: bytes}, runtime.InOut(x))
		})
	}
	large := launch(100 << 10)
	eventually(t, "the larger one asks", func() bool { mu.Lock(); defer mu.Unlock(); return asked > 0 })
	small := launch(60 << 10)
	assert.NoError(t, await(t, "the larger launch", large))
	assert.NoError(t, await(t, "the smaller launch", small))
	require.NoError(t, c.Synchronize())
}

func TestCooperativeLaunch(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		k := kernel(t, c, "meet")
		resident, err := k.MaxActiveBlocks(32, 0)
		require.NoError(t, err)
		blocks := uint32(resident * c.Device().Multiprocessors)
		arrived := upload(t, s, []uint32{0})
		shape := runtime.Shape{Grid: runtime.Dim3{X: blocks}, Block: runtime.Dim3{X: 32}, Cooperative: true}
		require.NoError(t, k.Launch(s, shape, runtime.InOut(arrived)))
		assert.Equal(t, []uint32{blocks}, download(t, s, arrived))
	})
}

func TestCooperativeLaunchUnsupported(t *testing.T) {
	gpu := drivertest.H100()
	gpu.Attributes = map[driver.DeviceAttribute]int32{driver.DeviceAttributeCooperativeLaunch: 0}
	rt, sim := open(t, drivertest.Config{Devices: []drivertest.DeviceConfig{gpu}})
	c := contextOf(t, rt)
	s := newStream(t, c)
	shape := one
	shape.Cooperative = true
	err := kernel(t, c, "meet").Launch(s, shape, runtime.InOut(upload(t, s, []uint32{0})))
	require.ErrorIs(t, err, driver.ErrUnsupported)
	assert.ErrorContains(t, err, "the device has no cooperative launch")
	assert.Zero(t, sim.Calls("cuLaunchCooperativeKernel"))
}

func TestOccupancy(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		d := c.Device()
		k := kernel(t, c, "add")
		threads, blocks, err := k.MaxPotentialBlockSize(0)
		require.NoError(t, err)
		assert.Positive(t, threads)
		assert.LessOrEqual(t, threads, k.MaxThreads())
		resident, err := k.MaxActiveBlocks(threads, 0)
		require.NoError(t, err)
		assert.Equal(t, blocks, resident*d.Multiprocessors)
		assert.LessOrEqual(t, resident*threads, d.MaxThreadsPerSM)

		// Shared memory leaves room for one block only.
		resident, err = k.MaxActiveBlocks(32, d.SharedPerBlock)
		require.NoError(t, err)
		assert.Positive(t, resident)
		assert.LessOrEqual(t, resident, 8)

		limited := kernel(t, c, "rotate")
		assert.Equal(t, 64, limited.MaxThreads())
		threads, _, err = limited.MaxPotentialBlockSize(0)
		require.NoError(t, err)
		assert.LessOrEqual(t, threads, 64)
	})
}
