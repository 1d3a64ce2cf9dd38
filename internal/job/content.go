package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// content is an open file of the input. Tests replace it.
type content interface {
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

func openContent(path string) (content, error) { return os.Open(path) }

// readStep bounds how much is read before the context is asked again.
const readStep = 8 << 20

// openListed opens the file that was listed at path with the given size.
func openListed(open func(string) (content, error), path string, size int64) (content, time.Time, error) {
	f, err := open(path)
	if err != nil {
		return nil, time.Time{}, fileError(ReadFailed, path, err)
	}
	info, err := f.Stat()
	if err == nil && info.Size() == size && info.Mode().IsRegular() {
		return f, info.ModTime(), nil
	}
	_ = f.Close() // opened for reading only, nothing is lost
	if err != nil {
		return nil, time.Time{}, fileError(ReadFailed, path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, time.Time{}, &Error{Kind: FileChanged, Path: path, Detail: "was a regular file when it was listed, is a " + typeName(info.Mode())}
	}
	return nil, time.Time{}, sizeChanged(path, size, info.Size())
}

// closeListed closes f and says whether it changed since openListed. It sees a
// change of size or modification time, as finely as the file system records that.
func closeListed(f content, path string, size int64, opened time.Time) error {
	info, err := f.Stat()
	_ = f.Close() // opened for reading only, nothing is lost
	switch {
	case err != nil:
		return fileError(ReadFailed, path, err)
	case info.Size() != size:
		return sizeChanged(path, size, info.Size())
	case !info.ModTime().Equal(opened):
		return &Error{Kind: FileChanged, Path: path, Detail: "was written to while it was read"}
	}
	return nil
}

func sizeChanged(path string, listed, now int64) error {
	return &Error{Kind: FileChanged, Path: path, Detail: fmt.Sprintf("had %d bytes when it was listed, now has %d", listed, now)}
}

// readFull fills dst from byte off on.
func readFull(ctx context.Context, f content, path string, dst []byte, off int64) error {
	for len(dst) > 0 {
		if ctx.Err() != nil {
			return canceled(ctx)
		}
		step := dst[:min(len(dst), readStep)]
		n, err := f.ReadAt(step, off)
		if n < len(step) {
			if errors.Is(err, io.EOF) {
				return &Error{Kind: FileChanged, Path: path, Detail: fmt.Sprintf("ends at byte %d now, was longer when it was listed", off+int64(n))}
			}
			return fileError(ReadFailed, path, err)
		}
		dst, off = dst[n:], off+int64(n)
	}
	return nil
}

// sharedFile is a file that several spans read, perhaps at the same time. It is
// opened for the first of them and closed after the last, so that the number of
// open files is bounded by the number of batches in flight.
type sharedFile struct {
	path string
	size int64
	open func(string) (content, error)

	mu      sync.Mutex
	f       content // nil before the first use and after the last
	opened  time.Time
	pending int  // spans planned and not yet read
	last    bool // no more spans will be planned
}

// retain counts one more span; last says that it is the last one of the file.
func (s *sharedFile) retain(last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending++
	s.last = last
}

// acquire opens the file or returns it open. The file stays open until every span
// was released.
func (s *sharedFile) acquire() (content, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		f, opened, err := openListed(s.open, s.path, s.size)
		if err != nil {
			return nil, err
		}
		s.f, s.opened = f, opened
	}
	return s.f, nil
}

// release ends the use by one span and, after the last one, closes the file and
// says whether it changed in the meantime.
func (s *sharedFile) release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending--
	if s.pending > 0 || !s.last || s.f == nil {
		return nil
	}
	f := s.f
	s.f = nil
	return closeListed(f, s.path, s.size, s.opened)
}

func (s *sharedFile) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last && s.pending == 0
}

// abandon closes the file without looking at it.
func (s *sharedFile) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f != nil {
		_ = s.f.Close()
		s.f = nil
	}
}
