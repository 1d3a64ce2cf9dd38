package runtime

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
)

// GraphBuilder adds nodes to a graph that [Context.BuildGraph] makes, or to the body of an If or a While. It is safe for concurrent
// use until the function that got it returns. After that its methods return an error of kind driver.ErrClosed. A function that returns
// while another goroutine still adds a part is an error.
type GraphBuilder struct {
	graph  *Graph
	failed *atomic.Pointer[error] // of the whole graph: the first thing that went wrong
	handle driver.Graph           // of the graph, or of the body of a conditional node
	adding atomic.Int32           // calls under way
	// The turn of the graph guards what follows.
	ends   []driver.GraphNode // parts that no other one comes after
	closed bool
}

// GraphNode is a part of a graph, behind which others may come.
type GraphNode struct {
	in     *GraphBuilder // whose part it is
	handle driver.GraphNode
}

// BuildGraph makes a graph of parts, each with the parts that it comes after. Parts that no other one stands between may run at the
// same time. A part is recorded work, another graph, or a body that the device runs if, or as long as, a number in its memory
// is not 0:
//
//	g, err := c.BuildGraph(func(b *runtime.GraphBuilder) error {
//		start, err := b.Add(func(s *runtime.Stream) error { return prepare.Launch(s, shape, runtime.InOut(x), runtime.InOut(left)) })
//		if err != nil {
//			return err
//		}
//		_, err = b.While(left, func(body *runtime.GraphBuilder) error {
//			_, err := body.Add(func(s *runtime.Stream) error { return step.Launch(s, shape, runtime.InOut(x), runtime.InOut(left)) })
//			return err
//		}, start)
//		return err
//	})
//
// The Graph is as one of [Stream.Capture], and retains what its parts use. An error of f is returned as it is, a panic of f as an
// error, and so is the first error of the builder even if f ignores it. Nothing is left of the graph then. f runs on the caller's
// goroutine, and must not close the runtime.
func (c *Context) BuildGraph(f func(b *GraphBuilder) error) (*Graph, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a graph that no function builds")
	}
	o, err := c.create(graphEntry, 0, "cuGraphCreate", func() (uint64, driver.Result) {
		g, r := c.api.GraphCreate(0)
		return uint64(g), r
	})
	if err != nil {
		return nil, err
	}
	g := &Graph{object: o, handle: driver.Graph(o.entry.handle)}
	trackGC(g, &g.object)
	b := &GraphBuilder{graph: g, failed: new(atomic.Pointer[error]), handle: g.handle}
	contain.Call(func() error { return f(b) }, func(failed error) {
		ended := b.close()
		if first := b.failed.Load(); first != nil {
			failed = cmp.Or(failed, *first)
		}
		if err = cmp.Or(failed, ended); err != nil {
			c.rt.report(g.Close())
			g = nil
		}
	})
	return g, err
}

// begin notes a call that adds something, until the result is called.
func (b *GraphBuilder) begin() (end func()) {
	if b == nil {
		return func() {}
	}
	b.adding.Add(1)
	return func() { b.adding.Add(-1) }
}

// fail notes what makes the whole graph fail.
func (b *GraphBuilder) fail(err error) error {
	if err != nil && b != nil && b.failed != nil {
		b.failed.CompareAndSwap(nil, &err)
	}
	return err
}

// Add records what f puts on a stream, as [Stream.Capture] does, and adds it as one part. The stream is for f alone. It comes after the
// parts that are named, or at the beginning. An f that makes no call on it, because it uses another stream, is an error of kind
// driver.ErrInvalidArgument. Calls without work, such as a launch of no blocks, make an empty part.
func (b *GraphBuilder) Add(f func(s *Stream) error, after ...GraphNode) (GraphNode, error) {
	defer b.begin()()
	node, err := b.add(f, after)
	return node, b.fail(err)
}

func (b *GraphBuilder) add(f func(s *Stream) error, after []GraphNode) (GraphNode, error) {
	if b == nil || b.graph == nil {
		return GraphNode{}, errNothing("graph builder")
	}
	s, err := b.graph.ctx.NewStream()
	if err != nil {
		return GraphNode{}, err
	}
	defer func() { b.graph.ctx.rt.report(s.Close()) }()
	called := true
	if f != nil {
		of := f
		f = func(s *Stream) error {
			err := of(s)
			called = s.capture.Load().called.Load()
			return err
		}
	}
	part, err := s.Capture(f)
	if err != nil {
		return GraphNode{}, err
	}
	defer func() { b.graph.ctx.rt.report(part.Close()) }()
	if !called {
		return GraphNode{}, driver.Errorf(driver.ErrInvalidArgument,
			"the function has not used its stream: give the stream that it gets to all that it calls (Stream.Err is a call without work)")
	}
	return b.addGraph(part, after)
}

// AddGraph adds a copy of another graph of the same context as one part. The graph may be closed afterwards. It has no If and no While:
// the driver does not copy them.
func (b *GraphBuilder) AddGraph(part *Graph, after ...GraphNode) (GraphNode, error) {
	defer b.begin()()
	node, err := b.addGraph(part, after)
	return node, b.fail(err)
}

