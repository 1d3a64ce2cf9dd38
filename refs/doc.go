// Package refs has typed references to device memory. A [Ref] knows the context that its memory
// was allocated in. Its use fails once the context was rebuilt, lost or closed, so that no stale
// address gets to the driver.
//
//	r, err := refs.New[float32](state, stream, 1<<20)
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//
// There are three parts:
//
//   - [State] is the state of the context of one device, which all Refs to its memory share:
//     whether it accepts work, its generation, and what has ended it. Checking a Ref is one
//     load and one comparison.
//   - [Ref] is a reference to memory, [Ref.Slice] a view of a part, [Ref.Retain] another
//     reference. The last Close frees the memory. [Ref.Acquire] takes a lease, without
//     which a check would be about a moment that is over.
//   - [Growable] is memory that grows where it is. Its Ref is a view of what there is now.
//
// # Order
//
// Work on one stream is in order, and the memory is used on several. [Core.Use] is called
// before work is put on a stream. It makes the stream wait for what the work depends on: a
// reader for those who have written, a writer for everybody. The memory is freed
// after all work that uses it. Where that cannot be had, the memory is leaked on
// purpose and counted ([State.Stats]): a leak is better than a write into memory that
// somebody else has by then.
//
// Package runtime does all of that in its copies and launches: programs which use it call
// none of Acquire, Use and Release. docs/lifetimes.md has the whole story.
//
// # Who calls the driver
//
// Refs are allocated, ordered and freed by package arena, which calls the driver. Checks,
// leases, views, references and changes of a State make no call; the garbage
// collector makes none either: what it finds waits for the next allocation.
package refs
