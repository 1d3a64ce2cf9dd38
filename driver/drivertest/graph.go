package drivertest

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// nodeKind is what a node of a graph does.
type nodeKind int

const (
	nodeEmpty nodeKind = iota
	nodeKernel
	nodeMemcpy
	nodeMemset
	nodeHost
	nodeRecordEvent
	nodeWaitEvent
	nodeValue
	nodeGraph
	nodeConditional
)

// graph is recorded work. Nodes stand behind those that they depend on.
type graph struct {
	handle  driver.Graph
	nodes   []*node
	made    origin
	body    bool      // of a conditional node, which owns it
	numbers []*number // of its conditional nodes
}

// nodeTypes are CUDA's kinds of nodes.
var nodeTypes = map[nodeKind]driver.GraphNodeType{nodeEmpty: driver.GraphNodeEmpty, nodeKernel: driver.GraphNodeKernel,
	nodeMemcpy: driver.GraphNodeMemcpy, nodeMemset: driver.GraphNodeMemset, nodeHost: driver.GraphNodeHost,
	nodeRecordEvent: driver.GraphNodeRecordEvent, nodeWaitEvent: driver.GraphNodeWaitEvent, nodeValue: driver.GraphNodeBatchMemOp,
	nodeGraph: driver.GraphNodeGraph, nodeConditional: driver.GraphNodeConditional}

// node is one piece of recorded work. It does not change any more.
type node struct {
	id   driver.GraphNode
	call call
	work work
	deps []*node
	// inner are the nodes of a child graph, and of the body of a conditional node once it is instantiated.
	inner     []*node
	condition condition
}

// add records work behind deps.
func (g *graph) add(c call, w work, deps []*node) *node {
	n := &node{id: driver.GraphNode(c.d.newHandle()), call: c, work: w, deps: slices.Clone(deps)}
	g.nodes = append(g.nodes, n)
	return n
}

// endsIn tells that all nodes lead to the frontier: forked work was
// joined again.
func (g *graph) endsIn(frontier []*node) bool {
	leads := map[*node]bool{}
	for _, n := range frontier {
		leads[n] = true
	}
	for _, n := range slices.Backward(g.nodes) {
		if !leads[n] {
			return false
		}
		for _, dep := range n.deps {
			leads[dep] = true
		}
	}
	return true
}

// graphExec is a graph that can be launched. A launch uses the nodes that it has
// at that time, and runs after those before it, also on another stream.
type graphExec struct {
	handle driver.GraphExec
	ctx    *context
	nodes  []*node
	ids    []driver.GraphNode // of the graph that it was made from
	last   *operation         // the latest launch
	made   origin
}

func (c call) keepGraph(g *graph) driver.Graph {
	g.handle, g.made = driver.Graph(c.d.newHandle()), c.made
	c.d.graphs.live[g.handle] = g
	return g.handle
}

// graph finds a graph. Its functions call a wrong handle an invalid value.
func (c call) graph(h driver.Graph) (*graph, driver.Result) {
	g, r := find(c, &c.d.graphs, h)
	if r != driver.Success {
		return nil, driver.ResultInvalidValue
	}
	return g, driver.Success
}

func (c call) exec(h driver.GraphExec) (*graphExec, driver.Result) {
	x, r := find(c, &c.d.execs, h)
	if r == driver.ResultInvalidHandle {
		r = driver.ResultInvalidValue
	}
	return x, r
}

func (d *simulated) GraphCreate(flags uint32) (driver.Graph, driver.Result) {
	return get(d, "cuGraphCreate", func(c call) (driver.Graph, driver.Result) {
		if flags != 0 {
			return 0, driver.ResultInvalidValue
		}
		return c.keepGraph(&graph{}), driver.Success
	})
}

func (d *simulated) GraphGetNodes(h driver.Graph) ([]driver.GraphNode, driver.Result) {
	return getOf(d, call.graph, "cuGraphGetNodes", h, func(_ call, g *graph) ([]driver.GraphNode, driver.Result) {
		return ids(g.nodes), driver.Success
	})
}

