package runtime

import "github.com/purecuda/purecuda/refs"

// Growable is device memory of elements of type T that grows where it is. The address and the contents stay, nothing is
// copied, and kernels and graphs that use a Ref of the part from before go on. It must not be copied, and is safe for
// concurrent use. It is [refs]'s, with these methods:
//
//   - Grow(n int) error: makes it n elements long, unless it is longer already.
//   - Ref() *Ref[T]: view of the elements that there are now, closed with the Growable.
//   - Len() int: number of elements.
//   - Cap() int: number of elements that it can grow to.
//   - Close() error: frees the memory after its work.
type Growable[T any] = refs.Growable[T]

// AllocGrowable reserves addresses for at most so many elements, which costs no memory: Grow takes that. T must be free of
// pointers. Reserve generously: what a Growable cannot grow to needs another one, and a copy.
//
// Memory is taken in pages of the device, 2 MiB as a rule, and stays until Close. It counts in the limit of [WithMemory] and
// in Stats as other memory does, and the options Zero and Poison do not fill it. Devices that may use the memory of the
// context ([Context.EnablePeer]) may use this as well.
//
// Where the device has no virtual memory the error is of kind driver.ErrUnsupported, and driver.ErrSymbolMissing where the
// driver is older than CUDA 10.2: use [Alloc] and [Copy] then.
func AllocGrowable[T any](c *Context, most int) (*Growable[T], error) {
	if err := c.hold(); err != nil {
		return nil, err
	}
	defer c.gate.Leave()
	return refs.NewGrowable[T](c.state, c.memory.Load().arena, most)
}
