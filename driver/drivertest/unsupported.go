package drivertest

import "github.com/purecuda/purecuda/driver"

// Refused says why the simulated driver does not have a function ("cuTexObjectCreate"), which then
// returns ResultNotSupported. It is "" for a function that is simulated. Refused panics if there is no
// such function.
func Refused(function string) (reason string) {
	mustBeFunction(function)
	return entries[function].refused
}

// refuses makes a call of a function that this driver does not have.
func (d *simulated) refuses(op string) driver.Result {
	if _, r := d.enter(op); r != driver.Success {
		return r
	}
	d.mu.Unlock()
	return driver.ResultNotSupported
}
