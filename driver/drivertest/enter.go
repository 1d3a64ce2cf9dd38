package drivertest

import (
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/locks"
)

// rule is what holds for all calls of one function, as driver/entries.txt tells. It is looked up in
// one place, [Driver.enter].
type rule struct {
	driver.Entry
	// early calls work before cuInit.
	early bool
	// harmless calls still work in a poisoned process, as measured with driver 580.
	harmless bool
	// hot calls name a stream, an event or a graph, which tells their context.
	hot bool
	// work is put on a stream by these calls, and may fail there.
	work bool
	// fails is what Chaos makes the call fail with.
	fails []driver.Result
	// unsafe calls are forbidden while a stream captures, as measured with driver
	// 580. Those that depend on their arguments call checkCaptures themselves.
	unsafe bool
	// refused is why this driver does not have the function, or "".
	refused string
}

var entries = makeRules()

func makeRules() map[string]*rule {
	all := map[string]*rule{}
	for _, e := range driver.Entries() {
		r := rules[e.Name]
		r.Entry = e
		if r.fails == nil {
			r.fails = []driver.Result{driver.ResultUnknown}
		}
		all[e.Name] = &r
	}
	return all
}

// call is one call of the API on its way through the driver.
type call struct {
	d    *simulated
	op   string
	nth  int // of the calls of op
	made origin
	rule *rule
	luck luck
	// thread is the calling thread, and ctx its current context or nil.
	thread *thread
	ctx    *context
}

// enter begins every call. On Success it returns with d.mu held, and the caller
// unlocks it; any other result is the call's. It counts the call, applies
// faults that a test asked for, and checks what holds for the function.
func (d *simulated) enter(op string) (call, driver.Result) {
	locks.Block()
	rule := entries[op]
	d.mu.Lock()
	d.calls[op]++
	d.nth[op]++
	nth := d.nth[op]
	d.vanish(op)
	if d.absent[op] {
		d.mu.Unlock()
		return call{}, driver.ResultSymbolMissing
	}
	luck := d.config.Chaos.draw(op, nth)
	if hook := d.config.OnCall; hook != nil || luck.sleep > 0 {
		r := driver.Success
		d.mu.Unlock()
		time.Sleep(luck.sleep)
		if hook != nil {
			r = hook(op)
		}
		d.mu.Lock()
		if r != driver.Success {
			return d.refuse(d.inject(op, nth, r))
		}
	}
	if r := d.planned(op); r != driver.Success {
		return d.refuse(d.inject(op, nth, r))
	}
	if d.closed {
		return d.refuse(driver.ResultDeinitialized)
	}
	if !d.initialised && !rule.early {
		return d.refuse(driver.ResultNotInitialized)
	}
	c := call{d: d, op: op, nth: nth, made: here(op), rule: rule, luck: luck, thread: d.currentThread()}
	if c.thread.inHostFunc && !rule.early {
		c.found(driver.ResultNotPermitted, "a host function of a stream called the driver")
		return d.refuse(driver.ResultNotPermitted)
	}
	if sticky := d.poison(); sticky != driver.Success && !rule.harmless {
		return d.refuse(sticky)
	}
	if luck.result != driver.Success {
		return d.refuse(d.inject(op, nth, luck.result))
	}
	c.ctx = c.thread.current()
	if rule.NeedsContext || rule.hot && d.config.HotPathNeedsContext {
		if r := c.needContext(); r != driver.Success {
			return d.refuse(r)
		}
	}
	if rule.NeedsContext && !rule.harmless {
		if r := c.ctx.present(); r != driver.Success {
			return d.refuse(r)
		}
	}
	if rule.unsafe {
		if r := c.checkCaptures(); r != driver.Success {
			return d.refuse(r)
		}
	}
	return c, driver.Success
}

func (d *simulated) refuse(r driver.Result) (call, driver.Result) {
	d.mu.Unlock()
	return call{}, r
}

// do makes a call with d.mu held, unless it is refused.
func (d *simulated) do(op string, f func(c call) driver.Result) driver.Result {
	c, r := d.enter(op)
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	return f(c)
}

// get is do for a function that returns something.
func get[T any](d *simulated, op string, f func(c call) (T, driver.Result)) (T, driver.Result) {
	c, r := d.enter(op)
	if r != driver.Success {
		var none T
		return none, r
	}
	defer d.mu.Unlock()
	return f(c)
}

// enterOn is enter for what a handle stands for, which find finds.
func enterOn[H, O any](d *simulated, find func(call, H) (O, driver.Result), op string, h H) (c call, o O, r driver.Result) {
	if c, r = d.enter(op); r != driver.Success {
		return c, o, r
	}
	if o, r = find(c, h); r != driver.Success {
		d.mu.Unlock()
	}
	return c, o, r
}

// on is do for what a handle stands for.
func on[H, O any](d *simulated, find func(call, H) (O, driver.Result), op string, h H, f func(c call, o O) driver.Result) driver.Result {
	c, o, r := enterOn(d, find, op, h)
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	return f(c, o)
}

// getOf is get for what a handle stands for.
func getOf[H, O, T any](d *simulated, find func(call, H) (O, driver.Result), op string, h H, f func(c call, o O) (T, driver.Result)) (T, driver.Result) {
	c, o, r := enterOn(d, find, op, h)
	if r != driver.Success {
		var none T
		return none, r
	}
	defer d.mu.Unlock()
	return f(c, o)
}

// needContext checks that the thread has a current context that lives.
func (c call) needContext() driver.Result {
	switch {
	case c.ctx == nil:
		return driver.ResultInvalidContext
	case c.ctx.dead:
		return driver.ResultContextIsDestroyed
	}
	return driver.Success
}
