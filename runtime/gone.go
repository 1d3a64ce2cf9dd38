package runtime

import (
	"errors"
	"log/slog"

	"github.com/purecuda/purecuda/driver"
)

// maxPings is how often in a row the driver must fail to tell of a device that is gone. A call
// can fail for other reasons; calls of a device that is not there fail all.
const maxPings = 32

// goneResults are what calls return whose device or context is not there any more. Each of them
// can also mean something else.
var goneResults = map[driver.Result]bool{
	driver.ResultUnknown:            true, // a GPU that fell off the bus
	driver.ResultDeviceUnavailable:  true,
	driver.ResultNoDevice:           true,
	driver.ResultInvalidDevice:      true,
	driver.ResultECCUncorrectable:   true,
	driver.ResultContextIsDestroyed: true, // somebody else in the process has reset it
}

// detectGone finds out whether an error means that the device is gone, and gives it up then. The
// error may come from another device, whose memory or event the call named.
func (c *Context) detectGone(e *driver.Error) {
	if !goneResults[e.Code] || c.rt.lost.Load() != nil {
		return
	}
	for _, of := range c.rt.Contexts() { // one that is being opened is not among them
		if of.isLost() {
			if of == c && c.rt.lost.Load() == nil { // another call has found out before
				e.Kind = driver.ErrDeviceLost
			}
			continue
		}
		answer := of.ping()
		if !goneResults[answer] {
			continue
		}
		cause := *e // callers add to theirs
		if of != c {
			cause = *driver.Failed("cuMemGetInfo", answer)
		}
		cause.Kind, cause.Device = driver.ErrDeviceLost, of.device.Ordinal
		cause.Detail = "the device does not answer any more"
		if of == c {
			e.Kind, e.Detail = cause.Kind, cause.Detail
		}
		of.rt.log(slog.LevelError, "a device is lost", "device", of.device.String(), "error", &cause)
		of.loseMemory(&cause)
	}
}

// ping asks the driver about the device until it answers, and returns the last result. It is Success
// where that cannot be asked: while the context is taken down, and after.
func (c *Context) ping() (r driver.Result) {
	if !c.alive.Enter() {
		return driver.Success
	}
	defer c.alive.Leave()
	if c.bind.Context == 0 { // it could not be made again, and is about to be lost
		return driver.Success
	}
	quiet := driver.Binding{API: c.api, Context: c.bind.Context, Ordinal: c.device.Ordinal, OnCleanup: c.rt.report}
	for range maxPings {
		r = driver.Success
		err := quiet.Do(func() error {
			_, _, r = c.api.MemGetInfo()
			return nil
		})
		var failed *driver.Error
		if errors.As(err, &failed) {
			r = failed.Code
		}
		if r.Sticky() {
			c.rt.report(c.bind.Failed("cuMemGetInfo", r)) // it ends more than this device
		}
		if !goneResults[r] {
			break
		}
	}
	return r
}
