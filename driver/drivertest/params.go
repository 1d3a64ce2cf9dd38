package drivertest

import "github.com/purecuda/purecuda/driver"

// Params returns the number of parameters of a function, or of a kernel in the place of
// one, and false if there is no such function. It is no call of the driver: it is for
// who hands a driver parameters as C does, without their number.
func (of *Driver) Params(h driver.Function) (count int, ok bool) {
	d := of.simulated
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := d.kernels.live[driver.Kernel(h)]; k != nil {
		return len(k.entry.params), true
	}
	if f := d.functions.live[h]; f != nil {
		return len(f.entry.params), true
	}
	return 0, false
}
