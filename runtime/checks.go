package runtime

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/wait"
)

// CheckWords is how many words a kernel writes when a check fails.
const CheckWords = wait.ReportWords

// Checks is what the kernels of a loaded module report to when one of their checks fails, such as an index out of
// range. Package gpu/launch makes it for the kernels that gpuc has compiled. It is safe for concurrent use.
//
// Each stream and each graph has memory of its own for the report of a Checks. After a wait the host looks there. So a
// failed check is the error of the waits for the stream that the kernel was launched on, once:
//
//   - Stream.Synchronize, Query, AfterFunc and Check, Download, and waits for an event that was recorded behind the launch.
//   - The waits of a stream that has waited for such an event, up to the first that covers it. These two also where
//     another wait, or a Close, has found the error after the event was recorded. An event tells it to each who asks.
//   - Stream.Close, Checks.Close, Context.Synchronize and Runtime.Close, of what no wait has returned. The error hook gets
//     it as well once the stream is closed.
//
// Goroutines that share a stream share its errors. Whoever waits gets the error of a launch before it, and so do
// all whose waits are under way then. Of launches that may have come after the wait began, the next wait gets it as well.
// Launches of one GraphExec share its reports in the same way: all streams that it was launched on get the error.
//
// If several checks fail before a wait, the first one counts.
type Checks struct {
	table    *checkTable
	describe func(words [CheckWords]uint64) error
	closed   atomic.Bool
}

// NewChecks makes a Checks for kernels that were loaded into the context. describe makes the error of what a kernel has
// written: the number of the check, which is not 0, and what the kernel knows of it. It uses no CUDA, or waits for itself.
func (c *Context) NewChecks(describe func(words [CheckWords]uint64) error) (*Checks, error) {
	if describe == nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "NewChecks takes a function that is not nil")
	}
	if err := c.hold(); err != nil {
		return nil, err
	}
	defer c.gate.Leave()
	return &Checks{table: c.memory.Load().checks, describe: describe}, nil
}

// Arg is the last argument of a kernel that reports: the address of the report of the stream that it is launched on.
func (c *Checks) Arg() Arg {
	if c == nil || c.table == nil {
		return wrongArg(errNothing("Checks"))
	}
	return Arg{of: unsafe.Pointer(c), size: 8, typ: addressArg, kind: reportArg}
}

// Close ends launches with the Checks. The error is the failed checks that no wait has found so far. It does not wait:
// what launches report that are under way is the error of later waits for their streams.
func (c *Checks) Close() error {
	if c == nil || c.table == nil || !c.closed.CompareAndSwap(false, true) {
		return nil
	}
	t := c.table
	reportsMu.Lock()
	defer reportsMu.Unlock()
	var errs []error
	for r := range t.live {
		if r.of != c {
			continue
		}
		if r.take() {
			errs = append(errs, r.err)
		}
		if r.home != nil {
			r.home.release(c)
		}
	}
	return errors.Join(errs...)
}

// reportsMu guards what tables, reports and the waits for them say. It is one for all contexts: a stream can wait for an event of another
// device, and then both look at a report. Failed checks take it, launches of graphs that report, and waits for events of streams that do.
// Launches of kernels do not, nor waits that have nothing to return. Nothing is called with it that blocks or takes another mutex of runtime.
var reportsMu sync.Mutex

// checkTable has the reports of one generation of a context. reportsMu guards live and untold.
type checkTable struct {
	waits  *wait.Device
	report func(error) // what nobody waits for

	live   map[*report]struct{}
	untold []error // of streams and graphs that have ended
}

// report is where the kernels of one Checks write the first check that fails, of a stream or a graph.
type report struct {
	memory *wait.Report
	of     *Checks
	home   *streamChecks // of the stream that the kernels are launched on; nil: they belong to a graph
	found  atomic.Uint64 // how many errors were taken
	taking atomic.Bool   // one is taken right now
	// reportsMu guards these:
	err   error // the last one
	users int   // streams whose waits look at it, and graphs; the last one frees the memory
}

// open makes a report.
func (t *checkTable) open(of *Checks, home *streamChecks) (*report, error) {
	if of.table != t || of.closed.Load() {
		return nil, errClosed("Checks, or its context,")
	}
	memory, err := t.waits.NewReport()
	if err != nil {
		return nil, err
	}
	r := &report{memory: memory, of: of, home: home}
	reportsMu.Lock()
	defer reportsMu.Unlock()
	t.live[r] = struct{}{}
	return r, nil
}

