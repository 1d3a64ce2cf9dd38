// Package wait lets goroutines wait for streams of a device without a thread and without a core.
//
// A [Ticket] is a number that the device writes into page-locked memory when the work before it
// is done. Each [Stream] has one cache line there, its cell. A goroutine that waits spins for about as long as
// the last waits on the stream took, and only while few others spin, and parks then. The one
// goroutine of the [Poller] reads the cells of the streams that somebody waits for, without a call
// of the driver, wakes goroutines, and ends when nobody waits.
//
//	var p wait.Poller                        // one for the process
//	d, err := p.Open(binding, wait.Config{}) // for each context, and again after a Reset
//	s := d.NewStream(handle)
//	// put work on the stream
//	s.Changed()                              // after each call that did
//	err = s.Wait(ctx)
//
// # Asking the driver
//
// After a fault of the device no value is written, so the driver is asked about streams that have
// been silent for a millisecond. A goroutine of its own does that, because the driver may hang.
// Where a stream cannot write values, Mark records an event and the driver is asked about that.
// So it does where the work of a stream is long: on an H200 all later work on the same connection
// waits for a write, and none for an event. The driver is asked little until shortly before the
// time that such work usually takes, and often then. So it is with an [Event] of the caller, unless
// a write comes after it.
//
// # What the caller keeps to
//
// Mark puts work on the stream, so it must not be called while the stream is captured. Asking about
// a captured stream would end the capture: Suspend keeps the driver from being asked, and Resume
// allows it again. Close comes before the handle is destroyed. Tickets stay good after all of
// these. Each wait and each function of AfterFunc ends when the work is done, or when the driver
// says that it failed. It also ends with the cause that [Device.Close], [Device.Lose] or
// [Poller.Lose] was called with.
//
// # Numbers
//
// A goroutine takes its number after it has put its work on the stream and before it calls the
// driver. So a number that has been written proves the work of all smaller numbers, also where
// two writes went to the stream the other way round. Numbers of a cell go on from one stream to
// the next: a write that comes late is of a smaller number, and proves nothing wrong.
package wait
