package arena

import "github.com/purecuda/purecuda/driver"

// nothing is the error of a nil pointer or a zero value.
func nothing(what string) error {
	return driver.Errorf(driver.ErrInvalidArgument, "a %s that was never made", what)
}

func noDriver(b *driver.Binding) bool { return b == nil || b.API == nil }

func (d *Device) made() error {
	if d == nil || d.binding == nil {
		return nothing("device's memory")
	}
	return nil
}

func (s *Stream) made() error {
	if s == nil || s.dev == nil {
		return nothing("stream of an arena")
	}
	return nil
}

func (c *Copier) made() error {
	if c == nil || c.binding == nil {
		return nothing("Copier, which needs a driver, Workers and a Pinned")
	}
	return nil
}

func (p *Pinned) made() error {
	if p == nil || p.binding == nil {
		return nothing("Pinned, which needs a driver")
	}
	return nil
}