// take takes what a kernel has written. reportsMu is held.
func (r *report) take() (found bool) {
	r.taking.Store(true)
	defer r.taking.Store(false)
	words, ok := r.memory.Take()
	if !ok {
		return false
	}
	failed := contain.Hook(func() { r.err = r.of.describe(words) })
	r.err = errors.Join(r.err, failed)
	r.found.Add(1)
	if r.home != nil {
		r.home.failed = r.err
		r.home.found.Add(1)
	}
	return true
}

// leave ends one use. reportsMu is held.
func (r *report) leave() {
	if r.users--; r.users > 0 {
		return
	}
	t := r.of.table
	delete(t.live, r)
	if r.take() {
		t.lose(r.err)
	}
	r.memory.Free()
}

// maxUntold is how many errors of ended streams a context keeps.
const maxUntold = 64

// lose keeps an error that no wait has found. reportsMu is held.
func (t *checkTable) lose(err error) {
	if len(t.untold) < maxUntold {
		t.untold = append(t.untold, err)
	}
	go t.report(err)
}

// collect returns the failed checks that nobody was told of.
func (t *checkTable) collect() error {
	reportsMu.Lock()
	defer reportsMu.Unlock()
	errs := t.untold
	t.untold = nil
	for r := range t.live {
		if r.take() {
			errs = append(errs, r.err)
		}
	}
	return errors.Join(errs...)
}

// A graph whose kernels write the report calls retain and release.
func (r *report) retain() retainable {
	reportsMu.Lock()
	defer reportsMu.Unlock()
	r.users++
	return r
}

func (r *report) release() error {
	reportsMu.Lock()
	defer reportsMu.Unlock()
	r.leave()
	return nil
}

// reportsOf returns the reports among what a graph retains.
func reportsOf(all []retainable) (reports []*report) {
	for _, k := range all {
		if r, ok := k.(*report); ok {
			reports = append(reports, r)
		}
	}
	return reports
}

// streamChecks is what the waits of a stream look at. It does not refer to the Stream.
type streamChecks struct {
	gate  *gate.Gate // of the stream
	waits *wait.Stream
	table *checkTable
	list  atomic.Pointer[[]*watch] // nil for streams without launches that report
	dirty atomic.Bool              // there were some since the last wait
	told  atomic.Uint64            // how many errors waits have returned
	last  error                    // the last one; reportsMu guards it
	// found is how many errors launches on the stream have reported, whoever has looked. An event notes it when it is recorded.
	found  atomic.Uint64
	failed error // the last one; reportsMu guards it
	// owed is the error of a launch before an event that the stream has waited for, if somebody else has found it. The next wait returns it.
	owed atomic.Pointer[error]
}

// watch is a report that the waits of a stream look at.
type watch struct {
	*report
	told   atomic.Uint64 // how many of its errors were returned
	leaves atomic.Bool   // it ends with a wait of a ticket above until
	// reportsMu guards these:
	seen, until uint64 // the last error that a wait has seen, and the ticket up to which others may be for its launch
	launching   bool   // launches from before Checks.Close may be on their way to the driver
}

func (s *streamChecks) watched() []*watch {
	if list := s.list.Load(); list != nil {
		return *list
	}
	return nil
}

// at returns where a kernel that is launched on the stream reports. The caller is inside the gate of the stream.
func (s *Stream) reportAt(c *Checks) (driver.DevicePtr, error) {
	if c.closed.Load() {
		return 0, errClosed("Checks")
	}
	if captured := s.capture.Load(); captured != nil {
		return captured.reportAt(s.checks.table, c)
	}
	for _, w := range s.checks.watched() {
		if w.of == c && w.home == s.checks {
			return w.memory.At, nil
		}
	}
	r, err := s.checks.table.open(c, s.checks)
	if err != nil {
		return 0, err
	}
	return s.checks.keep(r), nil
}

// keep adds a report of the stream itself, unless another goroutine has.
func (s *streamChecks) keep(r *report) driver.DevicePtr {
	reportsMu.Lock()
	defer reportsMu.Unlock()
	for _, w := range s.watched() {
		if w.of == r.of && w.home == s {
			r.users = 1
			r.leave()
			return w.memory.At
		}
	}
	s.add(&watch{report: r})
	if r.of.closed.Load() { // meanwhile
		s.release(r.of)
	}
	return r.memory.At
}

