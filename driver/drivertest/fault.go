package drivertest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/purecuda/purecuda/driver"
)

// plan is a fault that a test asked for.
type plan struct {
	nth, left int // calls until it strikes, 1 for the next one: at first and now
	result    driver.Result
}

// unstruck says which plans have not struck, in the order of the functions.
func (d *simulated) unstruck() (list []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, op := range slices.Sorted(maps.Keys(d.plans)) {
		for _, p := range d.plans[op] {
			list = append(list, fmt.Sprintf("Fail(%q, %d, %s) has not struck: the program called it %d times", op, p.nth, p.result.Name(), p.nth-p.left))
		}
	}
	return list
}

// Fail makes the nth call of a function ("cuMemAllocFromPoolAsync") from now on return r
// without doing the work; 1 is the next call. Plans add up. A sticky result
// poisons the process as a fault of the device would. With [ForTest], a plan that has not
// struck by the end of the test is an error of it. Fail panics if there is no such function
// or nth is below 1.
func (of *Driver) Fail(op string, nth int, r driver.Result) {
	d := of.simulated
	mustBeFunction(op)
	if nth < 1 {
		panic("drivertest: Fail counts calls from 1")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plans[op] = append(d.plans[op], plan{nth, nth, r})
}

// planned counts a call down and returns the result that was asked for, or
// Success.
func (d *simulated) planned(op string) driver.Result {
	plans := d.plans[op]
	if len(plans) == 0 {
		return driver.Success
	}
	result := driver.Success
	waiting := plans[:0]
	for _, p := range plans {
		if p.left--; p.left > 0 {
			waiting = append(waiting, p)
		} else if result == driver.Success {
			result = p.result
		}
	}
	d.plans[op] = waiting
	return result
}

// Injection is a fault that was asked for and has struck: by [Driver.Fail],
// Config.OnCall or Config.Chaos, or a device that vanished.
type Injection struct {
	// Op is the function that was called, or whose work failed.
	Op string
	// Call is the number of the call of the function, from 1.
	Call   int
	Result driver.Result
	// Late says that the call itself succeeded, and its work failed when it ran.
	Late bool
	// Vanished says that Device vanished at this call.
	Vanished bool
	Device   int
	// Where is the place of the call, "file.go:12", or its stack.
	Where string

	made origin
}

func (i Injection) String() string {
	text := fmt.Sprintf("call %d of %s", i.Call, i.Op)
	switch {
	case i.Vanished:
		text += fmt.Sprintf(": device %d vanished", i.Device)
	case i.Late:
		text += fmt.Sprintf(": %s when its work ran", i.Result.String())
	default:
		text += ": " + i.Result.String()
	}
	if i.Where != "" {
		text += ", called at " + i.Where
	}
	return text
}

// maxInjected is how many faults are kept. A campaign has to explain each error by one.
const maxInjected = 10000

// Injected returns the faults that have struck so far, oldest first. At most 10,000 are
// kept.
func (of *Driver) Injected() []Injection {
	d := of.simulated
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.injected {
		if known := &d.injected[i]; known.Where == "" {
			known.Where = known.made.place(d.config.Stacks)
		}
	}
	return append([]Injection(nil), d.injected...)
}

func (d *simulated) noteInjection(i Injection) {
	if len(d.injected) < maxInjected {
		d.injected = append(d.injected, i)
	}
}

// inject applies the consequences of a result that a test asked for.
func (d *simulated) inject(op string, nth int, r driver.Result) driver.Result {
	d.noteInjection(Injection{Op: op, Call: nth, Result: r, made: here(op)})
	if r.Sticky() {
		d.poisonWith(r)
	}
	return r
}

// strike is inject for work that fails when it runs.
func (d *simulated) strike(c call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.noteInjection(Injection{Op: c.op, Call: c.nth, Result: c.luck.late, Late: true, made: c.made})
	d.poisonWith(c.luck.late)
}

// poisonWith makes all later calls return a result, unless another one has before,
// and ends the kernels that run. It tells whether this result was the first.
func (d *simulated) poisonWith(r driver.Result) bool {
	if !d.sticky.CompareAndSwap(0, int32(r)) {
		return false
	}
	d.endKernels()
	return true
}

// Calls returns how often a function ("cuMemAlloc") was called, with or without
// success. It panics if there is no such function.
func (of *Driver) Calls(op string) int {
	d := of.simulated
	mustBeFunction(op)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[op]
}

// ResetCalls sets all counts of Calls to 0.
func (of *Driver) ResetCalls() {
	d := of.simulated
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.calls)
}

// Sticky returns the code that poisoned the process, or Success.
func (d *Driver) Sticky() driver.Result { return d.simulated.poison() }

func (d *simulated) poison() driver.Result { return driver.Result(d.sticky.Load()) }