func (b *GraphBuilder) addGraph(part *Graph, after []GraphNode) (GraphNode, error) {
	switch {
	case b == nil || b.graph == nil:
		return GraphNode{}, errNothing("graph builder")
	case part == nil || part.ctx == nil:
		return GraphNode{}, errNothing("graph")
	case part.ctx != b.graph.ctx:
		return GraphNode{}, driver.Errorf(driver.ErrInvalidArgument, "a graph of device %d as a part of one of device %d%s",
			part.ctx.device.Ordinal, b.graph.ctx.device.Ordinal, apart(part.ctx, b.graph.ctx))
	}
	// A graph that is built is nobody's part yet, so that no two callers wait for each other.
	var node GraphNode
	err := b.step(after, func(deps []driver.GraphNode) error {
		return part.exclusively(func() error {
			if err := b.takes(part); err != nil {
				return err
			}
			more, err := retainAll(part.entry.retained())
			if err != nil {
				return err
			}
			api := b.graph.ctx.api
			handle, r := api.GraphAddChildGraphNode(b.handle, deps, part.handle)
			switch {
			case r != driver.Success:
				err = b.graph.ctx.bind.Failed("cuGraphAddChildGraphNode", r)
			case !b.graph.entry.addRetained(more):
				err = errClosed("graph")
			}
			if err != nil {
				b.graph.ctx.rt.report(releaseAll(more))
				return err
			}
			b.graph.operations = append(b.graph.operations, part.operations...)
			node = b.added(handle, deps)
			return nil
		})
	})
	return node, err
}

// takes refuses what a body cannot have. The driver would do so when the graph is instantiated, without a reason.
func (b *GraphBuilder) takes(part *Graph) error {
	if b.handle == b.graph.handle {
		return nil
	}
	c := b.graph.ctx
	nodes, r := c.api.GraphGetNodes(part.handle)
	if r != driver.Success {
		return c.bind.Failed("cuGraphGetNodes", r)
	}
	for _, n := range nodes {
		kind, r := c.api.GraphNodeGetType(n)
		switch {
		case r != driver.Success:
			return c.bind.Failed("cuGraphNodeGetType", r)
		case !slices.Contains(bodyTakes, kind):
			return driver.Errorf(driver.ErrUnsupported, "the body of an If or a While has a call of the host, an event or a write of the driver (node type %d): "+
				"it takes launches, copies between buffers, fills and graphs of these", kind)
		}
	}
	return nil
}

// bodyTakes are the kinds of nodes in the body of a conditional node.
var bodyTakes = []driver.GraphNodeType{driver.GraphNodeKernel, driver.GraphNodeMemcpy, driver.GraphNodeMemset, driver.GraphNodeGraph,
	driver.GraphNodeEmpty, driver.GraphNodeConditional}

// If adds a body that runs if the number is not 0 when the parts before it are done. It needs CUDA 12.4: older drivers return an
// error of kind driver.ErrSymbolMissing or driver.ErrUnsupported. Kernels write the number as any other memory.
//
// body is called at once, and adds the parts of the body: launches, copies between buffers and fills, also further bodies. Calls of the
// host and events are refused there.
func (b *GraphBuilder) If(number *Ref[uint32], body func(*GraphBuilder) error, after ...GraphNode) (GraphNode, error) {
	defer b.begin()()
	node, err := b.conditional(driver.GraphIf, number, body, after)
	return node, b.fail(err)
}

// While is If for a body that runs again and again, as long as the number is not 0 before it. The body must write the number: one that
// does not never ends, and neither do waits for it.
func (b *GraphBuilder) While(number *Ref[uint32], body func(*GraphBuilder) error, after ...GraphNode) (GraphNode, error) {
	defer b.begin()()
	node, err := b.conditional(driver.GraphWhile, number, body, after)
	return node, b.fail(err)
}