// add adds a watch. reportsMu is held.
func (s *streamChecks) add(w *watch) {
	w.users++
	w.told.Store(w.found.Load())
	list := append(slices.Clone(s.watched()), w)
	s.list.Store(&list)
}

// join makes the waits of the stream look at reports of others, up to the first wait for all the work that is on the
// stream now. The caller has just put work there that depends on them.
func (s *streamChecks) join(reports ...*report) {
	if len(reports) == 0 {
		return
	}
	reportsMu.Lock()
	defer reportsMu.Unlock()
	for _, r := range reports {
		s.watch(r)
	}
	s.dirty.Store(true)
}

// watch makes the waits of the stream look at a report of others. reportsMu is held.
func (s *streamChecks) watch(r *report) {
	i := slices.IndexFunc(s.watched(), func(w *watch) bool { return w.report == r })
	if i < 0 {
		if r.users == 0 {
			return // it has ended, and so has the work
		}
		i = len(s.watched())
		w := &watch{report: r}
		w.leaves.Store(true)
		s.add(w)
	}
	if w := s.watched()[i]; w.leaves.Load() {
		w.until = s.waits.Issued()
	}
}

// follow is join for the reports of the stream of an event. found is how many errors there were when the event was recorded.
func (s *streamChecks) follow(of *streamChecks, found uint64) {
	reportsMu.Lock()
	defer reportsMu.Unlock()
	for _, w := range of.watched() {
		s.watch(w.report)
		if w.home != of && w.found.Load() != w.told.Load() { // of a graph
			s.owed.Store(new(w.err))
		}
	}
	if of.found.Load() > found {
		s.owed.Store(new(of.failed))
	}
	s.dirty.Store(true)
}

// release lets the report of a closed Checks go, once nothing that may write it is under way. reportsMu is held.
func (s *streamChecks) release(of *Checks) {
	s.drop(func(w *watch) bool {
		if w.of != of || w.home != s {
			return false
		}
		w.launching = true
		s.settle(w)
		w.leaves.Store(true)
		return !w.launching && s.waits.Rested() && w.told.Load() == w.found.Load()
	})
}

// settle notes up to which ticket work may write the report of a closed Checks. While a call is inside the gate of the stream it may be
// a launch that has the address: then a later wait settles it. Whoever enters the gate now gets no address any more. reportsMu is held.
func (s *streamChecks) settle(w *watch) {
	if w.launching && s.gate.Inside() == 0 {
		w.launching, w.until = false, max(w.until, s.waits.Covering())
	}
}

// drop ends watches. reportsMu is held.
func (s *streamChecks) drop(which func(*watch) bool) {
	var kept []*watch
	for _, w := range s.watched() {
		if which(w) {
			w.leave()
		} else {
			kept = append(kept, w)
		}
	}
	if kept == nil {
		s.list.Store(nil)
		return
	}
	s.list.Store(&kept)
}

// waiting is what a wait has to know of its beginning.
type waiting struct {
	told  uint64
	dirty bool
	// found is how many errors there were when the event was recorded that the wait is for. It returns a later one, whoever has found it
	// first. A wait for a stream does not.
	found uint64
}

// begin begins a wait for all the work on the stream.
func (s *streamChecks) begin() waiting {
	w := s.beginPart()
	if w.dirty = s.dirty.Load(); w.dirty {
		s.dirty.Store(false)
	}
	return w
}

// beginPart begins a wait that may be for a part of the work, or for none.
func (s *streamChecks) beginPart() waiting {
	return waiting{told: s.told.Load(), found: math.MaxUint64}
}

// again takes back that a wait has begun.
func (s *streamChecks) again(began waiting) {
	if began.dirty {
		s.dirty.Store(true)
	}
}

