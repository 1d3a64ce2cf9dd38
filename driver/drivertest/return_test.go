package drivertest_test

import (
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// A device that comes back has lost what it had: its old context fails until it is given up.
func TestReturn(t *testing.T) {
	for _, c := range []struct {
		name   string
		giveUp func(d *drivertest.Driver) driver.Result
	}{
		{"release", func(d *drivertest.Driver) driver.Result { return d.DevicePrimaryCtxRelease(0) }},
		{"reset", func(d *drivertest.Driver) driver.Result {
			return max(d.DevicePrimaryCtxReset(0), d.DevicePrimaryCtxRelease(0))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			goruntime.LockOSThread() // a context is current on a thread
			defer goruntime.UnlockOSThread()
			d := drivertest.ForTest(t, drivertest.Config{})
			require.Equal(t, driver.Success, d.Init(0))
			ask := func() driver.Result {
				ctx, r := d.DevicePrimaryCtxRetain(0)
				if r != driver.Success {
					return r
				}
				defer d.DevicePrimaryCtxRelease(0)
				if r := d.CtxPushCurrent(ctx); r != driver.Success {
					return r
				}
				defer d.CtxPopCurrent()
				_, _, r = d.MemGetInfo()
				// A call that names the device fails as one that needs the context does.
				pool, poolResult := d.MemPoolCreate(driver.MemPoolProps{AllocType: driver.MemAllocationPinned,
					Location: driver.MemLocation{Type: driver.MemLocationDevice}})
				assert.Equal(t, r, poolResult)
				if poolResult == driver.Success {
					assert.Equal(t, driver.Success, d.MemPoolDestroy(pool))
				}
				return r
			}
			old, r := d.DevicePrimaryCtxRetain(0)
			require.Equal(t, driver.Success, r)
			require.Equal(t, driver.Success, d.CtxPushCurrent(old))
			_, r = d.MemAlloc(100)
			require.Equal(t, driver.Success, r)
			_, r = d.StreamCreate(driver.StreamNonBlocking)
			require.Equal(t, driver.Success, r)
			_, r = d.CtxPopCurrent()
			require.Equal(t, driver.Success, r)
			assert.Equal(t, driver.Success, ask())
			d.Vanish(0)
			assert.Equal(t, driver.ResultUnknown, ask())
			d.Return(0)
			assert.Equal(t, driver.ResultUnknown, ask(), "the old context is dead")
			require.Equal(t, driver.Success, c.giveUp(d))
			assert.Equal(t, driver.Success, ask())
		})
	}
}
