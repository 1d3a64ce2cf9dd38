package runtime

import "github.com/purecuda/purecuda/driver"

// noteError looks for sticky results, which end the use of CUDA in this process: the
// first one is kept as the cause of all later errors.
func (rt *Runtime) noteError(e *driver.Error) {
	if e.Sticky && rt.lost.CompareAndSwap(nil, e) {
		rt.cfg.logger.Error("CUDA is lost for this process", "error", e)
	}
}

// lostError is what calls answer after a sticky error, or nil.
func (rt *Runtime) lostError() error {
	first := rt.lost.Load()
	if first == nil {
		return nil
	}
	return &driver.Error{Kind: driver.ErrDeviceLost, Device: first.Device, Sticky: true,
		Detail: "an earlier error has ended the use of CUDA in this process, and only a new process gets it back",
		Err:    first}
}
