package driver

// Checker is a driver that checks every access to memory, as the simulated one does. Whoever
// allocates for others should pass allocations through to it, exactly as large as asked
// and freed when they are freed: an access behind the end, or after the end, is found then.
type Checker interface {
	ChecksMemory() bool
}

// PTXLoader is a driver that may load PTX only, as the simulated one does: whoever compiles
// for its devices has to compile to PTX.
type PTXLoader interface {
	LoadsPTXOnly() bool
}
