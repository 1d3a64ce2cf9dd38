package artifact

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Cache is the cache on disk. It is safe for concurrent use, by several processes too.
type Cache struct {
	dir   string
	root  *os.Root // nil when the cache is off
	limit int64
	log   *slog.Logger

	hits, misses, errors, evictions atomic.Uint64
	bytesRead, bytesWritten         atomic.Uint64
	failing                         atomic.Uintptr // 0, or one more than the number of the error that the last write had

	trimming sync.Mutex
	// untrimmed is how many bytes may be written before sizes are looked at again.
	// Negative at first: what is there at the start is unknown.
	untrimmed int64
}

// Stats counts what has happened since the cache was opened.
type Stats struct {
	Hits, Misses            uint64
	BytesRead, BytesWritten uint64 // content, without headers
	Evictions               uint64 // entries that were removed to make room
	Errors                  uint64 // entries that were damaged, and files that could not be read or written
}

// touchAfter is the age of an entry at which reading it makes it young again. A younger
// one is left alone, so that a hit writes nothing as a rule.
const touchAfter = time.Hour

// Open opens the cache, and makes its directory if need be. A cache that cannot be used is
// off, and the log says why. It blocks on the file system. The directory stays open as
// long as the cache is in use.
func Open(config Config) *Cache {
	c := &Cache{limit: config.Limit, log: config.Logger, untrimmed: -1}
	if c.limit <= 0 {
		c.limit = DefaultLimit
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	dir, err := config.folder()
	if err == nil && dir != "" {
		c.dir = dir
		c.root, err = openPrivate(dir)
	}
	if err != nil {
		c.trouble("the artifact cache is not used", "", err)
	}
	return c
}

// Dir is the directory of the entries, or "" when the cache is off.
func (c *Cache) Dir() string {
	if c.root == nil {
		return ""
	}
	return c.dir
}

// Limit is the size in bytes that the cache is kept below.
func (c *Cache) Limit() int64 { return c.limit }

// Get returns the content of an entry, which the caller owns. It blocks on the file
// system: a hit of 100 KB takes about 0.1 ms.
func (c *Cache) Get(key Key) (content []byte, ok bool) {
	if c.root == nil {
		return nil, false
	}
	content, err := c.read(key)
	if err != nil {
		c.misses.Add(1)
		if !errors.Is(err, fs.ErrNotExist) {
			c.trouble("an artifact is not used", key.file(), err)
		}
		return nil, false
	}
	c.hits.Add(1)
	c.bytesRead.Add(uint64(len(content)))
	return content, true
}

func (c *Cache) read(key Key) ([]byte, error) {
	name := key.file()
	info, err := c.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would block
		return nil, errors.New("not a regular file")
	}
	if info.Size() > c.largest()+int64(headerSize) {
		return nil, fmt.Errorf("%d bytes are more than an entry may have", info.Size())
	}
	f, err := c.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	file := make([]byte, info.Size())
	if _, err := io.ReadFull(f, file); err != nil {
		return nil, err
	}
	content, err := decode(key, file)
	if err != nil {
		// It takes room and would be in the way for ever if it cannot be replaced.
		_ = c.root.Remove(name)
		return nil, err
	}
	if now := time.Now(); now.Sub(info.ModTime()) > touchAfter {
		_ = c.root.Chtimes(name, now, now) // else it is evicted a little early
	}
	return content, nil
}

// largest is the size in bytes of the largest content that is kept.
func (c *Cache) largest() int64 { return c.limit / 4 }

// Put keeps a content. It blocks on the file system, and now and then removes old entries.
func (c *Cache) Put(key Key, content []byte) {
	if c.root == nil {
		return
	}
	if int64(len(content)) > c.largest() {
		c.trouble("an artifact is too large for the cache", key.file(), fmt.Errorf("%d bytes, at most %d", len(content), c.largest()))
		return
	}
	if err := c.write(key, content); err != nil {
		var number syscall.Errno
		_ = errors.As(err, &number)
		if c.failing.Swap(uintptr(number)+1) == uintptr(number)+1 { // a full disk is said once, until something was written
			c.errors.Add(1)
			return
		}
		c.trouble("an artifact is not kept", key.file(), err)
		return
	}
	c.failing.Store(0)
	c.bytesWritten.Add(uint64(len(content)))
	c.makeRoom(int64(headerSize + len(content)))
}

func (c *Cache) write(key Key, content []byte) (err error) {
	name := temporaryPrefix + rand.Text()
	f, err := c.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(encode(key, content))
	if err == nil {
		_, err = f.Write(content)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = c.root.Rename(name, key.file())
	}
	if err != nil {
		_ = c.root.Remove(name)
	}
	return err
}

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	return Stats{
		Hits: c.hits.Load(), Misses: c.misses.Load(),
		BytesRead: c.bytesRead.Load(), BytesWritten: c.bytesWritten.Load(),
		Evictions: c.evictions.Load(), Errors: c.errors.Load(),
	}
}

// trouble counts and logs what the caller is not told.
func (c *Cache) trouble(what, file string, err error) {
	c.errors.Add(1)
	attributes := []any{"dir", c.dir, "error", err}
	if file != "" {
		attributes = append(attributes, "file", file)
	}
	c.log.Warn("purecuda: "+what, attributes...)
}
