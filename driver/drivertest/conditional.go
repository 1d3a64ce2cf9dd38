package drivertest

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
)

// number is what kernels set and conditional nodes read.
type number struct {
	handle driver.GraphConditionalHandle
	value  atomic.Uint32
	// first is the value that each launch begins with, if assign says so.
	first  uint32
	assign bool
	used   bool       // by a conditional node
	mu     sync.Mutex // held while a launch runs that has it
}

// condition is of a conditional node.
type condition struct {
	of   *number
	kind driver.GraphConditionalType
	body *graph
}

// setConditional is cudaGraphSetConditional of a kernel.
func (d *simulated) setConditional(handle uint64, value uint32) bool {
	n, ok := d.numbers.Load(driver.GraphConditionalHandle(handle))
	if ok {
		n.(*number).value.Store(value)
	}
	return ok
}

// frozen are nodes as they are now: bodies of conditional nodes may grow.
func frozen(nodes []*node) []*node {
	now, all := map[*node]*node{}, make([]*node, len(nodes))
	for i, was := range nodes {
		n := *was
		n.deps = nil
		for _, dep := range was.deps {
			n.deps = append(n.deps, now[dep])
		}
		if n.condition.body != nil {
			n.inner = frozen(n.condition.body.nodes)
		}
		all[i], now[was] = &n, &n
	}
	return all
}

// numbersOf are the numbers of all conditional nodes, in the order in which they were made.
func numbersOf(nodes []*node) (all []*number) {
	for _, n := range nodes {
		if n.condition.of != nil {
			all = append(all, n.condition.of)
		}
		all = append(all, numbersOf(n.inner)...)
	}
	slices.SortFunc(all, func(a, b *number) int { return cmp.Compare(a.handle, b.handle) })
	return all
}

// alone runs a launch while no other one uses its numbers.
func alone(numbers []*number, run func() error) error {
	for _, n := range numbers {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.assign {
			n.value.Store(n.first)
		}
	}
	return run()
}

// roundSteps is how many instructions a round of a while counts for Config.MaxSteps, beside its kernels.
const roundSteps = 1 << 10

// repeat runs the body of a conditional node.
func (d *simulated) repeat(c condition, body *replay) error {
	for rounds := uint64(1); c.of.value.Load() != 0 && d.poison() == driver.Success && d.running.Err() == nil; rounds++ {
		if rounds > d.config.MaxSteps/roundSteps+1 {
			return &fault{result: driver.ResultLaunchTimeout, detail: fmt.Sprintf("a while of more than %d rounds", rounds-1)}
		}
		if err := body.run(); err != nil || c.kind == driver.GraphIf {
			return err
		}
	}
	return nil
}

// dependencies finds nodes of a graph.
func (c call) dependencies(g *graph, list []driver.GraphNode) (deps []*node, r driver.Result) {
	for _, id := range list {
		i := slices.Index(ids(g.nodes), id)
		if i < 0 || slices.Contains(deps, g.nodes[i]) {
			c.found(driver.ResultInvalidValue, "%#x is no node of the graph, or stands twice among the dependencies", uintptr(id))
			return nil, driver.ResultInvalidValue
		}
		deps = append(deps, g.nodes[i])
	}
	return deps, driver.Success
}

// bodyTakes are the kinds of nodes in the body of a conditional node.
var bodyTakes = []nodeKind{nodeKernel, nodeMemcpy, nodeMemset, nodeEmpty, nodeGraph, nodeConditional}

// runnable tells whether bodies have only what they may have. CUDA looks when a graph is instantiated.
func runnable(nodes []*node, inBody bool) bool {
	return !slices.ContainsFunc(nodes, func(n *node) bool {
		return inBody && !slices.Contains(bodyTakes, n.work.kind) || !runnable(n.inner, inBody || n.condition.of != nil)
	})
}

func (d *simulated) GraphAddChildGraphNode(h driver.Graph, dependencies []driver.GraphNode, child driver.Graph) (driver.GraphNode, driver.Result) {
	return getOf(d, call.graph, "cuGraphAddChildGraphNode", h, func(c call, g *graph) (driver.GraphNode, driver.Result) {
		of, r := c.graph(child)
		if r != driver.Success {
			return 0, r
		}
		deps, r := c.dependencies(g, dependencies)
		if r != driver.Success {
			return 0, r
		}
		if of == g {
			return 0, driver.ResultInvalidValue
		}
		for _, n := range of.nodes {
			if n.work.kind == nodeConditional {
				return 0, driver.ResultNotSupported
			}
		}
		n := g.add(c, work{kind: nodeGraph}, deps)
		n.inner = frozen(of.nodes)
		return n.id, driver.Success
	})
}

