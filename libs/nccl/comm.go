package nccl

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/runtime"
)

// Options of [All] and [Join]. The zero value is right for most.
type Options struct {
	// CloseTimeout is how long Close waits for the work before it aborts. 0 means 30 seconds.
	CloseTimeout time.Duration
	// Blocking lets NCCL itself wait in its calls. That saves it a thread for each operation, but then Join and Do do not end
	// with their context, nor by Abort. All always blocks: there is no other process to wait for.
	Blocking bool
}

// Comm is the part of a communicator that this process has. It is safe for concurrent use. Operations of one Comm run in the order in
// which they come, which must be the same in all processes.
type Comm struct {
	size  int
	ranks []rank
	order []int // of the ranks, by their devices: who enters several streams does so in one order
	group *group
}

// rank is a rank of this process.
type rank struct {
	number int
	s      *runtime.Stream
	handle *runtime.LibraryHandle
}

func (r *rank) device() int { return r.s.Context().Device().Ordinal }

// All makes a communicator whose ranks are all in this process: rank i has streams[i], each of another device. It takes a
// second.
//
// It ends with the first of the contexts: after a Context.Reset its calls return why, and a new one has to be made.
func All(api API, streams []*runtime.Stream, o Options) (*Comm, error) {
	o.Blocking = true
	ranks := make([]int, len(streams))
	for i := range ranks {
		ranks[i] = i
	}
	if api == nil {
		return nil, wrong("nccl.All takes a library: see Open")
	}
	return join(context.Background(), api, func() (ID, error) { return UniqueID(api) }, len(streams), ranks, streams, o)
}

// UniqueID makes the ID for a [Join]. One process makes it and hands it to the others, which is up to the program. It must live
// until all have joined.
func UniqueID(api API) (ID, error) {
	if api == nil {
		return ID{}, wrong("nccl.UniqueID takes a library: see Open")
	}
	id, s := api.UniqueID()
	return id, failed(api, 0, "ncclGetUniqueId", s)
}

// Join makes a communicator of size ranks, of which this process has some: ranks[i] has streams[i], each of another device. It waits
// until all ranks have joined with the id, or ctx ends. It ends as a Comm of [All] does.
func Join(ctx context.Context, api API, id ID, size int, ranks []int, streams []*runtime.Stream, o Options) (*Comm, error) {
	switch {
	case ctx == nil:
		return nil, wrong("nccl.Join takes a context that is not nil")
	case api == nil:
		return nil, wrong("nccl.Join takes a library: see Open")
	case id == ID{}:
		return nil, wrong("nccl.Join with an ID of zeros: see UniqueID")
	}
	return join(ctx, api, func() (ID, error) { return id, nil }, size, ranks, streams, o)
}

func join(ctx context.Context, api API, id func() (ID, error), size int, ranks []int, streams []*runtime.Stream, o Options) (*Comm, error) {
	if err := check(api, size, ranks, streams, o); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	unique, err := id()
	if err != nil {
		return nil, err
	}
	if o.CloseTimeout == 0 {
		o.CloseTimeout = 30 * time.Second
	}
	c := &Comm{size: size, group: newGroup(api, len(ranks), o.CloseTimeout)}
	var contexts []*runtime.Context
	for i, s := range streams {
		c.ranks, c.order, contexts = append(c.ranks, rank{number: ranks[i], s: s}), append(c.order, i), append(contexts, s.Context())
	}
	slices.SortFunc(c.order, func(a, b int) int { return cmp.Compare(c.ranks[a].device(), c.ranks[b].device()) })
	if err := c.open(ctx, 0, &unique, o.Blocking); err != nil {
		c.group.closing.Store(true)
		for _, r := range c.ranks {
			err = errors.Join(err, r.handle.Close())
		}
		c.group.end(err)
		return nil, err
	}
	go c.group.watch(contexts)
	return c, nil
}

// check finds what NCCL would crash on, hang on or report in its own words.
func check(api API, size int, ranks []int, streams []*runtime.Stream, o Options) error {
	switch {
	case len(streams) == 0:
		return wrong("a communicator takes one stream at least")
	case len(ranks) != len(streams):
		return wrong("%d ranks and %d streams: want as many", len(ranks), len(streams))
	case len(ranks) > size:
		return wrong("%d ranks of a communicator of %d", len(ranks), size)
	case o.CloseTimeout < 0:
		return wrong("a CloseTimeout of %v: want 0 or more", o.CloseTimeout)
	}
	at, taken := map[int]bool{}, map[int]bool{}
	for i, s := range streams {
		switch {
		case s == nil || s.Context() == nil:
			return wrong("stream %d is nil", i)
		case s.Context().Runtime() != streams[0].Context().Runtime():
			return wrong("stream %d is of another Runtime than stream 0", i)
		case ranks[i] < 0 || ranks[i] >= size:
			return wrong("rank %d: want 0 to %d", ranks[i], size-1)
		case taken[ranks[i]]:
			return wrong("rank %d twice", ranks[i])
		case at[s.Context().Device().Ordinal]:
			return wrong("two ranks on device %d: NCCL takes one", s.Context().Device().Ordinal)
		}
		taken[ranks[i]], at[s.Context().Device().Ordinal] = true, true
	}
	if v := library.Version(api.Version()); v.Before(oldest) {
		e := driver.Errorf(driver.ErrSymbolMissing, "%s", library.NCCL.TooOld(initName, oldest, v))
		e.Op = initName
		return e
	}
	return nil
}

