package pool

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
)

// tries of a batch. The first one does all items, and so do the others if the function itself fails. If it
// says of some items that their device fails, the next try does only those: the others have their answers.
type tries[In, Out any] struct {
	in   []In
	out  []Out
	errs []error
	left []int // the items of the next try, or nil for all
}

// do calls f for the items that are left. It returns the error of f, or a device's that f reports for an item.
func (t *tries[In, Out]) do(f func(in []In, out []Out, errs []error) error) error {
	if t.left == nil {
		clear(t.out)
		clear(t.errs)
		if err := f(t.in, t.out, t.errs); err != nil {
			return err
		}
		return t.leave(func(k int) int { return k }, len(t.in))
	}
	items := t.left
	in, out, errs := make([]In, len(items)), make([]Out, len(items)), make([]error, len(items))
	for k, i := range items {
		in[k] = t.in[i]
	}
	err := f(in, out, errs)
	for k, i := range items {
		t.out[i], t.errs[i] = out[k], errs[k]
	}
	if err != nil {
		return err
	}
	return t.leave(func(k int) int { return items[k] }, len(items))
}

// leave leaves the items of a try for the next one that a device has failed, and returns the error of the first one.
func (t *tries[In, Out]) leave(item func(k int) int, n int) (first error) {
	var left []int
	for k := range n {
		i := item(k)
		if t.errs[i] == nil {
			continue
		}
		if t.errs[i] = contain.Sound(t.errs[i]); isDeviceError(t.errs[i]) || driver.UnfitDevice(t.errs[i]) {
			if left = append(left, i); first == nil {
				first = t.errs[i]
			}
		}
	}
	if first != nil {
		t.left = left
	}
	return first
}

// settle gives the items that are left the error of the batch, and returns it if those are all.
func (t *tries[In, Out]) settle(err error) error {
	if err == nil || t.left == nil {
		return err
	}
	for _, i := range t.left {
		if t.errs[i] == nil {
			t.errs[i] = err
		}
	}
	return nil
}
