package dl

import "github.com/purecuda/purecuda/internal/dlhost"

// loaderless is the error of a process that was started without a loader. It counts as
// a library that is not there.
type loaderless struct{ reason string }

func (e *loaderless) Error() string {
	return "this process runs without a dynamic loader: " + e.reason
}

// Is makes the error one of absence.
func (e *loaderless) Is(target error) bool { return target == ErrNotFound }

// noLoader is why this process cannot open any library, or nil. A word in PURECUDA_LOADER that there is not is no absence:
// whoever set it meant something. A program that
// purecuda-static has treated starts without a loader where it finds no use for one. To
// ask for a library there would end the process, so everything that calls C asks this
// first; what has a [Library] has been through it.
func noLoader() error {
	if err := dlhost.Check(); err != nil {
		return err
	}
	if dlhost.HasLoader() {
		return nil
	}
	return &loaderless{dlhost.Current().Reason}
}
