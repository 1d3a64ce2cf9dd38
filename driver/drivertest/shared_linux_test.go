//go:build linux && (amd64 || arm64)

package drivertest_test

import (
	"os"
	"os/exec"
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

func TestImportOfWhatIsNoMemory(t *testing.T) {
	g := start(t, drivertest.Config{})
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { assert.NoError(t, null.Close()) }()
	for _, fd := range []uintptr{null.Fd(), ^uintptr(0), 1 << 30} {
		_, r := g.MemImportFromShareableHandle(fd, driver.MemHandlePosixFD)
		g.is(driver.ErrorInvalidValue, r)
	}
	_, r := g.MemImportFromShareableHandle(null.Fd(), driver.MemHandleWin32)
	g.is(driver.ErrorInvalidValue, r)

	large := start(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
	h, r := large.MemCreate(chunk, physical(1, driver.MemHandlePosixFD), 0)
	large.ok(r)
	shareable, r := large.MemExportToShareableHandle(h, driver.MemHandlePosixFD, 0)
	large.ok(r)
	file := os.NewFile(uintptr(shareable.FD()), "shared")
	defer func() { assert.NoError(t, file.Close()) }()
	_, r = g.MemImportFromShareableHandle(file.Fd(), driver.MemHandlePosixFD)
	g.is(driver.ErrorInvalidDevice, r)
}
