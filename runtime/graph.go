package runtime

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/zero"
)

// Graph is work that [Stream.Capture] has recorded and that has not run. Instantiate
// makes it ready to run as often as needed, and [GraphExec.Update] takes changed
// arguments from it. It is safe for concurrent use.
//
// A graph retains what it uses. Modules, buffers and host buffers that are closed meanwhile are freed
// after the graph and all executable graphs that were made from it.
type Graph struct {
	object
	handle driver.Graph
	turn   gate.Turn // see exclusively
	// operations are what was recorded, in words.
	operations []string
}

// Handle is the graph as package driver takes it.
func (g *Graph) Handle() driver.Graph { return zero.Or(g).handle }

// Nodes is the number of nodes: launches, copies, memsets and calls of the host. Events
// that order them are no nodes.
func (g *Graph) Nodes() (int, error) {
	if g == nil || g.ctx == nil {
		return 0, errNothing("graph")
	}
	n := 0
	err := g.exclusively(func() error {
		if err := g.bind(); err != nil {
			return err
		}
		defer g.ctx.bind.Pop()
		nodes, r := g.ctx.api.GraphGetNodes(g.handle)
		n = len(nodes)
		return g.ctx.bind.Failed("cuGraphGetNodes", r)
	})
	return n, err
}

// exclusively runs f with no other caller inside: the driver does not lock graphs.
func (g *Graph) exclusively(f func() error) error { return g.alone(&g.turn, g.hold, f) }

// Instantiate makes the graph ready to run. It first frees what the garbage collector has found. The
// graph may be closed afterwards. It takes some 10 microseconds and more for large graphs.
func (g *Graph) Instantiate() (*GraphExec, error) {
	if g == nil || g.ctx == nil {
		return nil, errNothing("graph")
	}
	var x *GraphExec
	err := g.exclusively(func() (err error) {
		x, err = g.instantiate()
		return err
	})
	return x, err
}

// instantiate is called with the graph exclusively.
func (g *Graph) instantiate() (*GraphExec, error) {
	c := g.ctx
	retained, err := retainAll(g.entry.retained())
	if err != nil {
		return nil, err
	}
	o, err := c.create(execEntry, 0, "cuGraphInstantiateWithFlags", func() (uint64, driver.Result) {
		x, r := c.api.GraphInstantiate(g.handle, 0)
		return uint64(x), r
	}, retained...)
	if err != nil {
		c.rt.report(releaseAll(retained))
		return nil, err
	}
	x := &GraphExec{object: o, handle: driver.GraphExec(o.entry.handle), operations: g.operations, refs: refArgs(retained), reports: reportsOf(retained)}
	trackGC(x, &x.object)
	return x, nil
}
