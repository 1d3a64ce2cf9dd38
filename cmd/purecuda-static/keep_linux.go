package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// irreplaceable refuses a file of which a new one would not be the same to others.
func irreplaceable(old *os.File, info os.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		return fmt.Errorf("has %d names (hard links), and would change under one of them only: copy it first", stat.Nlink)
	}
	var names [64 << 10]byte // the most that Linux lists
	n, err := syscall.Listxattr("/proc/self/fd/"+fmt.Sprint(old.Fd()), names[:])
	if err != nil {
		return nil // no file system with attributes, or no /proc
	}
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if name != "" && name != "security.selinux" { // a new file gets that one by its folder
			return fmt.Errorf("has the extended attribute %s, which the changed file would lose: set it afterwards", name)
		}
	}
	return nil
}

// keepOwner gives a new file the owner and the group of the old one.
func keepOwner(file *os.File, old os.FileInfo) error {
	now, err := file.Stat()
	if err != nil {
		return err
	}
	is, okIs := now.Sys().(*syscall.Stat_t)
	was, okWas := old.Sys().(*syscall.Stat_t)
	if !okIs || !okWas || is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	err = file.Chown(int(was.Uid), int(was.Gid))
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("belongs to uid %d, gid %d, which only they or root can keep: run it as they, or copy the file first", was.Uid, was.Gid)
	}
	return err
}
