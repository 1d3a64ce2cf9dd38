//go:build !linux || (!amd64 && !arm64)

package isolate

import (
	"os/exec"
	goruntime "runtime"

	"github.com/purecuda/purecuda/driver"
)

// supported is why there is no isolation on this system, or nil.
func supported() error {
	return driver.Errorf(driver.ErrUnsupported, "child processes for devices are there on Linux (amd64, arm64), not on %s/%s: use package pool",
		goruntime.GOOS, goruntime.GOARCH)
}

type starter struct{}

func newStarter() *starter { return &starter{} }

func (*starter) start(*exec.Cmd) (*link, error) { return nil, supported() }

func (*starter) close() {}

func parentLink() (*link, error) { return nil, supported() }

func (*link) read([]byte) (n, oob int, err error) { return 0, 0, supported() }

func (*link) sendDescriptor([]byte, int) error { return supported() }

func descriptorsIn([]byte) []int { return nil }

func share(int) ([]byte, int, error) { return nil, -1, supported() }

func mapShared(int, int) ([]byte, error) { return nil, supported() }

func unmap([]byte) {}

func closeDescriptor(int) {}
