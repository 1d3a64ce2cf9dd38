// Package locks gives the locks of runtime, refs, arena and internal/wait one order. A build with the
// race detector panics where a goroutine takes one against the order, or blocks while it holds one
// that must not be held so long. Other builds have plain locks of package sync.
package locks

// These are the locks, by the type that has them.
type (
	Opening         struct{} // runtime.Runtime.opening, of one device
	EventExclusive  struct{} // runtime.Event.exclusive
	StreamExclusive struct{} // runtime.Stream.exclusive
	ModuleKernels   struct{} // runtime.kernels
	GraphExec       struct{} // runtime.GraphExec
	Graph           struct{} // runtime.Graph
	CaptureCalls    struct{} // runtime.capture.calls
	EventRecord     struct{} // runtime.Event.mu
	Capture         struct{} // runtime.capture.mu
	RetainedRef     struct{} // runtime.retainedRef
	Grant           struct{} // runtime.grant
	Cluster         struct{} // runtime.clusterLimits
	ModuleCache     struct{} // runtime.moduleCache
	Leases          struct{} // runtime.hostLeases
	Resources       struct{} // runtime.resources
	Users           struct{} // runtime.users
	Links           struct{} // runtime.links
	Runtime         struct{} // runtime.Runtime

	Memory      struct{} // refs.memory
	State       struct{} // refs.State
	RefRegistry struct{} // refs.registry

	DeviceCalls struct{} // arena.Device.calls
	Range       struct{} // arena.Range.growing
	Full        struct{} // arena.Device.full
	Parking     struct{} // arena.Device.parking
	StreamGate  struct{} // arena.Stream.gate
	Guard       struct{} // arena.guard
	Peers       struct{} // arena.Peers
	PeerPair    struct{} // arena.peerLink
	Device      struct{} // arena.Device.mu
	Stripe      struct{} // arena.stripe, arena.Stream.adding
	Events      struct{} // arena.events
	Workers     struct{} // arena.Workers
	Ring        struct{} // arena.ring
	Doubtful    struct{} // arena.doubtful
	Pinned      struct{} // arena.Pinned

	Poller  struct{} // wait.Poller
	Waits   struct{} // wait.Device
	Waiters struct{} // wait.source
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
	{of: Opening{}, blocks: true},
	{of: EventExclusive{}, blocks: true},
	{of: StreamExclusive{}, blocks: true, many: true},
	{of: ModuleKernels{}, blocks: true},
	{of: GraphExec{}, blocks: true},
	{of: Graph{}, blocks: true},
	{of: CaptureCalls{}, blocks: true},
	{of: EventRecord{}, blocks: true},
	{of: Capture{}},
	{of: RetainedRef{}, blocks: true},
	{of: Grant{}, blocks: true},
	{of: Cluster{}, blocks: true},
	{of: ModuleCache{}},
	{of: Leases{}},
	{of: Resources{}},
	{of: Users{}},
	{of: Links{}},
	{of: Memory{}, blocks: true},
	{of: RefRegistry{}},
	{of: PeerPair{}, blocks: true},
	{of: DeviceCalls{}, blocks: true, many: true},
	{of: Range{}, blocks: true},
	{of: Full{}, blocks: true},
	{of: Parking{}, blocks: true},
	{of: StreamGate{}, blocks: true},
	{of: Guard{}, blocks: true},
	{of: Peers{}},
	{of: Device{}},
	{of: Stripe{}, many: true},
	{of: Events{}},
	{of: Workers{}},
	{of: Ring{}},
	{of: Doubtful{}},
	{of: Pinned{}},
	{of: Poller{}},
	{of: Waiters{}},
	{of: Waits{}},
	{of: Runtime{}},
	{of: State{}},
}
