package conformance

import (
	"strings"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
)

var moduleTests = []test{
	{"functions and variables", func(e *env) {
		m := e.module()
		f, r := e.api.ModuleGetFunction(m, "ramp")
		e.ok(r)
		again, r := e.api.ModuleGetFunction(m, "ramp")
		e.ok(r)
		assert.Equal(e, f, again)
		_, r = e.api.ModuleGetFunction(m, "missing")
		e.is(driver.ResultNotFound, r)

		ptr, bytes, r := e.api.ModuleGetGlobal(m, "answer")
		e.ok(r)
		assert.EqualValues(e, 4, bytes)
		assert.Equal(e, []uint32{42}, download[uint32](e, ptr, 1))
		ptr, bytes, r = e.api.ModuleGetGlobal(m, "table")
		e.ok(r)
		assert.EqualValues(e, 16, bytes)
		assert.Equal(e, make([]byte, 16), download[byte](e, ptr, 16))
		_, _, r = e.api.ModuleGetGlobal(m, "missing")
		e.is(driver.ResultNotFound, r)
	}},
	{"properties of functions", func(e *env) {
		m := e.module()
		f, r := e.api.ModuleGetFunction(m, "nothing")
		e.ok(r)
		threads, r := e.api.FuncGetAttribute(driver.FunctionAttributeMaxThreadsPerBlock, f)
		e.ok(r)
		assert.EqualValues(e, 64, threads)
		version, r := e.api.FuncGetAttribute(driver.FunctionAttributePTXVersion, f)
		e.ok(r)
		assert.EqualValues(e, 52, version, "the target, other than the name says")
		_, r = e.api.FuncGetAttribute(1000, f)
		e.is(driver.ResultInvalidValue, r)
		of, r := e.api.FuncGetModule(f)
		e.ok(r)
		assert.Equal(e, m, of)
		e.ok(e.api.FuncSetCacheConfig(f, driver.CachePreferL1))
		e.ok(e.api.FuncSetAttribute(f, driver.FunctionAttributeMaxDynamicSharedSizeBytes, 40<<10))
		shared, r := e.api.FuncGetAttribute(driver.FunctionAttributeMaxDynamicSharedSizeBytes, f)
		e.ok(r)
		assert.EqualValues(e, 40<<10, shared)
		e.is(driver.ResultInvalidValue, e.api.FuncSetAttribute(f, driver.FunctionAttributeMaxDynamicSharedSizeBytes, 1<<30))
	}},
	{"names and parameters", func(e *env) {
		e.needs(12040)
		f := e.function("ramp")
		name, r := e.api.FuncGetName(f)
		e.ok(r)
		assert.Equal(e, "ramp", name)
		for i, want := range [][2]uint64{{0, 8}, {8, 4}, {12, 4}} {
			offset, bytes, r := e.api.FuncGetParamInfo(f, uint64(i))
			e.ok(r)
			assert.Equal(e, want, [2]uint64{offset, bytes})
		}
		_, _, r = e.api.FuncGetParamInfo(f, 3)
		e.is(driver.ResultInvalidValue, r)
		e.ok(e.api.FuncLoad(f))
		state, r := e.api.FuncIsLoaded(f)
		e.ok(r)
		assert.Equal(e, driver.StateLoaded, state)
	}},
	{"unusable images", func(e *env) {
		for _, bad := range []struct {
			name, image string
			want        []driver.Result
		}{
			{"empty", "", []driver.Result{driver.ResultInvalidImage}},
			{"newer PTX", strings.Replace(ramp, ".version 6.4", ".version 99.0", 1), []driver.Result{driver.ResultUnsupportedPTXVersion}},
			{"newer target", strings.Replace(strings.Replace(ramp, "sm_52", "sm_121", 1), "6.4", "8.8", 1),
				[]driver.Result{driver.ResultInvalidPTX, driver.ResultUnsupportedPTXVersion}},
			{"no PTX", "hello", []driver.Result{driver.ResultInvalidImage}},
			{"bad text", strings.Replace(ramp, ".address_size 64", "address_size, 64", 1), []driver.Result{driver.ResultInvalidPTX}},
			{"cut off", ramp[:len(ramp)-10], []driver.Result{driver.ResultInvalidPTX}},
		} {
			_, log, r := e.api.ModuleLoadData([]byte(bad.image), driver.JIT{})
			if assert.Contains(e, bad.want, r, bad.name) && r == driver.ResultInvalidPTX {
				assert.NotEmpty(e, log.Error, bad.name)
			}
		}
	}},
	{"link", func(e *env) {
		parts := []driver.LinkPart{{Kind: driver.LinkPTX, Data: []byte(caller), Name: "caller"}, {Kind: driver.LinkPTX, Data: []byte(callee), Name: "callee"}}
		image, log, r := e.api.Link(parts, driver.JIT{})
		e.ok(r)
		assert.Empty(e, log.Error)
		m, _, r := e.api.ModuleLoadData(image, driver.JIT{})
		e.ok(r)
		defer e.api.ModuleUnload(m)
		f, r := e.api.ModuleGetFunction(m, "linked")
		e.ok(r)
		out, x := e.alloc(4), uint32(5)
		e.ok(e.api.LaunchKernel(f, dim(1), dim(1), 0, e.stream(), []unsafe.Pointer{unsafe.Pointer(&out), unsafe.Pointer(&x)}))
		e.ok(e.api.CtxSynchronize())
		assert.Equal(e, []uint32{3*x + 7}, download[uint32](e, out, 1), "two functions are called own, each part's its own")
	}},
	{"what cannot be linked", func(e *env) {
		part := func(text string) driver.LinkPart {
			return driver.LinkPart{Kind: driver.LinkPTX, Data: []byte(text), Name: "part"}
		}
		for name, parts := range map[string][]driver.LinkPart{
			"nothing defines it": {part(caller)},
			"twice":              {part(caller), part(callee), part(callee)},
			"no PTX":             {part(caller), part("hello")},
			"bad text":           {part(caller), part(strings.Replace(callee, "mul.lo", "mull.lo", 1))},
			"empty":              {part(caller), part("")},
			"cut off cubin":      {part(caller), {Kind: driver.LinkCubin, Data: []byte("\x7fELF"), Name: "part"}},
		} {
			image, log, r := e.api.Link(parts, driver.JIT{})
			assert.NotEqual(e, driver.Success, r, name)
			assert.Empty(e, image, name)
			if name == "nothing defines it" {
				assert.Contains(e, log.Error, "triple", name)
			}
		}
	}},
	{"unusable library", func(e *env) {
		e.needs(12020)
		bad := strings.Replace(ramp, ".version 6.4", ".version 99.0", 1)
		l, log, r := e.api.LibraryLoadData([]byte(bad), driver.JIT{})
		e.oneOf(r, driver.Success, driver.ResultUnsupportedPTXVersion)
		assert.Contains(e, log.Error, "99.0")
		if r != driver.Success {
			return // the driver does not load lazily
		}
		_, r = e.api.LibraryGetKernel(l, "ramp")
		e.is(driver.ResultUnsupportedPTXVersion, r)
		e.ok(e.api.LibraryUnload(l))
	}},
	{"library", func(e *env) {
		e.needs(12040)
		l, log, r := e.api.LibraryLoadData([]byte(ramp), driver.JIT{})
		assert.Empty(e, log.Error)
		e.ok(r)
		count, r := e.api.LibraryGetKernelCount(l)
		e.ok(r)
		assert.EqualValues(e, 2, count)
		all, r := e.api.LibraryEnumerateKernels(l)
		e.ok(r)
		k, r := e.api.LibraryGetKernel(l, "ramp")
		e.ok(r)
		assert.Contains(e, all, k)
		name, r := e.api.KernelGetName(k)
		e.ok(r)
		assert.Equal(e, "ramp", name)
		offset, bytes, r := e.api.KernelGetParamInfo(k, 2)
		e.ok(r)
		assert.Equal(e, [2]uint64{12, 4}, [2]uint64{offset, bytes})
		threads, r := e.api.KernelGetAttribute(driver.FunctionAttributeMaxThreadsPerBlock, k, e.dev)
		e.ok(r)
		assert.Positive(e, threads)
		e.ok(e.api.KernelSetAttribute(driver.FunctionAttributeMaxDynamicSharedSizeBytes, 1024, k, e.dev))
		_, r = e.api.LibraryGetKernel(l, "missing")
		e.is(driver.ResultNotFound, r)

		m, r := e.api.LibraryGetModule(l)
		e.ok(r)
		f, r := e.api.ModuleGetFunction(m, "ramp")
		e.ok(r)
		same, r := e.api.KernelGetFunction(k)
		e.ok(r)
		ptr, bytes, r := e.api.LibraryGetGlobal(l, "answer")
		e.ok(r)
		assert.EqualValues(e, 4, bytes)
		assert.Equal(e, []uint32{42}, download[uint32](e, ptr, 1))

		s, out := e.stream(), e.alloc(64)
		for i, f := range []driver.Function{f, same, k.Function()} {
			e.ok(e.ramp(f, s, out, uint32(i), 16))
			e.ok(e.api.StreamSynchronize(s))
			assert.Equal(e, rampFrom(uint32(i), 16), download[uint32](e, out, 16))
		}
		e.ok(e.api.LibraryUnload(l))
	}},
}

