package drivertest

// Registers decide how many threads a multiprocessor holds. A simulated kernel counts
// as using those that the interpreter needs, which is near to what ptxas needs.

const (
	// boundRegisters is what a kernel that runs as a Go function counts as using.
	boundRegisters = 32
	// maxThreadRegisters is the most that a thread can have.
	maxThreadRegisters = 255
	// registerUnit is in how many registers a thread gets them.
	registerUnit = 8
)

// registersOf returns the registers of a thread. Like ptxas, it lets a kernel with a
// bound on its block have no more than such a block can get: the rest is spilled.
func registersOf(needed, limit, blockThreads int, bounded bool) int {
	n := min(max(needed, 1), maxThreadRegisters)
	if limit > 0 {
		n = min(n, max(limit, registerUnit))
	}
	if bounded {
		n = min(n, maxRegisters/wholeWarps(blockThreads)/registerUnit*registerUnit)
	}
	return n
}

// threadsWith returns how many threads a block can have.
func threadsWith(registers int) int {
	return min(maxThreadsPerBlock, maxRegisters/roundedRegisters(registers)/warpSize*warpSize)
}

func roundedRegisters(n int) int { return (n + registerUnit - 1) / registerUnit * registerUnit }

func wholeWarps(threads int) int { return (threads + warpSize - 1) / warpSize * warpSize }
