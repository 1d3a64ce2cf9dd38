//go:build linux && (amd64 || arm64)

package drivertest_test

import (
	"encoding/hex"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// opened imports memory from a file descriptor and maps it.
func (g *gpu) opened(fd uintptr) driver.DevicePtr {
	g.t.Helper()
	h, r := g.MemImportFromShareableHandle(fd, driver.MemHandlePosixFD)
	g.ok(r)
	ptr, r := g.MemAddressReserve(chunk, 0, 0, 0)
	g.ok(r)
	g.ok(g.MemMap(ptr, chunk, 0, h, 0))
	g.ok(g.allow(ptr, 0))
	return ptr
}

// TestMemoryOfAnotherProcess runs itself in another process, which adds one to the memory.
func TestMemoryOfAnotherProcess(t *testing.T) {
	const variable, inherited = "PURECUDA_TEST_SHARED", 3
	n := uint32(8)
	if os.Getenv(variable) != "" {
		g := start(t, drivertest.Config{})
		ptr := g.opened(inherited)
		g.ok(g.launch(g.function("add_one"), g.stream(), pointer(&ptr), pointer(&n)))
		g.ok(g.CtxSynchronize())
		return
	}
	g := start(t, drivertest.Config{})
	h, r := g.MemCreate(chunk, physical(0, driver.MemHandlePosixFD), 0)
	g.ok(r)
	shareable, r := g.MemExportToShareableHandle(h, driver.MemHandlePosixFD, 0)
	g.ok(r)
	file := os.NewFile(uintptr(shareable.FD()), "shared")
	ptr := g.opened(file.Fd())
	g.ok(g.MemsetD32(ptr, 41, 8))
	child := exec.Command(os.Args[0], "-test.run=^TestMemoryOfAnotherProcess$", "-test.v")
	child.Env = append(os.Environ(), variable+"=1")
	child.ExtraFiles = []*os.File{file}
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var got [8]uint32
	g.ok(g.MemcpyDtoH(pointer(&got[0]), ptr, 32))
	assert.Equal(t, [8]uint32{42, 42, 42, 42, 42, 42, 42, 42}, got)
	require.NoError(t, file.Close())
	g.ok(g.MemRelease(h))
}

// TestIPCOfAnotherProcess runs itself in another process, which opens the memory and adds one.
func TestIPCOfAnotherProcess(t *testing.T) {
	const variable = "PURECUDA_TEST_IPC"
	n := uint32(8)
	if name := os.Getenv(variable); name != "" {
		var handle driver.IpcMemHandle
		_, err := hex.Decode(handle[:], []byte(name))
		require.NoError(t, err)
		openIPC(t, handle, n)
		return
	}
	g := start(t, drivertest.Config{})
	ptr := g.alloc(100 * 4) // no whole page
	g.ok(g.MemsetD32(ptr, 41, uint64(n)))
	s := g.stream()
	release := make(chan struct{})
	g.ok(g.LaunchHostFunc(s, func() { <-release }))
	g.ok(g.launch(g.function("add_one"), s, pointer(&ptr), pointer(&n)))
	go close(release)
	handle, r := g.IpcGetMemHandle(ptr)
	g.ok(r)
	again, r := g.IpcGetMemHandle(ptr)
	g.ok(r)
	assert.Equal(t, handle, again)
	child := exec.Command(os.Args[0], "-test.run=^TestIPCOfAnotherProcess$", "-test.v")
	child.Env = append(os.Environ(), variable+"="+hex.EncodeToString(handle[:]))
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestIPCOfAnotherProcess")
	g.ok(g.launch(g.function("add_one"), s, pointer(&ptr), pointer(&n)))
	g.ok(g.CtxSynchronize())
	var got [8]uint32
	g.ok(g.MemcpyDtoH(pointer(&got[0]), ptr, 32))
	assert.Equal(t, [8]uint32{44, 44, 44, 44, 44, 44, 44, 44}, got, "the memory as before, the work before, the other process and the work after")
	_, r = g.IpcGetMemHandle(ptr + 256)
	g.is(driver.ResultInvalidValue, r)
	g.is(driver.ResultInvalidValue, g.IpcCloseMemHandle(ptr))
	g.ok(g.MemFree(ptr))
	_, r = g.IpcGetMemHandle(ptr)
	g.is(driver.ResultInvalidValue, r)
}

// openIPC is what the other process does.
func openIPC(t *testing.T, handle driver.IpcMemHandle, n uint32) {
	g := start(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
	_, r := g.IpcOpenMemHandle(handle, 0)
	g.is(driver.ResultInvalidValue, r)
	wrong := handle
	wrong[0]++
	_, r = g.IpcOpenMemHandle(wrong, driver.IpcLazyEnablePeerAccess)
	g.is(driver.ResultInvalidValue, r)
	for _, part := range []int{8, 16, 24} { // process, file, inode
		wrong := handle
		wrong[part+2]++
		_, r = g.IpcOpenMemHandle(wrong, driver.IpcLazyEnablePeerAccess)
		g.is(driver.ResultInvalidHandle, r)
	}
	other, r := g.DevicePrimaryCtxRetain(1)
	g.ok(r)
	g.ok(g.CtxPushCurrent(other))
	_, r = g.IpcOpenMemHandle(handle, driver.IpcLazyEnablePeerAccess)
	g.is(driver.ResultInvalidDevice, r)
	_, r = g.CtxPopCurrent()
	g.ok(r)
	g.ok(g.DevicePrimaryCtxRelease(1))

	before, _, r := g.MemGetInfo()
	g.ok(r)
	ptr, r := g.IpcOpenMemHandle(handle, driver.IpcLazyEnablePeerAccess)
	g.ok(r)
	again, r := g.IpcOpenMemHandle(handle, driver.IpcLazyEnablePeerAccess)
	g.ok(r)
	assert.Equal(t, ptr, again)
	base, bytes, r := g.MemGetAddressRange(ptr + 200)
	g.ok(r)
	assert.Equal(t, ptr, base)
	assert.EqualValues(t, 400, bytes)
	after, _, r := g.MemGetInfo()
	g.ok(r)
	assert.Equal(t, before, after, "it counts where it was made")
	_, r = g.IpcGetMemHandle(ptr)
	g.is(driver.ResultInvalidValue, r)
	g.ok(g.IpcCloseMemHandle(ptr))
	g.ok(g.launch(g.function("add_one"), g.stream(), pointer(&ptr), pointer(&n)))
	g.ok(g.CtxSynchronize())
	g.is(driver.ResultInvalidValue, g.MemFree(ptr))
	assert.Contains(t, g.Findings()[0].String(), "cuIpcCloseMemHandle closes")
	g.is(driver.ResultInvalidValue, g.IpcCloseMemHandle(ptr+256))
	g.ok(g.IpcCloseMemHandle(ptr))
	g.is(driver.ResultInvalidValue, g.IpcCloseMemHandle(ptr))
	_, r = g.IpcOpenMemHandle(handle, driver.IpcLazyEnablePeerAccess)
	g.ok(r)
	assert.Contains(t, strings.Join(g.Leaks(), "\n"), "400 bytes of device memory at ")
	assert.Contains(t, strings.Join(g.Leaks(), "\n"), "from cuIpcOpenMemHandle")
	g.ok(g.DevicePrimaryCtxReset(0))
	_, r = g.IpcOpenMemHandle(driver.IpcMemHandle{}, driver.IpcLazyEnablePeerAccess)
	g.is(driver.ResultContextIsDestroyed, r)
}

func TestImportOfWhatIsNoMemory(t *testing.T) {
	g := start(t, drivertest.Config{})
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { assert.NoError(t, null.Close()) }()
	for _, fd := range []uintptr{null.Fd(), ^uintptr(0), 1 << 30} {
		_, r := g.MemImportFromShareableHandle(fd, driver.MemHandlePosixFD)
		g.is(driver.ResultInvalidValue, r)
	}
	_, r := g.MemImportFromShareableHandle(null.Fd(), driver.MemHandleWin32)
	g.is(driver.ResultInvalidValue, r)

	large := start(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
	h, r := large.MemCreate(chunk, physical(1, driver.MemHandlePosixFD), 0)
	large.ok(r)
	shareable, r := large.MemExportToShareableHandle(h, driver.MemHandlePosixFD, 0)
	large.ok(r)
	file := os.NewFile(uintptr(shareable.FD()), "shared")
	defer func() { assert.NoError(t, file.Close()) }()
	_, r = g.MemImportFromShareableHandle(file.Fd(), driver.MemHandlePosixFD)
	g.is(driver.ResultInvalidDevice, r)
}