func (b *GraphBuilder) conditional(kind driver.GraphConditionalType, number *Ref[uint32], body func(*GraphBuilder) error, after []GraphNode) (node GraphNode, err error) {
	switch {
	case b == nil || b.graph == nil:
		return node, errNothing("graph builder")
	case body == nil:
		return node, driver.Errorf(driver.ErrInvalidArgument, "a body that no function adds to")
	case number.Len() < 1:
		return node, driver.Errorf(driver.ErrInvalidArgument, "a condition of no number: want memory of one uint32")
	}
	c := b.graph.ctx
	var condition driver.GraphConditionalHandle
	err = b.step(nil, func([]driver.GraphNode) error {
		handle, r := c.api.GraphConditionalHandleCreate(b.handle, c.bind.Context, 0, driver.GraphConditionalDefault)
		condition = handle
		return c.bind.Failed("cuGraphConditionalHandleCreate", r)
	})
	if err != nil {
		return node, err
	}
	read := func(s *Stream) error { return c.setConditional(s, number, condition) }
	before, err := b.Add(read, after...)
	if err != nil {
		return node, err
	}
	inner := &GraphBuilder{graph: b.graph, failed: b.failed}
	err = b.step([]GraphNode{before}, func(deps []driver.GraphNode) error {
		handle, graph, r := c.api.GraphAddConditionalNode(b.handle, deps, condition, kind, c.bind.Context)
		if r != driver.Success {
			return c.bind.Failed("cuGraphAddNode", r)
		}
		inner.handle, node = graph, b.added(handle, deps)
		b.graph.operations = append(b.graph.operations, map[driver.GraphConditionalType]string{driver.GraphIf: "If", driver.GraphWhile: "While"}[kind])
		return nil
	})
	if err != nil {
		return node, err
	}
	if err := body(inner); err != nil {
		return node, err
	}
	if kind == driver.GraphWhile {
		var last []GraphNode
		_ = inner.step(nil, func([]driver.GraphNode) error {
			for _, end := range inner.ends {
				last = append(last, GraphNode{inner, end})
			}
			return nil
		})
		if len(last) == 0 {
			return node, driver.Errorf(driver.ErrInvalidArgument, "the body of a While does nothing, and would run for ever")
		}
		if _, err := inner.Add(read, last...); err != nil {
			return node, err
		}
	}
	return node, inner.close()
}

// step calls the driver about the graph, with the parts that another one comes after, while no other caller does.
func (b *GraphBuilder) step(after []GraphNode, f func(deps []driver.GraphNode) error) error {
	g := b.graph
	return g.exclusively(func() error {
		if b.closed {
			return errClosed("graph builder")
		}
		var deps []driver.GraphNode
		for _, n := range after {
			if n.in != b {
				return driver.Errorf(driver.ErrInvalidArgument, "a part after one of another graph or body")
			}
			if !slices.Contains(deps, n.handle) {
				deps = append(deps, n.handle)
			}
		}
		if err := g.bind(); err != nil {
			return err
		}
		defer g.ctx.bind.Pop()
		if err := g.ctx.state.Check(g.entry.generation); err != nil {
			return err
		}
		return f(deps)
	})
}

// added notes a part, within step.
func (b *GraphBuilder) added(handle driver.GraphNode, deps []driver.GraphNode) GraphNode {
	b.ends = append(slices.DeleteFunc(b.ends, func(n driver.GraphNode) bool { return slices.Contains(deps, n) }), handle)
	return GraphNode{b, handle}
}

func (b *GraphBuilder) close() error {
	return b.step(nil, func([]driver.GraphNode) error {
		b.closed = true
		if n := b.adding.Load(); n > 0 {
			return driver.Errorf(driver.ErrInvalidArgument, "a graph whose function returns while %d parts are being added: wait for these goroutines in it", n)
		}
		return nil
	})
}

// setConditional puts a kernel on a stream that gives a number in memory to a conditional node.
func (c *Context) setConditional(s *Stream, number *Ref[uint32], condition driver.GraphConditionalHandle) error {
	m, err := c.CachedModule(Image{Code: []byte(conditionPTX)})
	if err != nil {
		return err
	}
	defer func() { c.rt.report(m.Close()) }() // the graph retains it
	k, err := m.Kernel("purecuda_condition")
	if err != nil {
		return err
	}
	return k.Launch(s, Shape1D(1, 1), In(number), Value(uint64(condition)))
}

// conditionPTX calls the function of the driver that sets a condition. The driver knows it by this name.
const conditionPTX = `.version 6.4
.target sm_52
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry purecuda_condition(.param .u64 number, .param .u64 handle)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [number];
	ld.param.u64 %rd2, [handle];
	cvta.to.global.u64 %rd3, %rd1;
	ld.global.u32 %r1, [%rd3];
	{
	.param .b64 p;
	.param .b32 q;
	st.param.b64 [p], %rd2;
	st.param.b32 [q], %r1;
	call cudaGraphSetConditional, (p, q);
	}
	ret;
}
`

// DOT is the graph in the language of Graphviz, as the driver writes it, with bodies and copied graphs. It goes through a file in the folder for
// temporary files. The text is for people: it differs among drivers.
func (g *Graph) DOT() (string, error) {
	if g == nil || g.ctx == nil {
		return "", errNothing("graph")
	}
	folder, err := os.MkdirTemp("", "purecuda-graph-")
	if err != nil {
		return "", driver.Errorf(driver.ErrInvalidArgument, "the driver writes a graph to a file: %w", err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "graph.dot")
	err = g.exclusively(func() error {
		if err := g.bind(); err != nil {
			return err
		}
		defer g.ctx.bind.Pop()
		return g.ctx.bind.Failed("cuGraphDebugDotPrint", g.ctx.api.GraphDebugDotPrint(g.handle, file, 0))
	})
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", driver.Errorf(driver.ErrDriverCallFailed, "cuGraphDebugDotPrint succeeded and left no file: %w", err)
	}
	return string(text), nil
}
