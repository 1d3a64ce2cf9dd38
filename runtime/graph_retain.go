package runtime

import (
	"errors"

	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/refs"
)

// retainable is what a graph can retain, as CUDA's graphs retain user objects. It may be closed
// meanwhile, and is freed once no graph retains it any more.
type retainable interface {
	// retain adds a reference of a graph. It returns false for what is closed, unless another graph
	// retains it.
	retain() bool
	// release ends one reference, and frees what was closed meanwhile. It may wait for the device.
	release() error
}

// retainedRef is a Ref that graphs retain, by a reference of their own.
type retainedRef struct {
	of    *refs.Core
	write bool // the graph writes the memory, or may; set during the capture

	mu    locks.Mutex[locks.Ledger]
	count int
	own   *refs.Core // while count is not 0
}

func (k *retainedRef) retain() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.count == 0 {
		own := k.of.Retain()
		if _, err := own.Access(); err != nil {
			_ = own.Close() // of a Ref that was closed: there is nothing to free
			return false
		}
		k.own = own
	}
	k.count++
	return true
}

func (k *retainedRef) release() error {
	k.mu.Lock()
	k.count--
	var last *refs.Core // nil has nothing to close
	if k.count == 0 {
		last, k.own = k.own, nil
	}
	k.mu.Unlock()
	return last.Close()
}

// refArgs returns the Refs among what a graph retains, as arguments of its launch.
func refArgs(all []retainable) []Arg {
	var args []Arg
	for _, k := range all {
		switch k, ok := k.(*retainedRef); {
		case ok && k.write:
			args = append(args, memoryArg(k.own, writing))
		case ok:
			args = append(args, memoryArg(k.own, reading))
		}
	}
	return args
}

// retainAll retains all or none.
func retainAll(all []retainable) error {
	for i, k := range all {
		if !k.retain() {
			return errors.Join(errClosed("object that a graph uses"), releaseAll(all[:i]))
		}
	}
	return nil
}

func releaseAll(all []retainable) error {
	var errs []error
	for _, k := range all {
		errs = append(errs, k.release())
	}
	return errors.Join(errs...)
}
