package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/purecuda/purecuda/internal/replace"
)

// patchFile changes a file, or only looks at it, and says what it found. The changed program is a
// new file that takes the name of the old one, so that whoever starts it at that moment finds a
// whole program. What the new file would lose is refused.
func patchFile(path string, check bool) (string, error) {
	outcome, err := tryPatchFile(path, check)
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		err = fmt.Errorf("%s: %w", pathErr.Op, pathErr.Err) // the caller names the file
	}
	return outcome, err
}

func tryPatchFile(path string, check bool) (string, error) {
	old, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe would wait for a writer
	if err != nil {
		return "", err
	}
	defer old.Close()
	info, err := old.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", replace.ErrNotRegular
	}
	p, err := examine(old, info.Size())
	switch {
	case err != nil || p.entry == 0:
		return p.outcome, err
	case check:
		return "", errNotDone
	}
	if err := irreplaceable(old, info); err != nil {
		return "", err
	}
	file, err := replace.Create(path)
	if err != nil {
		return "", err
	}
	if err := p.copy(file, old, info); err != nil {
		file.Abort()
		return "", err
	}
	_ = old.Close() // Windows renames over no file that is open
	return p.outcome, file.Commit()
}

// copy makes file the changed old one, of which info was told when it was examined.
func (p patch) copy(file *replace.File, old *os.File, info os.FileInfo) error {
	if _, err := io.Copy(file, io.NewSectionReader(old, 0, info.Size())); err != nil {
		return err
	}
	if err := p.write(file); err != nil {
		return err
	}
	done, err := file.Stat()
	if err != nil {
		return err
	}
	if again, err := examine(file, done.Size()); err != nil || again.entry != 0 || done.Size() != info.Size() {
		return errors.New("was written to meanwhile; run it again") // what was copied is not what was examined
	}
	if err := keepOwner(file.File, info); err != nil {
		return err
	}
	return file.Chmod(info.Mode()) // a new owner takes the set-user-ID bit away
}
