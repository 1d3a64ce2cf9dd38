package drivertest

import "github.com/purecuda/purecuda/driver"

// canReach tells that the devices may access each other's memory.
func (dev *device) canReach(peer *device) bool {
	return dev != peer && !dev.config.NoPeers && !peer.config.NoPeers && dev.config.Island == peer.config.Island
}

func (d *simulated) DeviceCanAccessPeer(device, peer driver.Device) (int32, driver.Result) {
	_, dev, r := enterOn(d, call.device, "cuDeviceCanAccessPeer", device)
	if r != driver.Success {
		return 0, r
	}
	defer d.mu.Unlock()
	other, r := d.device(peer)
	if r != driver.Success {
		return 0, r
	}
	return boolean(dev.canReach(other)), driver.Success
}

func (d *simulated) DeviceGetP2PAttribute(attribute driver.P2PAttribute, src, dst driver.Device) (int32, driver.Result) {
	return getOf(d, call.device, "cuDeviceGetP2PAttribute", src, func(_ call, from *device) (int32, driver.Result) {
		to, r := d.device(dst)
		if r != driver.Success {
			return 0, r
		}
		if from == to {
			return 0, driver.ResultInvalidDevice
		}
		switch attribute {
		case driver.P2PAttributePerformanceRank:
			return 0, driver.Success
		case driver.P2PAttributeAccessSupported, driver.P2PAttributeNativeAtomicSupported:
			return boolean(from.canReach(to)), driver.Success
		}
		return 0, driver.ResultInvalidValue
	})
}

func (d *simulated) CtxEnablePeerAccess(peer driver.Context, flags uint32) driver.Result {
	return d.do("cuCtxEnablePeerAccess", func(c call) driver.Result {
		other, r := c.context(peer)
		switch {
		case r != driver.Success:
			return r
		case flags != 0:
			return driver.ResultInvalidValue
		case !c.ctx.dev.canReach(other.dev):
			return driver.ResultPeerAccessUnsupported
		case c.ctx.peers[other]:
			return driver.ResultPeerAccessAlreadyEnabled
		}
		d.memory.mu.Lock()
		c.ctx.peers[other] = true
		d.memory.mu.Unlock()
		return driver.Success
	})
}

func (d *simulated) CtxDisablePeerAccess(peer driver.Context) driver.Result {
	return d.do("cuCtxDisablePeerAccess", func(c call) driver.Result {
		other, r := c.context(peer)
		switch {
		case r != driver.Success:
			return r
		case !c.ctx.peers[other]:
			return driver.ResultPeerAccessNotEnabled
		}
		d.memory.mu.Lock()
		delete(c.ctx.peers, other)
		d.memory.mu.Unlock()
		return driver.Success
	})
}
