// Package replace writes a file anew: what is written goes to another file of the same folder,
// which takes the name when it is complete. Readers see the old file or the new one.
package replace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNotRegular is the error for a path at which there is something other than a regular file.
var ErrNotRegular = errors.New("is not a regular file")

// File is a file that is not complete yet. It is for one goroutine.
type File struct {
	*os.File
	path string // what it becomes
}

// Create starts a file that will be at path. A symbolic link at path stays, and what it leads to
// is replaced, or created where it leads to nothing. The permissions of the old file are kept;
// those of a file that was not there are the usual ones.
func Create(path string) (*File, error) {
	path, err := follow(path)
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o666) // less the process's mask
	old, err := os.Lstat(path)
	switch {
	case err == nil && !old.Mode().IsRegular():
		return nil, ErrNotRegular
	case err == nil:
		mode = old.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	f := &File{path: path}
	for try := 0; ; try++ { // os.CreateTemp would make it private
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%.100s.%d-%d.tmp", filepath.Base(path), os.Getpid(), try))
		f.File, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if err == nil || !errors.Is(err, fs.ErrExist) || try == 100 {
			break
		}
	}
	if err == nil && old != nil {
		if err = f.Chmod(mode); err != nil {
			f.Abort()
		}
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// follow returns what path leads to, which need not exist.
func follow(path string) (string, error) {
	const most = 40 // as in Linux
	for range most {
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil // no link; whoever opens it hears of anything else
		}
		if !filepath.IsAbs(target) {
			// The folder may be a link itself, and ".." is the parent of what it leads to.
			folder, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return "", err
			}
			target = filepath.Join(folder, target)
		}
		path = target
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("too many symbolic links")}
}

// Commit completes the file and gives it its name. On failure nothing is left.
func (f *File) Commit() error {
	err := f.Sync() // or a power cut may leave the name on an empty file
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Abort removes what was written.
func (f *File) Abort() {
	_ = f.Close()
	_ = os.Remove(f.Name())
}
