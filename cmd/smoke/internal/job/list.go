package job

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// ListFile is a [Sink] that writes the digests to a file, one line a chunk:
//
//	digest  path#chunk
//
// with the digest in hexadecimal, the path as in File.Path, and the number of the
// chunk in its file, from 0. The last '#' of a line is the separator. A path with a
// backslash or line end is escaped as sha256sum does it: those are written \\, \n,
// \r, and the line begins with a backslash.
//
// The lines go to a temporary file in the same folder, which takes the name at
// Commit. Until then a file of that name stays as it was, and after Abort there is
// no trace. ListFile is for one goroutine.
type ListFile struct {
	path string
	temp *os.File
	w    *bufio.Writer
	line []byte
}

// CreateList starts a digest list that will be at path. A symbolic link at path is
// kept and its target replaced. A path that exists and is no regular file is
// refused: a rename would replace a device.
func CreateList(path string) (*ListFile, error) {
	mode := fs.FileMode(0o666) // less the process's mask
	existing, err := os.Stat(path)
	switch {
	case err == nil && !existing.Mode().IsRegular():
		return nil, &Error{Kind: InvalidArgument, Path: path, Detail: "is not a regular file; name a file that exists or can be created"}
	case err == nil:
		mode = existing.Mode().Perm()
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, fileError(OutputFailed, path, err)
		}
		path = target
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fileError(OutputFailed, path, err)
	}
	temp, err := createBeside(path, mode)
	if err != nil {
		return nil, fileError(OutputFailed, path, err)
	}
	if existing != nil {
		if err := temp.Chmod(mode); err != nil {
			l := &ListFile{path: path, temp: temp}
			l.Abort()
			return nil, fileError(OutputFailed, path, err)
		}
	}
	return &ListFile{path: path, temp: temp, w: bufio.NewWriterSize(temp, 1<<20)}, nil
}

// createBeside creates a file of a new name in the folder of path. It is not
// os.CreateTemp because that makes the file private, which the list is not.
func createBeside(path string, mode fs.FileMode) (*os.File, error) {
	for try := 0; ; try++ {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d-%d.tmp", filepath.Base(path), os.Getpid(), try))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err == nil || !errors.Is(err, fs.ErrExist) || try == 100 {
			return f, err
		}
	}
}

// Digests writes one line for each digest.
func (l *ListFile) Digests(path string, first int64, digests []Digest) error {
	prefix, name := escapeListName(path)
	for i := range digests {
		line := append(l.line[:0], prefix...)
		line = hex.AppendEncode(line, digests[i][:])
		line = append(line, "  "...)
		line = append(line, name...)
		line = append(line, '#')
		line = strconv.AppendInt(line, first+int64(i), 10)
		line = append(line, '\n')
		l.line = line
		if _, err := l.w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// Commit completes the file and gives it its name. On failure nothing is left.
func (l *ListFile) Commit() error {
	err := l.w.Flush()
	if err == nil {
		err = l.temp.Sync() // or a power cut may leave the name on an empty file
	}
	if closeErr := l.temp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(l.temp.Name(), l.path)
	}
	if err != nil {
		_ = os.Remove(l.temp.Name())
		return fileError(OutputFailed, l.path, err)
	}
	l.temp = nil
	return nil
}

// Abort removes what was written. It does nothing after Commit.
func (l *ListFile) Abort() {
	if l.temp == nil {
		return
	}
	_ = l.temp.Close()
	_ = os.Remove(l.temp.Name())
	l.temp = nil
}

// CheckListPath refuses a digest list inside the input, where the next job would
// hash it and find another root, or in place of the input.
func CheckListPath(in *Input, path string) error {
	list, err := realPath(path)
	if err != nil {
		return fileError(OutputFailed, path, err)
	}
	input, err := filepath.EvalSymlinks(in.Path)
	if err == nil {
		input, err = filepath.Abs(input)
	}
	if err != nil {
		return fileError(ReadFailed, in.Path, err)
	}
	rel, err := filepath.Rel(input, list)
	if err != nil || !filepath.IsLocal(rel) {
		return nil // on another volume, or outside
	}
	if rel == "." {
		return &Error{Kind: InvalidArgument, Path: path, Detail: "the digest list would replace the input; name another file"}
	}
	return &Error{Kind: InvalidArgument, Path: path,
		Detail: fmt.Sprintf("the digest list lies inside the input %s and would change its root; name a file outside", Printable(in.Path))}
}

// realPath is the absolute path of a file that may not exist yet, without links.
func realPath(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		var folder string
		if folder, err = filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			real = filepath.Join(folder, filepath.Base(path))
		}
	}
	if err != nil {
		return "", err
	}
	return filepath.Abs(real)
}
