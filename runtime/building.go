package runtime

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/mark"
)

// building is a build of ProbeOnce that runs.
type building struct {
	label string
	waits []string // the labels that it waits for
}

// builds numbers them in the process. A number is on the stack of its build, which finds it whatever the build calls.
var builds atomic.Uint64

func (rt *Runtime) beginBuild(label string) (number uint64) {
	number = builds.Add(1)
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.building[number] = &building{label: label}
	return number
}

func (rt *Runtime) endBuild(number uint64) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	delete(rt.building, number)
}

// waitForBuild notes that the build that calls it, if any, waits for a label until leave is called. It refuses
// what would wait for itself.
func (rt *Runtime) waitForBuild(label string) (leave func(), circle error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if len(rt.building) == 0 {
		return func() {}, nil
	}
	var b *building
	mark.Below(mark.Build, func(number uint64) bool { b = rt.building[number]; return b != nil })
	if b == nil {
		return func() {}, nil
	}
	if path := rt.path(label, b.label, nil); path != nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "builds of ProbeOnce wait for each other: %s -> %s",
			b.label, strings.Join(path, " -> "))
	}
	b.waits = append(b.waits, label)
	return func() {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		at := slices.Index(b.waits, label)
		b.waits = slices.Delete(b.waits, at, at+1)
	}, nil
}

// path is how the build of a label waits for another label, or nil. It is called with mu held. There is no circle
// yet, so that it ends.
func (rt *Runtime) path(from, to string, way []string) []string {
	way = append(way, from)
	if from == to {
		return way
	}
	for _, b := range rt.building {
		if b.label != from {
			continue
		}
		for _, next := range b.waits {
			if found := rt.path(next, to, way); found != nil {
				return found
			}
		}
	}
	return nil
}
