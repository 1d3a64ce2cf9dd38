package nccl

import (
	"context"
	"slices"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// Do puts operations on the streams of the ranks of this process. It returns when they are there: at the first time NCCL connects the
// ranks, and waits for the others until ctx ends. Several operations run together and in no order. So each has memory of its own, but
// an operation may receive in the place where it sends. Operations of no elements are left out.
//
// Do finds wrong use before anything runs. If NCCL fails or ctx ends meanwhile, the communicator is aborted: other ranks would wait
// for this one for ever.
func (c *Comm) Do(ctx context.Context, operations ...Operation) error {
	switch {
	case c == nil || c.group == nil:
		return errNone("Do")
	case ctx == nil:
		return wrong("Comm.Do takes a context that is not nil")
	case c.group.closing.Load():
		return errClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if err := c.Err(); err != nil {
		return err
	}
	d := do{c: c, ctx: ctx, calls: make([][]part, len(c.ranks)), uses: make([][]runtime.Arg, len(c.ranks)), at: make([][]driver.DevicePtr, len(c.ranks))}
	for i := range c.ranks {
		d.uses[i] = append(d.uses[i], c.ranks[i].handle.Arg())
	}
	for i := range operations {
		o := &operations[i]
		if o.bytes == 0 {
			return wrong("operation %d is the zero Operation", i)
		}
		if err := o.check(c); err != nil {
			return err
		}
		if o.count() > 0 {
			o.parts(c, d.calls, d.uses)
		}
		if d.name == "" {
			d.name = o.kind.String()
		}
	}
	if err := c.match(operations); err != nil {
		return err
	}
	if !slices.ContainsFunc(d.calls, func(p []part) bool { return len(p) > 0 }) {
		return nil
	}
	return d.enter(0)
}

// match finds a Send without its Recv, among the ranks of this process: the device would wait for ever.
func (c *Comm) match(operations []Operation) error {
	type pair struct {
		from, to int
		typ      DataType
		n        int
	}
	var sent, received []pair
	for i := range operations {
		o := &operations[i]
		switch {
		case !o.paired() || c.local(o.root) < 0:
		case o.kind == KindSend:
			sent = append(sent, pair{o.rank, o.root, o.typ, o.count()})
		default:
			received = append(received, pair{o.root, o.rank, o.typ, o.count()})
		}
	}
	for _, s := range sent {
		i := slices.IndexFunc(received, func(r pair) bool { return r.from == s.from && r.to == s.to })
		if i < 0 {
			return wrong("rank %d sends to rank %d, and no Recv of this Do receives it: both are ranks of this process", s.from, s.to)
		}
		if r := received[i]; r != s {
			return wrong("rank %d sends %d elements of type %d to rank %d, which receives %d of type %d", s.from, s.n, s.typ, s.to, r.n, r.typ)
		}
		received = slices.Delete(received, i, i+1)
	}
	if len(received) > 0 {
		return wrong("rank %d receives from rank %d, and no Send of this Do sends it: both are ranks of this process", received[0].to, received[0].from)
	}
	return nil
}

// do is one Do.
type do struct {
	c     *Comm
	ctx   context.Context
	name  string
	calls [][]part             // of each rank
	uses  [][]runtime.Arg      // the first is the handle
	at    [][]driver.DevicePtr // of the uses
	cause error                // the first error
}

// enter runs the calls within a Submit of each stream, from the i-th device on.
func (d *do) enter(i int) error {
	if i == len(d.c.order) {
		return d.run()
	}
	at := d.c.order[i]
	r := &d.c.ranks[at]
	err := r.s.Submit(d.name, func(stream driver.Stream, addresses []driver.DevicePtr) error {
		if len(d.c.ranks) > 1 {
			// A Submit keeps a capture to itself: within it another one would wait for ever, if it is of the same capture.
			status, result := r.s.Context().Runtime().Driver().StreamIsCapturing(stream)
			if result != driver.Success || status != driver.CaptureNone {
				return driver.Errorf(driver.ErrCaptureFailed, "operations of several ranks of one process cannot be recorded: join each rank by itself (nccl.Join)")
			}
		}
		d.at[at] = addresses
		return d.enter(i + 1)
	}, d.uses[at]...)
	if err != nil && d.cause == nil {
		d.cause = err // the others have it with a name for each stream
	}
	return d.cause
}

// run calls NCCL, with all streams entered.
func (d *do) run() error {
	calls := make([][]Call, len(d.calls))
	for i, parts := range d.calls {
		var spans []span
		for _, p := range parts {
			k := p.call(d.at[i])
			calls[i] = append(calls[i], k)
			spans = append(spans, k.spans(d.c.ranks[i].number, d.c.size, p.o.bytes)...)
		}
		if err := overlap(d.c.ranks[i].number, spans); err != nil {
			return err
		}
	}
	g := d.c.group
	return g.call(d.ctx, d.name, func() error {
		for i, all := range calls {
			for k := range all {
				s := g.api.Run(g.comms[i], d.c.ranks[i].s.Handle(), &all[k])
				if err := failed(g.api, g.comms[i], all[k].Kind.String(), s); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
