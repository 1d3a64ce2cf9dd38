// Package locks gives the locks of runtime, refs, arena and internal/wait one order. A build with the
// race detector panics where a goroutine takes one against the order, or blocks while it holds one
// that must not be held so long. Other builds have plain locks of package sync.
package locks

// These are the places in the order, by what has them.
type (
	Object struct{} // runtime: callers of an executable graph, an event, a kernel
	Ledger struct{} // runtime: what a context owns, its leases and cached modules, the kernels of a module

	Memory struct{} // refs.memory
	State  struct{} // refs.State and its registry

	Range   struct{} // arena.Range.growing
	Full    struct{} // arena.Device.full
	Guard   struct{} // arena.guard
	Device  struct{} // arena.Device.mu
	Stripe  struct{} // arena.stripe, arena.Stream.adding
	Workers struct{} // arena.Workers
	Pinned  struct{} // arena.Pinned, arena.ring, arena.doubtful

	Waiters struct{} // wait.source
	Waits   struct{} // wait.Device, wait.Poller
	Runtime struct{} // runtime.Runtime, arena.Peers
)

// lock says what holds for a lock.
type lock struct {
	of any
	// blocks says that a goroutine may call the driver and wait while it holds the lock.
	blocks bool
	// many says that a goroutine may hold several, in an order of their own.
	many bool
}

var order = []lock{
	{of: Object{}, blocks: true},
	{of: Ledger{}},
	{of: Memory{}, blocks: true},
	{of: Range{}, blocks: true},
	{of: Full{}, blocks: true},
	{of: Guard{}, blocks: true},
	{of: Device{}},
	{of: Stripe{}, many: true},
	{of: Workers{}},
	{of: Pinned{}},
	{of: Waiters{}},
	{of: Waits{}},
	{of: Runtime{}},
	{of: State{}},
}
