package driver

import "github.com/purecuda/purecuda/internal/dlhost"

// HasLoader tells whether libraries can be loaded into this process, and if not, why. They
// cannot in a program that was made to start without a loader (docs/deploy.md) and runs
// where there is none. There a call of C ends the program: one that calls purego itself asks
// before. Package driver does so by itself.
func HasLoader() (ok bool, reason string) {
	if dlhost.HasLoader() {
		return true, ""
	}
	return false, dlhost.Current().Reason
}