const initName = "ncclCommInitRankConfig"

// open makes the handles of the ranks, from the i-th device on and each within that before, and in the last one the communicator.
// So no context can end in between.
func (c *Comm) open(ctx context.Context, i int, id *ID, blocking bool) (err error) {
	g := c.group
	if i == len(c.order) {
		return g.call(ctx, initName, func() error { return c.init(id, blocking) })
	}
	r := &c.ranks[c.order[i]]
	r.handle, err = r.s.Context().NewLibraryHandle(initName, func() (func() error, error) {
		return g.destroyed, c.open(ctx, i+1, id, blocking)
	})
	if err == nil {
		g.left.Add(1)
	}
	return err
}

// init makes the ranks, each with its context current.
func (c *Comm) init(id *ID, blocking bool) error {
	g := c.group
	for i, r := range c.ranks {
		var stays error // why the context stays on the thread
		at := r.s.Context()
		b := driver.Binding{API: at.Runtime().Driver(), Context: at.Handle(), Ordinal: r.device(), OnCleanup: func(err error) { stays = err }}
		err := b.Do(func() error {
			return failed(g.api, 0, initName, g.api.InitRank(&g.comms[i], c.size, id, r.number, blocking))
		})
		if err = cmp.Or(err, stays); err != nil {
			return err
		}
	}
	return nil
}

// Size is the number of all ranks, in all processes.
func (c *Comm) Size() int {
	if c == nil {
		return 0
	}
	return c.size
}

// Ranks of this process, in the order of the streams.
func (c *Comm) Ranks() (all []int) {
	if c != nil {
		for _, r := range c.ranks {
			all = append(all, r.number)
		}
	}
	return all
}

// local is where a rank stands in this process, or -1.
func (c *Comm) local(number int) int {
	return slices.IndexFunc(c.ranks, func(r rank) bool { return r.number == number })
}

// Done is closed when the communicator has ended: by Close, Abort, a fault, or with a context. Err says why.
func (c *Comm) Done() <-chan struct{} {
	if c == nil || c.group == nil {
		return closed
	}
	return c.group.life.Done()
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Err is nil until Done is closed.
func (c *Comm) Err() error {
	if c == nil || c.group == nil {
		return errNone("Err")
	}
	return c.group.ended()
}

func errNone(what string) error { return wrong("%s of no communicator: see nccl.All", what) }

// Wait waits for the work on the streams of all ranks, as Stream.Synchronize does. If ctx ends first, it aborts the communicator: the
// work ends, also where a rank was lost. The error is why the work is worthless, or nil.
func (c *Comm) Wait(ctx context.Context) error {
	switch {
	case c == nil || c.group == nil:
		return errNone("Wait")
	case ctx == nil:
		return wrong("Comm.Wait takes a context that is not nil")
	}
	var failed error
	for _, r := range c.ranks {
		err := r.s.Synchronize(ctx)
		if err != nil && ctx.Err() != nil {
			c.group.end(driver.Errorf(driver.ErrTimeout, "the communicator was aborted, because its work had not ended: %w", context.Cause(ctx)))
			<-c.group.quiet
			return c.Err()
		}
		if failed == nil {
			failed = err
		}
	}
	if err := c.Err(); err != nil {
		return err
	}
	return failed
}

// Abort ends the communicator and its work, whose results are worthless, and returns when that is done. The other processes learn
// of it as of a lost rank. Close is due all the same.
func (c *Comm) Abort() {
	if c == nil || c.group == nil {
		return
	}
	c.group.end(driver.Errorf(driver.ErrClosed, "the communicator was aborted"))
	<-c.group.quiet
}

// Close waits for the work of the communicator and frees it, or aborts it after Options.CloseTimeout. It may be called twice. All
// processes call it. Close graphs that have recorded operations before: the communicator is freed after them.
func (c *Comm) Close() error {
	if c == nil || c.group == nil {
		return nil
	}
	var err error
	if !c.group.closing.Swap(true) && c.group.ended() == nil {
		ctx, cancel := context.WithTimeout(context.Background(), c.group.timeout)
		defer cancel()
		if err = c.Wait(ctx); errors.Is(err, driver.ErrClosed) {
			err = nil // a stream that was closed before has no work
		}
	}
	for _, r := range c.ranks {
		err = errors.Join(err, r.handle.Close())
	}
	c.group.closed()
	return err
}
