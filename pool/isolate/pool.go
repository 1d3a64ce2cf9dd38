package isolate

import (
	"errors"
	"slices"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
)

// Pool makes a pool with the devices of the group, for Scatter, Map and Reduce, their options, reports
// and errors. Their functions run in this process and call [Group.Call]. No Setup runs here: see [Main]. A device that is left out is
// skipped. Close the pool before the group.
func (g *Group) Pool(options ...pool.Options) (*pool.Pool, error) {
	if g == nil || g.starter == nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "Pool takes a group of isolate.Open")
	}
	own := pool.Options{Remote: g.state}
	for _, s := range g.slots {
		own.Devices = append(own.Devices, s.device.Ordinal)
	}
	if len(options) == 0 {
		return pool.Open(g.rt, own)
	}
	options = slices.Clone(options)
	options[0].Remote = own.Remote
	if options[0].Devices == nil {
		options[0].Devices = own.Devices
	}
	return pool.Open(g.rt, options...)
}

// Call is [Group.Do] in the child of a worker's device, with the worker's context. A fallback of [Open] does not run: the
// pool's own call has one. A key whose state is in a child of another device is an error.
func (g *Group) Call(w *pool.Worker, name string, data []byte, options ...Option) ([]byte, error) {
	if w == nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "Call(%.40q) takes a worker of Group.Pool", name)
	}
	result, _, err := g.Do(w.CallContext(), name, data, append(append([]Option{WithFallback(nil)}, options...), WithDevices(w.Device().Ordinal), func(c *config) { c.ofWorker = true })...)
	return result, err
}

// state is why no child of a device serves, or nil.
func (g *Group) state(ordinal int, _ bool) error {
	if err := g.serves(ordinal, false); !errors.Is(err, pool.ErrNotReady) {
		return err
	}
	return nil // a call waits for it
}
