package runtime

import "github.com/purecuda/purecuda/driver"

// failed makes the error of a call on device. A sticky result ends the use of
// CUDA in this process: the first one is kept as the cause of all later errors.
func (rt *Runtime) failed(op string, r driver.Result, device int) *driver.Error {
	var err *driver.Error
	if r == driver.ErrorSymbolMissing {
		err = driver.MissingSymbol(op, rt.Version())
	} else {
		err = driver.Failed(op, r)
	}
	err.Device = device
	if err.Sticky && rt.lost.CompareAndSwap(nil, err) {
		rt.cfg.logger.Error("CUDA is lost for this process", "error", err)
	}
	return err
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
