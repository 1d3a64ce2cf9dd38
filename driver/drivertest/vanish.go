package drivertest

import "github.com/purecuda/purecuda/driver"

// vanished is what calls on a device return that is not there any more. It is what
// programs have reported whose GPU fell off the bus, and it is not sticky: other
// devices go on.
const vanished = driver.ResultUnknown

// Vanish takes a device out of the machine, as when it falls off the bus. Calls that
// need it return ResultUnknown from now on, and the work that it has ends without being
// done. What the driver knows by itself it goes on to tell: the count, names and
// attributes of devices. The context of the device can be released, and what is lost
// with it is no leak, nor is the context. Vanish panics if there is no such device; see also
// [Driver.Return] and [DeviceConfig].VanishAt.
func (of *Driver) Vanish(ordinal int) {
	d := of.simulated
	d.mu.Lock()
	defer d.mu.Unlock()
	d.devices[ordinal].vanish()
}

// Return brings a device back that has vanished. It has lost everything: calls in its old context
// go on to fail, until the program has released that as often as retained, or has reset it. Return
// panics if there is no such device.
func (of *Driver) Return(ordinal int) {
	d := of.simulated
	d.mu.Lock()
	defer d.mu.Unlock()
	d.devices[ordinal].gone.Store(false)
}

func (dev *device) vanish() {
	dev.life.Add(1)
	dev.gone.Store(true)
}

// vanish counts all calls and takes out the devices whose time has come.
func (d *simulated) vanish(op string) {
	d.total++
	for _, dev := range d.devices {
		if dev.config.VanishAt == d.total {
			dev.vanish()
			d.noteInjection(Injection{Op: op, Call: d.nth[op], Result: vanished, Device: dev.ordinal, Vanished: true})
		}
	}
}

// present tells whether the device is there.
func (dev *device) present() driver.Result {
	if dev.gone.Load() {
		return vanished
	}
	return driver.Success
}

// present tells whether the device is there, and has been since the context was made.
func (ctx *context) present() driver.Result {
	if ctx.life != ctx.dev.life.Load() {
		return vanished
	}
	return ctx.dev.present()
}