func ids(nodes []*node) (all []driver.GraphNode) {
	for _, n := range nodes {
		all = append(all, n.id)
	}
	return all
}

func (d *simulated) GraphNodeGetType(h driver.GraphNode) (driver.GraphNodeType, driver.Result) {
	return get(d, "cuGraphNodeGetType", func(c call) (driver.GraphNodeType, driver.Result) {
		for _, g := range d.graphs.live {
			if i := slices.Index(ids(g.nodes), h); i >= 0 {
				return nodeTypes[g.nodes[i].work.kind], driver.Success
			}
		}
		c.found(driver.ResultInvalidValue, "%#x is no node of a graph", uintptr(h))
		return 0, driver.ResultInvalidValue
	})
}

func (d *simulated) GraphExecKernelNodeSetParams(h driver.GraphExec, id driver.GraphNode, function driver.Function, grid, block driver.Dim3, sharedBytes uint32, params []unsafe.Pointer) driver.Result {
	return d.do("cuGraphExecKernelNodeSetParams", func(c call) driver.Result {
		x, r := c.exec(h)
		if r != driver.Success {
			return r
		}
		i := slices.Index(x.ids, id)
		if i < 0 || x.nodes[i].work.kind != nodeKernel {
			c.found(driver.ResultInvalidValue, "%#x is no kernel node of the graph", uintptr(id))
			return driver.ResultInvalidValue
		}
		w, r := c.kernelWork(function, x.ctx, params, Launch{Grid: grid, Block: block, SharedBytes: sharedBytes})
		if r != driver.Success {
			return r
		}
		x.replace(i, &node{id: id, call: c, work: w})
		return driver.Success
	})
}

// replace puts a node in the place of another one. Launches that are on a stream keep the old ones.
func (x *graphExec) replace(at int, n *node) {
	now := map[*node]*node{}
	nodes := slices.Clone(x.nodes)
	for i, was := range nodes {
		changed := *was
		if i == at {
			changed = *n
		}
		changed.deps = nil
		for _, dep := range was.deps {
			changed.deps = append(changed.deps, now[dep])
		}
		nodes[i] = &changed
		now[was] = nodes[i]
	}
	x.nodes = nodes
}

// GraphInstantiate implements [driver.API]. Of the flags it knows those that change
// nothing here: freeing on launch (1) and node priorities (8).
func (d *simulated) GraphInstantiate(h driver.Graph, flags uint64) (driver.GraphExec, driver.Result) {
	return getOf(d, call.graph, "cuGraphInstantiateWithFlags", h, func(c call, g *graph) (driver.GraphExec, driver.Result) {
		const upload, harmless, known = 2, 1 | 8, 15
		switch {
		case flags&^known != 0 || flags&upload != 0:
			return 0, driver.ResultInvalidValue
		case flags&^harmless != 0:
			return 0, driver.ResultNotSupported
		}
		if g.body {
			c.found(driver.ResultInvalidValue, "the graph is the body of a conditional node, and runs with that")
			return 0, driver.ResultInvalidValue
		}
		nodes := frozen(g.nodes)
		if !runnable(nodes, false) {
			return 0, driver.ResultInvalidValue
		}
		x := &graphExec{handle: driver.GraphExec(d.newHandle()), ctx: c.ctx, nodes: nodes, ids: ids(nodes), made: c.made}
		d.execs.live[x.handle] = x
		return x.handle, driver.Success
	})
}

