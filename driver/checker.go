package driver

// Checker is a driver that checks every access to memory, as the simulated one does. Whoever
// allocates for others should pass allocations through to it, exactly as large as asked, and free
// them when they are freed. Then it finds an access beyond the end of the memory, or after its
// free.
type Checker interface {
	ChecksMemory() bool
}

// PTXLoader is a driver that may load PTX only, as the simulated one does: whoever compiles
// for its devices has to compile to PTX.
type PTXLoader interface {
	LoadsPTXOnly() bool
}
