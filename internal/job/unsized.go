package job

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
)

// maxUnsized bounds what the files of an input that tell no size have together.
const maxUnsized = 64 << 20

// readUnsized reads and keeps what a file that is 0 bytes long has: nothing, unless it is one of
// /proc, which the kernel writes while it is read.
func (l lister) readUnsized(path string, in *Input) ([]byte, error) {
	f, err := l.open(path)
	if err != nil {
		return nil, fileError(ReadFailed, path, err)
	}
	defer f.Close()
	room := int64(maxUnsized)
	for _, data := range in.unsized {
		room -= int64(len(data))
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, room+1))
	switch {
	case err != nil:
		return nil, fileError(ReadFailed, path, err)
	case int64(len(data)) > room:
		return nil, &Error{Kind: InputUnsupported, Path: path,
			Detail: fmt.Sprintf("tells no size, and such files have more than %d MiB together; copy it to a file first", maxUnsized>>20)}
	case len(data) == 0:
		return nil, nil
	}
	if in.unsized == nil {
		in.unsized = map[string][]byte{}
	}
	in.unsized[path] = data
	return data, nil
}

// Kept is what was kept of file i, or nil for a file that tells its size. The command of cluster reads it.
func (in *Input) Kept(i int) []byte { return in.unsized[in.Name(i)] }

// open opens a file of the input, or what was kept of it.
func (in *Input) open(path string) (content, error) {
	f, err := openContent(path)
	data, kept := in.unsized[path]
	if err != nil || !kept {
		return f, err
	}
	defer f.Close()
	info, err := f.Stat()
	return unsizedFile{bytes.NewReader(data), info}, err
}

// unsizedFile is an open file of which the content is kept.
type unsizedFile struct {
	*bytes.Reader
	info fs.FileInfo
}

func (unsizedFile) Close() error                 { return nil }
func (f unsizedFile) Stat() (fs.FileInfo, error) { return unsizedInfo{f.info, f.Size()}, nil }

type unsizedInfo struct {
	fs.FileInfo
	size int64
}

func (i unsizedInfo) Size() int64 { return i.size }