// GraphExecUpdate implements [driver.API]. The nodes must be of the same kinds in
// the same order with the same dependencies. Conditional nodes are refused: CUDA changes no parameters of
// theirs, and the handle, which is one, is another one in each graph.
func (d *simulated) GraphExecUpdate(h driver.GraphExec, from driver.Graph) (driver.GraphExecUpdateInfo, driver.Result) {
	c, g, r := enterOn(d, call.graph, "cuGraphExecUpdate", from)
	var info driver.GraphExecUpdateInfo
	if r != driver.Success {
		return info, r
	}
	defer d.mu.Unlock()
	x, r := c.exec(h)
	if r != driver.Success {
		return info, r
	}
	nodes := frozen(g.nodes)
	if info = compare(x.nodes, nodes); info.Result != driver.GraphUpdateSuccess {
		return info, driver.ResultGraphExecUpdateFailure
	}
	x.nodes = nodes
	return info, driver.Success
}

// compare tells whether nodes can take the place of others.
func compare(before, after []*node) (info driver.GraphExecUpdateInfo) {
	if len(before) != len(after) {
		return driver.GraphExecUpdateInfo{Result: driver.GraphUpdateTopologyChanged}
	}
	place := map[*node]int{}
	for i := range before {
		place[before[i]], place[after[i]] = i, i
	}
	for i, was := range before {
		now := after[i]
		info.Result = compatible(was, now, place)
		if info.Result == driver.GraphUpdateSuccess {
			info.Result = compare(was.inner, now.inner).Result
		}
		if info.Result != driver.GraphUpdateSuccess {
			info.ErrorNode, info.ErrorFromNode = now.id, was.id
			break
		}
	}
	return info
}

// compatible tells whether a node can take the place of another one.
func compatible(was, now *node, place map[*node]int) driver.GraphExecUpdateResult {
	same := slices.EqualFunc(was.deps, now.deps, func(a, b *node) bool { return place[a] == place[b] })
	switch {
	case !same:
		return driver.GraphUpdateTopologyChanged
	case was.work.kind != now.work.kind:
		return driver.GraphUpdateNodeTypeChanged
	case was.work.kind == nodeConditional:
		return driver.GraphUpdateNotSupported
	case was.work.kind == nodeKernel && was.work.function.module.ctx != now.work.function.module.ctx:
		return driver.GraphUpdateUnsupportedFunctionChange
	}
	return driver.GraphUpdateSuccess
}

// enterExec begins a call about an executable graph and a stream.
func (d *simulated) enterExec(op string, h driver.GraphExec, stream driver.Stream) (call, *graphExec, *stream, driver.Result) {
	c, s, r := enterOn(d, call.stream, op, stream)
	if r != driver.Success {
		return c, nil, nil, r
	}
	x, r := c.exec(h)
	if r == driver.Success && x.ctx.dead {
		r = driver.ResultContextIsDestroyed
	}
	if r == driver.Success && x.ctx != s.ctx {
		c.found(driver.ResultInvalidValue, "the graph and the stream belong to different contexts")
		r = driver.ResultInvalidValue
	}
	if r == driver.Success && s.capture != nil {
		s.capture.invalid = true
		r = driver.ResultStreamCaptureUnsupported
	}
	if r != driver.Success {
		d.mu.Unlock()
	}
	return c, x, s, r
}

func (d *simulated) GraphUpload(h driver.GraphExec, stream driver.Stream) driver.Result {
	c, _, s, r := d.enterExec("cuGraphUpload", h, stream)
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	return c.submit(s, work{kind: nodeEmpty, run: func() error { return nil }})
}

func (d *simulated) GraphLaunch(h driver.GraphExec, stream driver.Stream) driver.Result {
	c, x, s, r := d.enterExec("cuGraphLaunch", h, stream)
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	if r := c.checkImplicit(s); r != driver.Success {
		return r
	}
	run := newReplay(c, x.nodes)
	numbers := numbersOf(run.nodes) // an update may come before the launch runs
	launch := &operation{call: c, run: func() error { return alone(numbers, run.run) }, after: run.close}
	if x.last != nil {
		launch.deps = []*operation{x.last}
	}
	x.last = launch
	d.enqueue(s, launch)
	return driver.Success
}