var launchTests = []test{
	{"runs", func(e *env) {
		f, s, out := e.function("ramp"), e.stream(), e.alloc(4*1000)
		e.ok(e.api.MemsetD8(out, 0xFF, 4*1000))
		e.ok(e.api.CtxSynchronize())
		e.ok(e.ramp(f, s, out, 7, 1000))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, rampFrom(7, 1000), download[uint32](e, out, 1000))
	}},
	{"parameters are copied", func(e *env) {
		f, s, out := e.function("ramp"), e.stream(), e.alloc(64)
		release := e.block(s)
		ptr, first, n := out, uint32(3), uint32(16)
		params := []unsafe.Pointer{unsafe.Pointer(&ptr), unsafe.Pointer(&first), unsafe.Pointer(&n)}
		e.ok(e.api.LaunchKernel(f, one, dim(128), 0, s, params))
		ptr, first, n = 0, 0, 0
		release()
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, rampFrom(3, 16), download[uint32](e, out, 16))
	}},
	{"on the default stream", func(e *env) {
		f, out := e.function("ramp"), e.alloc(64)
		e.ok(e.ramp(f, 0, out, 1, 16))
		assert.Equal(e, rampFrom(1, 16), download[uint32](e, out, 16))
	}},
	{"cooperative and with attributes", func(e *env) {
		e.needs(11060)
		f, s := e.function("nothing"), e.stream()
		e.ok(e.api.LaunchCooperativeKernel(f, dim(2), dim(32), 0, s, nil))
		e.ok(e.api.LaunchKernelEx(f, dim(2), dim(32), 0, s, []driver.LaunchAttribute{driver.LaunchPriority(0)}, nil))
		e.ok(e.api.LaunchKernelEx(f, dim(2), dim(32), 0, s, []driver.LaunchAttribute{driver.Cooperative()}, nil))
		e.is(driver.ResultCooperativeLaunchTooLarge, e.api.LaunchCooperativeKernel(f, dim(1_000_000), dim(32), 0, s, nil))
		e.ok(e.api.StreamSynchronize(s))
	}},
	{"limits", func(e *env) {
		f, s := e.function("nothing"), e.stream()
		for _, bad := range []struct {
			name        string
			grid, block driver.Dim3
			shared      uint32
			want        []driver.Result
		}{
			{"no block", driver.Dim3{}, one, 0, []driver.Result{driver.ResultInvalidValue}},
			{"no thread", one, driver.Dim3{X: 1, Y: 0, Z: 1}, 0, []driver.Result{driver.ResultInvalidValue}},
			{"wide block", one, dim(1025), 0, []driver.Result{driver.ResultInvalidValue}},
			{"deep block", one, driver.Dim3{X: 1, Y: 1, Z: 65}, 0, []driver.Result{driver.ResultInvalidValue}},
			{"beyond the kernel's bound", one, dim(128), 0, []driver.Result{driver.ResultInvalidValue}},
			{"high grid", driver.Dim3{X: 1, Y: 65536, Z: 1}, one, 0, []driver.Result{driver.ResultInvalidValue}},
			{"wide grid", dim(1 << 31), one, 0, []driver.Result{driver.ResultInvalidValue}},
			{"much shared memory", one, one, 100 << 10, []driver.Result{driver.ResultInvalidValue}},
		} {
			r := e.api.LaunchKernel(f, bad.grid, bad.block, bad.shared, s, nil)
			assert.Contains(e, bad.want, r, bad.name)
		}
		e.ok(e.api.StreamSynchronize(s))
	}},
	{"occupancy", func(e *env) {
		f := e.function("ramp")
		blocks, r := e.api.OccupancyMaxActiveBlocksPerMultiprocessor(f, 256, 0)
		e.ok(r)
		assert.Positive(e, blocks)
		same, r := e.api.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(f, 256, 0, 0)
		e.ok(r)
		assert.Equal(e, blocks, same)
		grid, block, r := e.api.OccupancyMaxPotentialBlockSize(f, 0, 0)
		e.ok(r)
		assert.Positive(e, grid)
		assert.Zero(e, block%32)
		_, limited, r := e.api.OccupancyMaxPotentialBlockSize(f, 0, 100)
		e.ok(r)
		assert.LessOrEqual(e, limited, int32(100))
		_, r = e.api.OccupancyMaxActiveBlocksPerMultiprocessor(f, 0, 0)
		e.is(driver.ResultInvalidValue, r)
		shared, r := e.api.OccupancyAvailableDynamicSMemPerBlock(f, 2, 128)
		e.ok(r)
		assert.Positive(e, shared)
	}},
}
