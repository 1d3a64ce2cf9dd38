package artifact

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// temporaryPrefix begins the names of files that are being written.
const temporaryPrefix = "new-"

// temporaryAge is the age at which such a file belongs to a process that has died.
const temporaryAge = time.Hour

// file is an entry or a temporary file.
type file struct {
	name     string
	size     int64
	modified time.Time
}

// files lists our files; others in the directory are not looked at.
func (c *Cache) files() (entries, temporary []file, err error) {
	dir, err := c.root.Open(".")
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	list, err := dir.ReadDir(-1)
	for _, d := range list {
		isTemporary := strings.HasPrefix(d.Name(), temporaryPrefix)
		if !isTemporary && !isEntry(d.Name()) {
			continue
		}
		info, err := c.root.Lstat(d.Name())
		if err != nil || info.IsDir() {
			continue // another process has just removed it
		}
		f := file{d.Name(), info.Size(), info.ModTime()}
		if isTemporary {
			temporary = append(temporary, f)
		} else {
			entries = append(entries, f)
		}
	}
	return entries, temporary, err
}

// makeRoom is told what was written. At the first entry, and then after each sixteenth of
// the limit, it looks at what is there and removes what exceeds the rest. So one process
// stays below the limit, and each further one that writes at the same time can exceed it
// by a sixteenth.
func (c *Cache) makeRoom(written int64) {
	c.trimming.Lock()
	defer c.trimming.Unlock()
	if c.untrimmed -= written; c.untrimmed >= 0 {
		return
	}
	c.untrimmed = c.limit / 16
	entries, temporary, err := c.files()
	if err != nil {
		c.trouble("the artifact cache is not trimmed", "", err)
		return
	}
	c.removeStale(temporary)
	total := size(entries)
	slices.SortFunc(entries, func(a, b file) int { return cmp.Or(a.modified.Compare(b.modified), cmp.Compare(a.name, b.name)) })
	for _, f := range entries {
		if total <= c.limit-c.limit/16 {
			break
		}
		switch err := c.root.Remove(f.name); {
		case err == nil:
			c.evictions.Add(1)
		case !errors.Is(err, fs.ErrNotExist):
			c.trouble("an artifact is not removed", f.name, err)
			continue
		}
		total -= f.size
	}
}

// removeStale removes what processes that have died left half written.
func (c *Cache) removeStale(temporary []file) {
	for _, f := range temporary {
		if time.Since(f.modified) > temporaryAge {
			_ = c.root.Remove(f.name)
		}
	}
}

func size(files []file) (bytes int64) {
	for _, f := range files {
		bytes += f.size
	}
	return bytes
}

// Size returns how many entries there are, and their bytes on disk. It reads the directory.
func (c *Cache) Size() (entries int, bytes int64, err error) {
	if c.root == nil {
		return 0, 0, nil
	}
	files, _, err := c.files()
	return len(files), size(files), err
}

// Clear removes all entries, and leaves files that are not ours alone. Other processes may
// go on using the cache.
func (c *Cache) Clear() error {
	if c.root == nil {
		return nil
	}
	entries, temporary, err := c.files()
	errs := []error{err}
	c.removeStale(temporary) // and not those that others are writing
	for _, f := range entries {
		if err := c.root.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
