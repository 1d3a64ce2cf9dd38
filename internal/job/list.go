package job

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/purecuda/purecuda/internal/cleantext"
	"github.com/purecuda/purecuda/internal/replace"
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
// no trace. Where they go to a stream instead, each line is there as it comes. ListFile is
// for one goroutine.
type ListFile struct {
	path string
	temp *replace.File // nil: a stream, or done
	w    *bufio.Writer
	name func(string) string // how a path is written; nil: as it is
	line []byte
}

// CreateList starts a digest list that will be at path. A symbolic link at path is
// kept and its target replaced, or created where the link leads to nothing. A path that
// exists and is no regular file is refused: a rename would replace a device.
func CreateList(path string) (*ListFile, error) {
	temp, err := replace.Create(path)
	if errors.Is(err, replace.ErrNotRegular) {
		return nil, &Error{Kind: InvalidArgument, Path: path, Detail: "is not a regular file; name a file that exists or can be created"}
	}
	if err != nil {
		return nil, fileError(OutputFailed, path, err)
	}
	return &ListFile{path: path, temp: temp, w: bufio.NewWriterSize(temp, 1<<20)}, nil
}

// StreamList is a digest list that goes to out, which errors call name. On a terminal, paths
// are cleaned for it.
func StreamList(out io.Writer, name string, terminal bool) *ListFile {
	l := &ListFile{path: name, w: bufio.NewWriterSize(out, 64<<10)}
	if terminal {
		l.name = cleantext.String
	}
	return l
}

// Digests writes one line for each digest.
func (l *ListFile) Digests(path string, first int64, digests []Digest) error {
	prefix, name := escapeListName(path)
	if l.name != nil {
		name = l.name(name)
	}
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

// Commit completes the list and gives a file its name. On failure nothing is left of a file.
func (l *ListFile) Commit() error {
	err := l.w.Flush()
	if temp := l.temp; temp != nil {
		l.temp = nil
		if err != nil {
			temp.Abort()
		} else {
			err = temp.Commit()
		}
	}
	if err != nil {
		return fileError(OutputFailed, l.path, err)
	}
	return nil
}

// Abort removes what was written to a file. It does nothing after Commit.
func (l *ListFile) Abort() {
	if l.temp != nil {
		l.temp.Abort()
		l.temp = nil
	}
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
