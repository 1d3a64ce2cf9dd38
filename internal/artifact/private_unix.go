//go:build unix

package artifact

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// private reports whether a directory belongs to the user and to nobody else.
func private(dir string, info fs.FileInfo) error {
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user", dir)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s is open to others (mode %#o): chmod 700 it", dir, mode)
	}
	return nil
}
