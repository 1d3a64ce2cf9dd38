// Package isolate runs functions that use a GPU in child processes of the same program, so that a
// kernel that faults or never ends does not take the program down.
//
// After an error such as an illegal address every call of CUDA in the process fails until it ends,
// and nothing in a process can stop a kernel. Another process survives both. A [Group] has a child
// for each device. It starts them when they are needed, starts them again when they die, and kills
// one whose kernel does not end.
//
//	func init() { isolate.Register("blur/v1", blur) }
//
//	func blur(w *pool.Worker, r *isolate.Request) ([]byte, error) { return r.Data, nil }
//
//	func main() {
//		isolate.Main(nil) // in a child this does not return
//		// open a runtime rt, then:
//		//	group, err := isolate.Open(rt)
//		//	result, report, err := group.Do(ctx, "blur/v1", request)
//	}
//
// The function is the one that [pool.Do] would call: it gets a [pool.Worker] of the device.
//
// # Data
//
// [Handle] is Register for functions whose requests and results have types.
//
// A request and its result are bytes, at most 16 MiB, that go through a socket. Larger data goes into a
// [Buffer], memory that the program and its children share. [HostBuffer] makes it page-locked in
// the child, so that copies to and from the device run at the full rate.
//
// Requests with one key ([WithKey]) go to one child, and find what an earlier one has left there ([StateOf]).
//
// # What fails
//
//   - A function that returns an error: [Group.Do] returns it. A [driver.Error] keeps its kind, code
//     and detail, others are a [*RemoteError].
//   - A child that dies: every request that it had gets an error of kind [ErrChildDied], with the cause
//     that the child could still tell. With [WithRetry] it is repeated on another device. A new child
//     is started at once.
//   - A request whose context ends: the function is told through its context. If it does not return,
//     because its kernel does not end, the child is killed after [WithGrace].
//   - A device whose children die too often ([WithRestarts]): it is left out for a while. Without
//     another device requests get an error of kind [ErrGaveUp].
//   - A key whose child has ended: requests get an error of kind [ErrStateGone] until [Group.Drop].
//   - A device whose functions fail with errors of the driver, three times in a row: it is in quarantine, as in a pool.
//   - What the devices have not done the CPU does, if [WithFallback] says how. The report has the reason.
//
// # Where it works
//
// On Linux, as any user, in containers and under go test (call [Main] first in TestMain). The parent makes no
// context on a device. Its children end when it does, however it ends. They get no descriptor of
// the parent, and the environment that [WithEnvironment] says. A child opens no group of its own. On other systems [Open] fails with
// driver.ErrUnsupported.
package isolate
