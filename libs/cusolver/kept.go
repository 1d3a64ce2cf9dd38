package cusolver

import (
	"errors"
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/runtime"
)

// kept is device memory that the calls of a handle use one after the other: it is put back as soon as they are on the stream.
// So a call of a shape that ran before allocates nothing, and can be captured.
type kept[T any] struct {
	mu     sync.Mutex
	free   []*runtime.Ref[T]
	closed bool
}

// take returns memory of at least n elements. Where none fits, new memory takes the place of the largest.
func (k *kept[T]) take(s *runtime.Stream, n int) (*runtime.Ref[T], error) {
	old := k.best(n)
	if old != nil && old.Len() >= n {
		return old, nil
	}
	fresh, err := runtime.Alloc[T](s, n)
	switch {
	case old == nil:
		return fresh, err
	case err == nil:
		return fresh, old.Close()
	case !errors.Is(err, driver.ErrOutOfMemory):
		return nil, errors.Join(err, k.put(old))
	}
	if err := old.Close(); err != nil {
		return nil, err
	}
	return runtime.Alloc[T](s, n)
}

// best takes out the smallest that has n elements, or else the largest, or nil.
func (k *kept[T]) best(n int) *runtime.Ref[T] {
	k.mu.Lock()
	defer k.mu.Unlock()
	best := -1
	for i, ref := range k.free {
		if best < 0 || fits(ref, k.free[best], n) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	last, ref := len(k.free)-1, k.free[best]
	k.free[best], k.free[last] = k.free[last], nil
	k.free = k.free[:last]
	return ref
}

// fits tells whether a is better than b for n elements.
func fits[T any](a, b *runtime.Ref[T], n int) bool {
	if a.Len() >= n && b.Len() >= n {
		return a.Len() < b.Len()
	}
	return a.Len() > b.Len()
}

func (k *kept[T]) put(refs ...*runtime.Ref[T]) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.free = append(k.free, refs...)
		return nil
	}
	var err error
	for _, ref := range refs {
		err = errors.Join(err, ref.Close())
	}
	return err
}

func (k *kept[T]) close() error {
	k.mu.Lock()
	refs := k.free
	k.free, k.closed = nil, true
	k.mu.Unlock()
	return k.put(refs...)
}

// copies is the memory of a handle for elements of a type.
func copies[T cublas.Real](h *Handle) *kept[T] {
	if k, ok := any(&h.float64s).(*kept[T]); ok {
		return k
	}
	return any(&h.float32s).(*kept[T])
}

// infos are how many results a handle allocates at once: as many calls can be captured before it allocates again.
const infos = 64

// info returns memory for the result of a call.
func (h *Handle) info() (*runtime.Ref[int32], error) {
	if ref := h.infos.best(1); ref != nil {
		return ref, nil
	}
	all, err := runtime.Alloc[int32](h.s, infos)
	if err != nil {
		return nil, err
	}
	for i := range infos - 1 {
		err = errors.Join(err, h.infos.put(all.Slice(i, i+1).Retain()))
	}
	last := all.Slice(infos-1, infos).Retain()
	return last, errors.Join(err, all.Close())
}
