package drivertest

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/purecuda/purecuda/driver"
)

// Chaos makes calls fail, and calls and work take longer, by chance. What happens to
// the nth call of a function depends on the seed, the function and n alone: a program
// that makes the same calls meets the same faults again. [Driver.Injected] lists those
// that struck.
//
// Calls fail as a driver's do. What allocates is out of memory, what searches does not find,
// and what loads refuses the image. Most functions can fail for reasons of their own.
type Chaos struct {
	Seed uint64
	// Failures is the probability that a call fails, from 0 to 1.
	Failures float64
	// Sticky is the share of the failures that poison the process. Half of the failures of
	// calls that put work on a stream strike when the work runs, as real ones do: the
	// call returns Success. Functions that work in a poisoned process fail without
	// poisoning it.
	Sticky float64
	// Results replaces what the named functions ("cuMemAlloc") fail with, sticky results
	// included. With an empty list a function never fails: give one to "cuMemFree" and
	// its kin where [Driver.Leaks] counts, since what they refuse to free is a leak.
	Results map[string][]driver.Result
	// SlowWork is the probability that work on a stream is held back before it runs. A program that
	// forgot to wait sees old data then. A program that watches memory for a value of cuStreamWriteValue64
	// sees it long after the work is done.
	SlowWork float64
	// SlowCalls is the probability that a call takes longer.
	SlowCalls float64
	// Kernels runs kernels as PTX allows it, and as a device does it seldom. Blocks begin in any order, and pause for long. What a block
	// writes reaches the others late and in any order, until a release or a fence of the device sends it. What it reads by a
	// plain load can be old, until an acquire or a fence. All blocks of a launch run on one core. Where a block waits for one that has
	// not begun, the launch ends by Config.MaxSteps. A kernel of Config.Kernels runs as it does without.
	Kernels bool
	// MaxDelay is the longest delay; others are at least half of it. 0 means 200
	// microseconds.
	MaxDelay time.Duration
}

const maxDelay = 200 * time.Microsecond

// luck is what chance does to a call.
type luck struct {
	result driver.Result // what it fails with, or Success
	late   driver.Result // what its work fails with, or Success
	sleep  time.Duration // of the call
	hold   time.Duration // of its work
}

// draw decides about the nth call of a function. All draws are made in any case, so
// that a change of one probability leaves the others' outcomes as they are.
func (c *Chaos) draw(op string, n int) (l luck) {
	if c == nil {
		return l
	}
	chance := rand.New(rand.NewPCG(c.Seed, hash(op, n)))
	fails, sticky, late := chance.Float64() < c.Failures, chance.Float64() < c.Sticky, chance.IntN(2) == 0
	which := chance.Uint32()
	pick := func(from []driver.Result) driver.Result { return from[which%uint32(len(from))] }
	rule := entries[op]
	list, listed := c.Results[op]
	switch {
	case !fails || listed && len(list) == 0:
	case listed:
		l.result = pick(list)
	case sticky && late && rule.work:
		l.late = pick(stickyResults)
	case sticky && !rule.harmless:
		l.result = pick(stickyResults)
	default:
		l.result = pick(rule.fails)
	}
	limit := c.MaxDelay
	if limit <= 0 {
		limit = maxDelay
	}
	for _, delay := range []struct {
		of          *time.Duration
		probability float64
	}{{&l.sleep, c.SlowCalls}, {&l.hold, c.SlowWork}} {
		length := limit/2 + time.Duration(chance.Int64N(int64(limit/2)+1))
		if chance.Float64() < delay.probability {
			*delay.of = length
		}
	}
	return l
}

// hash mixes the name of a function and a number (FNV-1a).
func hash(op string, n int) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(op) {
		h = (h ^ uint64(op[i])) * 1099511628211
	}
	return (h ^ uint64(n)) * 1099511628211
}

// complete copies what the program may change later.
func (c *Chaos) complete() *Chaos {
	if c == nil {
		return nil
	}
	copied := *c
	copied.Results = map[string][]driver.Result{}
	for op, results := range c.Results {
		mustBeFunction(op)
		copied.Results[op] = slices.Clone(results)
	}
	return &copied
}

var stickyResults = []driver.Result{driver.ResultIllegalAddress, driver.ResultLaunchFailed, driver.ResultLaunchTimeout,
	driver.ResultMisalignedAddress, driver.ResultIllegalInstruction, driver.ResultAssert, driver.ResultHardwareStackError}
