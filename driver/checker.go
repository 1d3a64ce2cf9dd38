package driver

// Checker is a driver that checks every access to memory, as the simulated one does. Whoever
// allocates for others should pass allocations through to it, exactly as large as asked
// and freed when they are freed: an access behind the end, or after the end, is found then.
type Checker interface {
	ChecksMemory() bool
}
