package runtime

import (
	"fmt"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/zero"
)

// GraphExec is a graph that is ready to run. It is safe for concurrent use: launches of
// the same one run one after the other, also on different streams.
//
// It retains what it uses, as [Graph] does. Closing it waits for the work of the device.
type GraphExec struct {
	object
	handle     driver.GraphExec
	queue      locks.Mutex[locks.Object] // of callers that find another one inside; see exclusively
	operations []string
	refs       []Arg     // that the work reads or writes
	reports    []*report // that its kernels write
}

// Handle is the executable graph as package driver takes it.
func (x *GraphExec) Handle() driver.GraphExec { return zero.Or(x).handle }

// Launch puts the whole graph after the work on s, a stream of the graph's context, and
// returns. It does not allocate. The arguments are from the time of the capture or of
// the last Update; what memory holds is read when the graph runs. What goes wrong while it
// runs shows at the next wait.
func (x *GraphExec) Launch(s *Stream) error {
	if x == nil || x.ctx == nil {
		return errNothing("graph")
	}
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	if s.ctx != x.ctx {
		return x.elsewhere(s, "GraphExec.Launch")
	}
	if s.tracing.Load() != nil {
		return s.traceLaunch(TraceLaunch{}, func() error { return x.exclusively(func() error { return x.launch(s) }) })
	}
	if !x.gate.EnterAlone() {
		return x.exclusively(func() error { return x.launch(s) })
	}
	err := x.launch(s)
	x.leave() // nothing above panics, and a defer costs more
	return err
}

// launch is called with no other caller inside.
func (x *GraphExec) launch(s *Stream) error {
	if err := x.start(s, "GraphExec.Launch"); err != nil {
		return err
	}
	err := s.lease(x.refs)
	if err == nil {
		s.stats.graphLaunches.Add(1)
		r := s.ctx.api.GraphLaunch(x.handle, s.handle)
		s.release(x.refs)
		if r != driver.Success {
			err = s.failed("cuGraphLaunch", r)
		}
		if len(x.reports) > 0 {
			s.checks.join(x.reports...)
		}
	}
	s.endWork()
	return err
}

// Upload brings the graph to the device after the work on s, and returns. The first
// launch does it otherwise.
func (x *GraphExec) Upload(s *Stream) error {
	if x == nil || x.ctx == nil {
		return errNothing("graph")
	}
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	if s.ctx != x.ctx {
		return x.elsewhere(s, "GraphExec.Upload")
	}
	return x.exclusively(func() error {
		if err := x.start(s, "GraphExec.Upload"); err != nil {
			return err
		}
		defer s.endWork()
		return s.failed("cuGraphUpload", s.ctx.api.GraphUpload(x.handle, s.handle))
	})
}

// exclusively runs f with no other caller inside: the driver does not lock graphs. A caller that is alone enters the
// gate and no more. Those that are not go one by one, and keep later callers out until it is their turn.
func (x *GraphExec) exclusively(f func() error) error {
	if x.gate.EnterAlone() {
		defer x.leave()
		return f()
	}
	x.queue.Lock()
	defer x.queue.Unlock()
	return x.suspended(x.hold, f)
}

// start opens a call on a stream that launches or uploads the graph, and endWork closes it.
func (x *GraphExec) start(s *Stream, what string) error {
	err := s.work()
	if err == nil && s.capture.Load() != nil {
		err = s.refuse(what, "a graph cannot be part of another one")
		s.endWork()
	}
	return err
}

func (x *GraphExec) elsewhere(s *Stream, what string) error {
	return driver.Errorf(driver.ErrInvalidArgument, "%s on a stream of device %d, and the graph is of device %d%s",
		what, s.ctx.device.Ordinal, x.ctx.device.Ordinal, apart(s.ctx, x.ctx))
}

// Update gives the launches from now on the arguments of g, a capture of the same
// operations in the same order. Those that are under way are not changed. It is a small
// part of what Instantiate costs. From then on it retains what g uses in place of what it
// used before, and may wait for the device to free that.
//
// A graph that differs in more than arguments, or has bodies, matches driver.ResultGraphExecUpdateFailure,
// and the error says in what: instantiate it then. The executable graph is as it was.
func (x *GraphExec) Update(g *Graph) error {
	if x == nil || x.ctx == nil {
		return errNothing("graph")
	}
	if g == nil || g.ctx == nil {
		return errNothing("graph")
	}
	if g.ctx != x.ctx {
		return driver.Errorf(driver.ErrInvalidArgument, "update of a graph of device %d with one of device %d%s",
			x.ctx.device.Ordinal, g.ctx.device.Ordinal, apart(x.ctx, g.ctx))
	}
	var before []retainable
	err := x.exclusively(func() error {
		if err := x.bind(); err != nil {
			return err
		}
		defer x.ctx.bind.Pop()
		if err := x.ctx.state.Check(x.entry.generation); err != nil {
			return err
		}
		return g.exclusively(func() (err error) {
			before, err = x.update(g)
			return err
		})
	})
	x.ctx.rt.report(releaseAll(before))
	return err
}

// update returns what is to be dropped. The caller has both graphs exclusively.
func (x *GraphExec) update(g *Graph) ([]retainable, error) {
	c := x.ctx
	now, err := retainAll(g.entry.retained())
	if err != nil {
		return nil, err
	}
	info, r := c.api.GraphExecUpdate(x.handle, g.handle)
	if r != driver.Success {
		err := c.bind.Fault("cuGraphExecUpdate", r)
		if r == driver.ResultGraphExecUpdateFailure {
			err.Detail = updateReason(info.Result) + difference(x.operations, g.operations) + "; instantiate the graph instead"
		}
		return now, err
	}
	x.operations, x.refs, x.reports = g.operations, refArgs(now), reportsOf(now)
	return x.entry.setRetained(now), nil
}

func updateReason(r driver.GraphExecUpdateResult) string {
	reasons := map[driver.GraphExecUpdateResult]string{
		driver.GraphUpdateTopologyChanged:           "the operations of the graph or their order have changed",
		driver.GraphUpdateNodeTypeChanged:           "an operation became one of another kind",
		driver.GraphUpdateFunctionChanged:           "a kernel became another one",
		driver.GraphUpdateUnsupportedFunctionChange: "a kernel became one that cannot take its place",
		driver.GraphUpdateParametersChanged:         "arguments have changed that cannot be replaced",
		driver.GraphUpdateAttributesChanged:         "attributes of a launch have changed",
		driver.GraphUpdateNotSupported:              "the graph has an operation that cannot be updated",
	}
	if text, ok := reasons[r]; ok {
		return text
	}
	return fmt.Sprintf("the driver gives reason %d", r)
}

// difference says where two recordings part, or nothing.
func difference(was, is []string) string {
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			return fmt.Sprintf(": operation %d was %s and is %s", i, was[i], is[i])
		}
	}
	if len(was) != len(is) {
		return fmt.Sprintf(": %d operations became %d", len(was), len(is))
	}
	return ""
}
