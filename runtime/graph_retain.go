package runtime

import (
	"errors"

	"github.com/purecuda/purecuda/refs"
)

// retainable is what a graph can retain, as CUDA's graphs retain user objects. It may be closed
// meanwhile, and is freed once no graph retains it any more.
type retainable interface {
	// retain adds a reference of a graph, and returns what stands for it. That is nil for what is closed, unless
	// another graph retains it.
	retain() retainable
	// release ends the reference, and frees what was closed meanwhile. It may wait for the device.
	release() error
}

// retainedRef is a Ref that one graph retains, by a reference of its own.
type retainedRef struct {
	own   *refs.Core
	write bool // the graph writes the memory, or may; set during the capture
}

// retain is called while the graph lives that k is of.
func (k *retainedRef) retain() retainable { return &retainedRef{k.own.Retain(), k.write} }

func (k *retainedRef) release() error { return k.own.Close() }

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

// retainAll adds references for another graph, all or none.
func retainAll(all []retainable) ([]retainable, error) {
	now := make([]retainable, 0, len(all))
	for _, k := range all {
		again := k.retain()
		if again == nil {
			return nil, errors.Join(errClosed("object that a graph uses"), releaseAll(now))
		}
		now = append(now, again)
	}
	return now, nil
}

func releaseAll(all []retainable) error {
	var errs []error
	for _, k := range all {
		errs = append(errs, k.release())
	}
	return errors.Join(errs...)
}
