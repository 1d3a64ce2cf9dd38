package drivertest

import "github.com/purecuda/purecuda/driver"

// Luck is what chance makes the first call of a function return.
func (d *Driver) Luck(op string) driver.Result { return d.simulated.config.Chaos.draw(op, 1).result }
