package cluster

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/purecuda/purecuda/driver"
)

// cache keeps data on disk by their digest. A file is there as a whole or not at all, and is compared with its digest
// when it is read. A disk that fails costs time only.
type cache struct {
	folder string
	max    int64

	mu    sync.Mutex
	files map[string]*cached
	bytes int64
}

type cached struct {
	bytes int64
	used  time.Time
}

func openCache(folder string, max int64) (*cache, error) {
	c := &cache{folder: folder, max: max, files: map[string]*cached{}}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "WithCache(%q): %w", folder, err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "WithCache(%q): %w", folder, err)
	}
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
		case len(e.Name()) == 64:
			c.files[e.Name()] = &cached{info.Size(), info.ModTime()}
			c.bytes += info.Size()
		case filepath.Ext(e.Name()) == ".part": // of a process that was killed
			_ = os.Remove(filepath.Join(folder, e.Name()))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trim()
	return c, nil
}

// get reads the data of a reference, if they are there.
func (c *cache) get(r *Ref, into []byte) bool {
	c.mu.Lock()
	e := c.files[r.Digest]
	if e != nil {
		e.used = time.Now()
	}
	c.mu.Unlock()
	if e == nil || e.bytes != r.Length {
		return false
	}
	f, err := os.Open(filepath.Join(c.folder, r.Digest))
	if err != nil {
		return false
	}
	defer f.Close()
	if n, _ := f.ReadAt(into, 0); n < len(into) || r.verify(into) != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.remove(r.Digest)
		return false
	}
	return true
}

// put keeps data.
func (c *cache) put(r *Ref, data []byte) {
	if int64(len(data)) > c.max {
		return
	}
	f, err := os.CreateTemp(c.folder, "*.part")
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(c.folder, r.Digest))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return
	}
	if old := c.files[r.Digest]; old != nil {
		c.bytes -= old.bytes
	}
	c.files[r.Digest] = &cached{int64(len(data)), time.Now()}
	c.bytes += int64(len(data))
	c.trim()
}

// trim removes what was used least recently until the rest is within the limit. c.mu is held.
func (c *cache) trim() {
	if c.bytes <= c.max {
		return
	}
	names := make([]string, 0, len(c.files))
	for name := range c.files {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(c.files[a].used.UnixNano(), c.files[b].used.UnixNano()) })
	for _, name := range names {
		if c.bytes <= c.max*9/10 {
			return
		}
		c.remove(name)
	}
}

func (c *cache) remove(name string) {
	if e := c.files[name]; e != nil {
		c.bytes -= e.bytes
		delete(c.files, name)
		_ = os.Remove(filepath.Join(c.folder, name)) // a file that stays is counted again by the next process
	}
}
