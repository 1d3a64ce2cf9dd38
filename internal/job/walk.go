package job

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// File is one regular file of the input.
type File struct {
	// Path is relative to the input folder and slash-separated; for an input that
	// is one file it is the file's name.
	Path string
	Size int64 // in bytes, when it was listed
}

// Skip is something in the input folder that has no content to hash.
type Skip struct {
	Path   string `json:"path"`   // relative and slash-separated
	Reason string `json:"reason"` // such as "socket"
}

// MaxSkips is how many skipped entries are kept by name; all are counted.
const MaxSkips = 100

// Input is what a job reads: a list of files in the order in which they are hashed.
// It takes memory for each file (its name and 24 bytes), none for their content.
type Input struct {
	Path    string // as given to List
	Files   []File
	Bytes   int64  // sum of the sizes
	Skipped []Skip // at most MaxSkips of them, in order
	Skips   int64  // how many were skipped

	folder  string            // Files[i].Path is relative to this
	unsized map[string][]byte // the content of files that tell no size, by name
}

// List finds the regular files at path, a file or a folder.
//
// The files of a folder are in byte order of their whole slash-separated relative
// path, the order of `find -L . -type f | LC_ALL=C sort`. Note that this is not the
// order of a walk folder by folder: "a.txt" comes before "a/b", since '.' < '/'.
//
// Symbolic links are followed, like find -L does, also out of the folder. A link
// that leads to a folder above it is a DirectoryLoop error that names both. Devices,
// sockets, named pipes and links to nothing have no content: they are skipped and
// listed with their reason. What exists but cannot be read is an error, because a
// root over the remaining files would be the root of something else.
//
// A file of 0 bytes is read, because files of /proc have content all the same. It is kept in memory.
//
// Errors: InputMissing, InputUnsupported, InputEmpty, DirectoryLoop, ReadFailed,
// Canceled.
func List(ctx context.Context, path string) (*Input, error) {
	return osLister.list(ctx, path)
}

// lister is the part of the file system that listing needs; tests replace it.
type lister struct {
	stat    func(string) (fs.FileInfo, error)
	readDir func(string) ([]fs.DirEntry, error)
	open    func(string) (content, error)
}

var osLister = lister{stat: os.Stat, readDir: os.ReadDir, open: openContent}

func (l lister) list(ctx context.Context, path string) (*Input, error) {
	info, err := l.stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Error{Kind: InputMissing, Path: path, Detail: "no such file or folder"}
	case isLinkLoop(err):
		return nil, &Error{Kind: DirectoryLoop, Path: path, Detail: "the symbolic link leads back to itself"}
	case err != nil:
		return nil, fileError(ReadFailed, path, err)
	}

	in := &Input{Path: path}
	switch {
	case info.Mode().IsRegular():
		in.folder = filepath.Dir(path)
		if err := l.add(in, path, filepath.Base(path), info); err != nil {
			return nil, err
		}
	case info.IsDir():
		in.folder = path
		w := walk{lister: l, ctx: ctx, in: in}
		if err := w.dir(path, "", info); err != nil {
			return nil, err
		}
		slices.SortFunc(in.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
		slices.SortFunc(in.Skipped, func(a, b Skip) int { return strings.Compare(a.Path, b.Path) })
	default:
		return nil, &Error{Kind: InputUnsupported, Path: path,
			Detail: fmt.Sprintf("is a %s; the input must be a regular file or a folder", typeName(info.Mode()))}
	}

	for _, f := range in.Files {
		if f.Size > math.MaxInt64-in.Bytes {
			return nil, &Error{Kind: InvalidArgument, Path: path, Detail: "the sizes of the files add up to more than 2^63-1 bytes"}
		}
		in.Bytes += f.Size
	}
	if in.Bytes == 0 {
		return nil, &Error{Kind: InputEmpty, Path: path, Detail: in.emptyDetail(info.IsDir())}
	}
	return in, nil
}

// add appends the regular file at path, whose path in the input is rel.
func (l lister) add(in *Input, path, rel string, info fs.FileInfo) error {
	size := info.Size()
	if size == 0 {
		data, err := l.readUnsized(path, in)
		if err != nil {
			return err
		}
		size = int64(len(data))
	}
	in.Files = append(in.Files, File{Path: rel, Size: size})
	return nil
}

// Name is the path under which file i can be opened.
func (in *Input) Name(i int) string {
	return filepath.Join(in.folder, filepath.FromSlash(in.Files[i].Path))
}

func (in *Input) emptyDetail(folder bool) string {
	if !folder {
		return "the file has no single byte to hash"
	}
	return fmt.Sprintf("the folder has no single byte to hash (files: %d, skipped: %d)", len(in.Files), in.Skips)
}

type walk struct {
	lister
	ctx   context.Context
	in    *Input
	above []ancestor // the folders from the input down to the current one
}

type ancestor struct {
	path string
	info fs.FileInfo
}

// dir lists the folder at path, whose path relative to the input is rel.
func (w *walk) dir(path, rel string, info fs.FileInfo) error {
	if w.ctx.Err() != nil {
		return canceled(w.ctx)
	}
	for _, a := range w.above {
		if os.SameFile(a.info, info) {
			return &Error{Kind: DirectoryLoop, Path: path,
				Detail: fmt.Sprintf("leads back to the folder %s above it; remove the link or choose another --input", Printable(a.path))}
		}
	}
	entries, err := w.readDir(path)
	if err != nil {
		return fileError(ReadFailed, path, err)
	}
	w.above = append(w.above, ancestor{path, info})
	defer func() { w.above = w.above[:len(w.above)-1] }()

	for _, entry := range entries {
		childPath := filepath.Join(path, entry.Name())
		childRel := entry.Name()
		if rel != "" {
			childRel = rel + "/" + entry.Name()
		}
		if err := w.entry(childPath, childRel, entry); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(path, rel string, entry fs.DirEntry) error {
	link := entry.Type()&fs.ModeSymlink != 0
	info, err := w.stat(path)
	switch {
	case err == nil:
	case link && errors.Is(err, fs.ErrNotExist):
		w.skip(rel, "symbolic link to nothing")
		return nil
	case isLinkLoop(err):
		return &Error{Kind: DirectoryLoop, Path: path, Detail: "the symbolic link leads back to itself; remove it or choose another --input"}
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Kind: FileChanged, Path: path, Detail: "disappeared while the folder was listed"}
	default:
		return fileError(ReadFailed, path, err)
	}

	switch mode := info.Mode(); {
	case mode.IsDir():
		return w.dir(path, rel, info)
	case mode.IsRegular():
		return w.add(w.in, path, rel, info)
	default:
		w.skip(rel, typeName(mode))
	}
	return nil
}

func (w *walk) skip(rel, reason string) {
	w.in.Skips++
	if len(w.in.Skipped) < MaxSkips {
		w.in.Skipped = append(w.in.Skipped, Skip{Path: rel, Reason: reason})
	}
}

// isLinkLoop says whether following symbolic links went round in a circle.
func isLinkLoop(err error) bool { return errors.Is(err, syscall.ELOOP) }

func typeName(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	default:
		return "special file"
	}
}