func (d *simulated) GraphConditionalHandleCreate(h driver.Graph, ctx driver.Context, value, flags uint32) (driver.GraphConditionalHandle, driver.Result) {
	return getOf(d, call.graph, "cuGraphConditionalHandleCreate", h, func(c call, g *graph) (driver.GraphConditionalHandle, driver.Result) {
		if _, r := find(c, &d.contexts, ctx); r != driver.Success || flags&^driver.GraphConditionalDefault != 0 {
			return 0, driver.ResultInvalidValue
		}
		n := &number{handle: driver.GraphConditionalHandle(d.newHandle()), first: value, assign: flags != 0}
		g.numbers = append(g.numbers, n)
		d.numbers.Store(n.handle, n)
		return n.handle, driver.Success
	})
}

func (d *simulated) GraphAddConditionalNode(h driver.Graph, dependencies []driver.GraphNode, handle driver.GraphConditionalHandle, kind driver.GraphConditionalType, ctx driver.Context) (driver.GraphNode, driver.Graph, driver.Result) {
	c, g, r := enterOn(d, call.graph, "cuGraphAddNode", h)
	if r != driver.Success {
		return 0, 0, r
	}
	defer d.mu.Unlock()
	deps, r := c.dependencies(g, dependencies)
	if r != driver.Success {
		return 0, 0, r
	}
	of, ok := d.numbers.Load(handle)
	_, r = find(c, &d.contexts, ctx)
	switch {
	case r != driver.Success || kind < driver.GraphIf || kind > driver.GraphWhile:
		return 0, 0, driver.ResultInvalidValue
	case !ok || of.(*number).used || !slices.Contains(g.numbers, of.(*number)):
		c.found(driver.ResultInvalidValue, "%#x is no handle of the graph, or another node has it", uint64(handle))
		return 0, 0, driver.ResultInvalidValue
	}
	of.(*number).used = true
	body := &graph{body: true}
	n := g.add(c, work{kind: nodeConditional}, deps)
	n.condition = condition{of.(*number), kind, body}
	return n.id, c.keepGraph(body), driver.Success
}

// removeBodies removes what goes with a graph, but for its numbers: executable graphs have them as well.
func (c call) removeBodies(g *graph) {
	for _, n := range g.nodes {
		if body := n.condition.body; body != nil {
			c.removeBodies(body)
			delete(c.d.graphs.live, body.handle)
		}
	}
}

// GraphDebugDotPrint implements [driver.API]. The text is not that of the driver.
func (d *simulated) GraphDebugDotPrint(h driver.Graph, path string, _ uint32) driver.Result {
	return on(d, call.graph, "cuGraphDebugDotPrint", h, func(_ call, g *graph) driver.Result {
		var b strings.Builder
		b.WriteString("digraph dot {\n")
		writeDot(&b, g.nodes)
		b.WriteString("}\n")
		if os.WriteFile(path, []byte(b.String()), 0o600) != nil {
			return driver.ResultOperatingSystem
		}
		return driver.Success
	})
}

var dotNames = map[nodeKind]string{nodeKernel: "kernel", nodeMemcpy: "memcpy", nodeMemset: "memset", nodeHost: "host", nodeEmpty: "empty",
	nodeRecordEvent: "event record", nodeWaitEvent: "event wait", nodeValue: "batch memop", nodeGraph: "child graph"}

func writeDot(b *strings.Builder, nodes []*node) {
	for _, n := range nodes {
		name, inner := dotNames[n.work.kind], n.inner
		switch {
		case n.work.function != nil:
			name += " " + n.work.function.entry.name
		case n.condition.body != nil:
			name, inner = [...]string{"if", "while"}[n.condition.kind], n.condition.body.nodes
		}
		fmt.Fprintf(b, "\"%#x\" [label=%q];\n", uintptr(n.id), name)
		for _, dep := range n.deps {
			fmt.Fprintf(b, "\"%#x\" -> \"%#x\";\n", uintptr(dep.id), uintptr(n.id))
		}
		if len(inner) > 0 {
			fmt.Fprintf(b, "subgraph \"cluster_%#x\" {\nlabel=%q;\n", uintptr(n.id), name)
			writeDot(b, inner)
			b.WriteString("}\n")
		}
	}
}