// end returns the error of a wait for a ticket, of the number, that has ended: err or else a failed check.
func (s *streamChecks) end(began waiting, number uint64, err error) error {
	if err != nil {
		s.again(began)
		return err
	}
	if !s.news(began) {
		return nil
	}
	reportsMu.Lock()
	defer reportsMu.Unlock()
	if s.told.Load() != began.told {
		err = s.last // of a wait that has ended meanwhile
	}
	if s.found.Load() > began.found {
		err = s.failed
	}
	if owed := s.owed.Load(); owed != nil && number != 0 {
		s.owed.Store(nil)
		err, s.last = *owed, *owed
		s.told.Add(1)
	}
	for _, w := range s.watched() {
		s.settle(w)
		w.take()
		found := w.found.Load()
		if found == w.told.Load() {
			continue
		}
		err = w.err
		if w.seen != found {
			w.seen = found
			w.until = max(w.until, s.waits.Covering())
		}
		if number > w.until {
			s.last = err
			s.told.Add(1) // before w.told: see news
			w.told.Store(found)
		}
	}
	s.drop(func(w *watch) bool {
		return w.leaves.Load() && !w.launching && number > w.until && w.told.Load() == w.found.Load()
	})
	return err
}

// news reports whether a wait that has ended may have something to return. An error goes from the memory to found and from there to
// told. This looks at the places in that order, without the lock: what leaves one meanwhile is at the next already.
func (s *streamChecks) news(began waiting) bool {
	return slices.ContainsFunc(s.watched(), (*watch).due) || s.found.Load() > began.found || s.owed.Load() != nil || s.told.Load() != began.told
}

// due reports whether a wait has something to do about a report.
func (w *watch) due() bool {
	return w.memory.Written() || w.taking.Load() || w.found.Load() != w.told.Load() || w.leaves.Load()
}

// close ends the stream. It returns the failed checks that no wait has returned. They and what work reports that is under
// way go to the error hook, and to Context.Synchronize and Runtime.Close.
func (s *streamChecks) close() error {
	if s.list.Load() == nil && s.owed.Load() == nil {
		return nil
	}
	t, err := s.waits.Mark()
	if err != nil {
		return nil // the context ends
	}
	reportsMu.Lock()
	defer reportsMu.Unlock()
	var errs []error
	if owed := s.owed.Swap(nil); owed != nil {
		errs = append(errs, *owed)
	}
	for _, w := range s.watched() {
		w.take()
		if found := w.found.Load(); found != w.told.Load() {
			errs = append(errs, w.err)
			s.last = w.err
			s.told.Add(1) // for waits that are under way
			w.told.Store(found)
			s.table.lose(w.err) // the error of a Close is easily missed
		}
	}
	all := func(*watch) bool { return true }
	if s.waits.Rested() {
		s.drop(all)
	} else {
		t.AfterFunc(func(err error) {
			if err == nil {
				reportsMu.Lock()
				defer reportsMu.Unlock()
				s.drop(all)
			}
		})
	}
	return errors.Join(errs...)
}

// copied ends a copy that has waited for the work before it. Of failed checks it waits for all that is on the stream, so
// that they are told once.
func (s *Stream) copied(ctx context.Context, began waiting, err error) error {
	var t wait.Ticket
	if err == nil {
		if !s.checks.news(began) {
			return nil
		}
		if t, err = s.ticket("Download"); err == nil {
			err = s.ctx.waited(ctx, t.Wait(ctx), s.id)
		}
	}
	return s.checks.end(began, t.Number(), err)
}

// Check waits for launches on the stream that report failed checks and that nobody has waited for, and returns the
// error of that wait. Without such launches it returns nil at once, unless the stream is closed. Package pool calls it after each
// function.
func (s *Stream) Check(ctx context.Context) error {
	if s != nil && s.ctx != nil && ctx != nil && !s.checks.dirty.Load() && !s.gate.Closed() {
		return nil // what usable and Synchronize would find
	}
	return s.checkNow(ctx)
}

func (s *Stream) checkNow(ctx context.Context) error {
	if err := usable(ctx, s, "Stream.Check"); err != nil {
		return err
	}
	return s.Synchronize(ctx)
}

// reportAt of a stream that is captured: the graph has reports of its own. The capture makes one call at a time.
func (c *capture) reportAt(t *checkTable, of *Checks) (driver.DevicePtr, error) {
	if r := c.reports[of]; r != nil {
		return r.memory.At, nil
	}
	r, err := t.open(of, nil)
	if err != nil {
		return 0, err
	}
	_ = c.hold(r) // which is open
	if c.reports == nil {
		c.reports = map[*Checks]*report{}
	}
	c.reports[of] = r
	return r.memory.At, nil
}