// replay is one launch of a graph. What its events mark is decided when it is put
// on the stream.
type replay struct {
	d       *simulated
	nodes   []*node
	records map[*node]*operation // by node that records
	awaits  map[*node]*operation // by node that waits
	inner   map[*node]*replay    // by child graph or conditional node
}

// newReplay is called with the lock held.
func newReplay(c call, nodes []*node) *replay {
	p := &replay{d: c.d, nodes: nodes, records: map[*node]*operation{}, awaits: map[*node]*operation{}, inner: map[*node]*replay{}}
	for _, n := range nodes {
		switch n.work.kind {
		case nodeRecordEvent:
			o := &operation{call: c, done: make(chan struct{})}
			p.records[n] = o
			n.work.event.record, n.work.event.mark = o, nil
		case nodeWaitEvent:
			if o := n.work.event.record; o != nil {
				p.awaits[n] = o
			}
		case nodeGraph, nodeConditional:
			p.inner[n] = newReplay(c, n.inner)
		}
	}
	return p
}

// run executes the nodes: a chain one after the other, others as soon as
// what they depend on is done.
func (p *replay) run() error {
	if p.isChain() {
		for _, n := range p.nodes {
			if err := p.node(n); err != nil {
				return err
			}
		}
		return nil
	}
	done := map[*node]chan struct{}{}
	for _, n := range p.nodes {
		done[n] = make(chan struct{})
	}
	var group sync.WaitGroup
	for _, n := range p.nodes {
		group.Add(1)
		go func() {
			ended := false
			defer func() {
				if !ended {
					p.fail(n, &fault{result: driver.ResultLaunchFailed, detail: "code in the graph ended its goroutine"})
				}
				close(done[n])
				group.Done()
			}()
			for _, dep := range n.deps {
				<-done[dep]
			}
			if p.d.poison() == driver.Success {
				if err := guard(func() error { return p.node(n) }); err != nil {
					p.fail(n, err)
				}
			}
			ended = true
		}()
	}
	group.Wait()
	return nil
}

// fail records the fault of a node under the call that was captured.
func (p *replay) fail(n *node, err error) {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.d.fail(n.call, err)
}

func (p *replay) isChain() bool {
	for i, n := range p.nodes {
		if i == 0 && len(n.deps) == 0 || i > 0 && len(n.deps) == 1 && n.deps[0] == p.nodes[i-1] {
			continue
		}
		return false
	}
	return true
}

func (p *replay) node(n *node) error {
	switch {
	case n.work.run != nil:
		return n.work.run()
	case n.work.kind == nodeGraph:
		return p.inner[n].run()
	case n.work.kind == nodeConditional:
		return p.d.repeat(n.condition, p.inner[n])
	case p.awaits[n] != nil:
		<-p.awaits[n].done
	case p.records[n] != nil:
		p.d.mu.Lock()
		defer p.d.mu.Unlock()
		p.records[n].end()
	}
	return nil
}

// close ends the events of nodes that did not run. It is called with the lock
// held.
func (p *replay) close() {
	for _, o := range p.records {
		o.end()
	}
	for _, inner := range p.inner {
		inner.close()
	}
}

// end marks an operation that is on no queue as done.
func (o *operation) end() {
	if !o.finished() {
		o.at = time.Now()
		close(o.done)
	}
}

func (d *simulated) GraphExecDestroy(h driver.GraphExec) driver.Result {
	return d.do("cuGraphExecDestroy", func(c call) driver.Result {
		if _, r := c.exec(h); r != driver.Success {
			return r
		}
		remove(c, &d.execs, h)
		return driver.Success
	})
}

func (d *simulated) GraphDestroy(h driver.Graph) driver.Result {
	return on(d, call.graph, "cuGraphDestroy", h, func(c call, g *graph) driver.Result {
		if g.body {
			c.found(driver.ResultInvalidValue, "the graph is the body of a conditional node, and ends with that")
			return driver.ResultInvalidValue
		}
		c.removeBodies(g)
		remove(c, &d.graphs, h)
		return driver.Success
	})
}
