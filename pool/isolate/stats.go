package isolate

// Stats are the figures of a group since Open.
type Stats struct {
	// Requests were let in. Refused did not find room in the queue.
	Requests, Refused uint64
	// Retries are tries after the first one of a request.
	Retries uint64
	// Fallbacks are requests that the CPU began to do ([WithFallback]).
	Fallbacks uint64
	// TimedOut and Died are tries that ended by a deadline, or by the death of their child.
	TimedOut, Died uint64
	// Queue is how many requests wait now, of QueueLimit at most; those with WithQueueWait come on top.
	Queue, QueueLimit int
	// Devices are in the order of Open's runtime.
	Devices []DeviceStats
}

// DeviceStats are the figures of the child of a device.
type DeviceStats struct {
	// Device is the ordinal.
	Device int
	State  State
	// PID is the process, and Standby the one of WithStandby that waits to replace it, or 0.
	PID, Standby int
	// Busy is how many requests it has now.
	Busy int
	// Requests it got, children that got ready, and children that died or did not get ready.
	Requests, Starts, Deaths uint64
	// Kills counts the deaths that a request caused which did not end after its context.
	Kills uint64
	// Err is why the last one died, or nil.
	Err error
}

// Stats returns the figures of now.
func (g *Group) Stats() Stats {
	if g == nil || g.pool == nil {
		return Stats{}
	}
	p := g.pool.Stats()
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.figures
	all.Requests, all.Refused, all.Retries, all.Queue, all.QueueLimit = p.Requests, p.Refused, p.Retries, p.Queued, p.QueueLimit
	for i, s := range g.slots {
		d := s.figures
		d.Device, d.State, d.Err = s.device.Ordinal, s.state, s.err
		d.Requests, d.Busy = p.Devices[i].Requests, p.Devices[i].Busy
		if s.state == Ready {
			d.PID = s.process.cmd.Process.Pid
		}
		if s.standby != nil && s.standby.reason() == nil {
			d.Standby = s.standby.cmd.Process.Pid
		}
		all.Devices = append(all.Devices, d)
	}
	return all
}
