package pool

import (
	"github.com/purecuda/purecuda/runtime"
)

// Reason says why fewer devices than there are, or the CPU, did the work. The words do not change between
// versions. [Stats] counts them.
type Reason string

// The reasons.
const (
	PolicyOff      Reason = "policy off"      // the runtime was opened with runtime.PolicyOff
	Absent         Reason = "absent"          // there is no driver, or no device
	Fault          Reason = "fault"           // CUDA is installed and cannot be used, or is lost
	MeasuredSlower Reason = "measured slower" // the CPU is faster
	Failed         Reason = "failed"          // the devices failed
	Quarantined    Reason = "quarantined"     // the devices are quarantined
	NoMemory       Reason = "no memory"       // no device has the memory of DoOptions.Reserve
	Unsuited       Reason = "unsuited"        // no device suits, see DoOptions.Suits
	TooSmall       Reason = "too small"       // too few items for all devices, see ScatterOptions.MinPerDevice
)

// unusable returns the reason for which no device can be used at all.
func (p *Pool) unusable() Reason {
	switch {
	case p.rt.Outcome() != runtime.Absent:
		return Fault
	case p.rt.Policy() == runtime.PolicyOff:
		return PolicyOff
	}
	return Absent
}

// count counts a reason.
func (p *Pool) count(r Reason) {
	if r == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.figures.reasons == nil {
		p.figures.reasons = map[Reason]uint64{}
	}
	p.figures.reasons[r]++
}
