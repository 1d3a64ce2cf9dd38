//go:build unix

package doctor

import (
	"fmt"
	"io/fs"
	"syscall"
)

func owner(info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Mode().String()
	}
	return fmt.Sprintf("uid %d, gid %d, mode %v", s.Uid, s.Gid, info.Mode())
}
