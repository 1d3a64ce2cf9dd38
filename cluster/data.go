package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	goruntime "runtime"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/purecuda/purecuda/driver"
)

// Ref names data that a host gets itself.
type Ref struct {
	// URI is "file:ROOT/PATH" for a file below a root of the host ([WithRoot]). Others are a URL below one that the host takes
	// ([WithURL]), and "object:NAME" for what [Cluster.Put] has stored.
	URI string `json:"u"`
	// Offset and Length are the range, in bytes.
	Offset int64 `json:"o,omitempty"`
	Length int64 `json:"n"`
	// Digest is SHA-256 of the range in hexadecimal. If it is empty, the data are not checked and not kept in the cache of a
	// host.
	Digest string `json:"d,omitempty"`
}

// maxRef is how large the data of a reference may be: they are in the memory of the host.
const maxRef = 1 << 30

func (r *Ref) check() error {
	if r.Offset < 0 || r.Length < 0 || r.Length > maxRef || r.Offset+r.Length < 0 { // an offset may be in any large file
		return driver.Errorf(driver.ErrInvalidArgument, "%s: %d bytes from byte %d on: want at most %d", r.URI, r.Length, r.Offset, maxRef)
	}
	if r.Digest != "" {
		if sum, err := hex.DecodeString(r.Digest); err != nil || len(sum) != sha256.Size || strings.ToLower(r.Digest) != r.Digest {
			return driver.Errorf(driver.ErrInvalidArgument, "%s: the digest %.80q is not SHA-256 in hexadecimal", r.URI, r.Digest)
		}
	}
	return nil
}

// verify compares data with the digest.
func (r *Ref) verify(data []byte) error {
	if r.Digest == "" {
		return nil
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != r.Digest {
		return driver.Errorf(ErrMismatch, "%s: %d bytes from byte %d on have the digest %x, not %s", r.URI, r.Length, r.Offset, sum, r.Digest)
	}
	return nil
}

// source is where a host gets data from.
type source struct {
	js    jetstream.JetStream
	names names
	roots map[string]*os.Root
	urls  []*url.URL
	http  *http.Client
	cache *cache
	reads chan struct{} // of files, each with a goroutine
}

const (
	// maxReads is how many files are read at the same time: a mount whose server is away keeps a thread for each until it is back.
	maxReads = 64
	// maxRedirections is how often a URL may lead to another one.
	maxRedirections = 10
)

func newSource(js jetstream.JetStream, c *config) (*source, error) {
	s := &source{js: js, names: names(c.name), roots: map[string]*os.Root{}, reads: make(chan struct{}, maxReads)}
	s.http = &http.Client{CheckRedirect: func(r *http.Request, before []*http.Request) error {
		if len(before) > maxRedirections {
			return driver.Errorf(ErrPermission, "more than %d redirections", maxRedirections)
		}
		if !s.takes(r.URL) {
			return driver.Errorf(ErrPermission, "a redirection to %s, which is below no URL of WithURL", r.URL)
		}
		return nil
	}}
	if err := s.open(c); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *source) open(c *config) (err error) {
	for name, folder := range c.roots {
		if err := checkToken("name of a root", name); err != nil {
			return err
		}
		root, err := os.OpenRoot(folder)
		if err != nil {
			return driver.Errorf(driver.ErrInvalidArgument, "WithRoot(%q): %w", name, err)
		}
		s.roots[name] = root
	}
	for _, text := range c.urls {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !strings.HasSuffix(u.Path, "/") {
			return driver.Errorf(driver.ErrInvalidArgument, "WithURL(%q): want http or https, a host and a path that ends in /", text)
		}
		s.urls = append(s.urls, u)
	}
	if c.cacheMax > 0 {
		s.cache, err = openCache(c.cacheDir, c.cacheMax)
	}
	return err
}

func (s *source) close() {
	for _, r := range s.roots {
		_ = r.Close() // it was opened for reading
	}
	s.http.CloseIdleConnections()
}

// takes tells whether a URL is below one of WithURL.
func (s *source) takes(u *url.URL) bool {
	for _, prefix := range s.urls {
		if u.Scheme == prefix.Scheme && u.Host == prefix.Host && u.User == nil &&
			strings.HasPrefix(path.Clean(u.Path)+"/", path.Clean(prefix.Path)+"/") && !strings.Contains(u.EscapedPath(), "%2e") {
			return true
		}
	}
	return false
}

// fetch gets the data of a reference into memory of its length.
func (s *source) fetch(ctx context.Context, r *Ref, into []byte) error {
	if s.cache != nil && r.Digest != "" && s.cache.get(r, into) {
		return nil
	}
	err := s.read(ctx, r, into)
	if err == nil {
		err = r.verify(into)
	}
	if err == nil && s.cache != nil && r.Digest != "" {
		s.cache.put(r, into)
	}
	if err != nil {
		return fmt.Errorf("getting data of %.200q: %w", r.URI, err)
	}
	return nil
}

func (s *source) read(ctx context.Context, r *Ref, into []byte) error {
	scheme, rest, _ := strings.Cut(r.URI, ":")
	switch scheme {
	case "file":
		name, file, _ := strings.Cut(rest, "/")
		root := s.roots[name]
		if root == nil {
			return driver.Errorf(ErrPermission, "%s: the host has no root %q (WithRoot)", r.URI, name)
		}
		return s.readFile(ctx, into, func() (io.ReadCloser, error) { return openFile(root, file, r) })
	case "http", "https":
		return s.get(ctx, r, into)
	case "object":
		return readObject(ctx, s.js, s.names, rest, r, into)
	}
	return driver.Errorf(driver.ErrInvalidArgument, "%.80q is no reference: want file:, http:, https: or object:", r.URI)
}

// readFile reads what open opens, on a goroutine of its own, and ends with ctx: a mount whose server is away ends no call before it is
// back. That goroutine has a buffer of its own, because into may be of another piece then.
func (s *source) readFile(ctx context.Context, into []byte, open func() (io.ReadCloser, error)) error {
	select {
	case s.reads <- struct{}{}:
	case <-ctx.Done():
		return driver.Errorf(driver.ErrTimeout, "%d other reads of files do not end: %w", maxReads, context.Cause(ctx))
	}
	out, in := io.Pipe()
	go func() {
		defer func() { <-s.reads }()
		f, err := open()
		if err == nil {
			defer f.Close()
			_, err = io.CopyBuffer(in, f, make([]byte, min(len(into), 1<<20)))
		}
		_ = in.CloseWithError(err) // it returns no error
	}()
	defer out.Close()
	defer context.AfterFunc(ctx, func() {
		_ = in.CloseWithError(driver.Errorf(driver.ErrTimeout, "reading a file: %w", context.Cause(ctx)))
	})()
	if n, err := io.ReadFull(out, into); err != nil {
		return fmt.Errorf("%d of %d bytes: %w", n, len(into), err)
	}
	return nil
}

// section is a range of a file.
type section struct {
	*io.SectionReader
	io.Closer
}

// openFile opens a range of a regular file. A FIFO must not wait for somebody who writes.
func openFile(root *os.Root, name string, r *Ref) (io.ReadCloser, error) {
	flags := os.O_RDONLY
	if goruntime.GOOS != "windows" {
		flags |= syscall.O_NONBLOCK
	}
	f, err := root.OpenFile(name, flags, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = driver.Errorf(ErrPermission, "%s is no regular file", r.URI)
	}
	if err != nil {
		_ = f.Close() // it was opened for reading
		return nil, err
	}
	return section{io.NewSectionReader(f, r.Offset, r.Length), f}, nil
}

// get gets a range with HTTP.
func (s *source) get(ctx context.Context, r *Ref, into []byte) error {
	u, err := url.Parse(r.URI)
	if err != nil || !s.takes(u) {
		return driver.Errorf(ErrPermission, "%.200q is below no URL of WithURL", r.URI)
	}
	if len(into) == 0 {
		return nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", r.Offset, r.Offset+r.Length-1))
	response, err := s.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body := io.Reader(response.Body)
	switch response.StatusCode {
	case http.StatusPartialContent:
		var from int64
		text := response.Header.Get("Content-Range")
		if n, _ := fmt.Sscanf(text, "bytes %d-", &from); n != 1 || from != r.Offset {
			return driver.Errorf(ErrMismatch, "%s: the server gave the range %.80q, and byte %d on was asked for", r.URI, text, r.Offset)
		}
	case http.StatusOK: // the whole: the server knows no ranges
		if _, err := io.CopyN(io.Discard, body, r.Offset); err != nil {
			return fmt.Errorf("%s: %w", r.URI, err)
		}
	default:
		return fmt.Errorf("%s: %s", r.URI, response.Status)
	}
	if _, err := io.ReadFull(body, into); err != nil {
		return fmt.Errorf("%s: %w", r.URI, err)
	}
	return nil
}

// Put stores data for the hosts, and returns the reference. Remove them with [Cluster.Drop]; the server drops them after an hour.
func (c *Cluster) Put(ctx context.Context, name string, data []byte) (Ref, error) {
	if err := checkToken("name of an object", name); err != nil {
		return Ref{}, err
	}
	if len(data) > maxRef {
		return Ref{}, driver.Errorf(driver.ErrInvalidArgument, "an object of %d bytes: want at most %d", len(data), maxRef)
	}
	ref, err := putObject(ctx, c.js, c.names, c.id+"."+name, data, c.config)
	if err != nil {
		return Ref{}, classify(c.nc, "storing data", err)
	}
	return *ref, nil
}

// Drop removes what Put has stored. It waits for up to 2 s. A server that needs longer is asked again in the background.
func (c *Cluster) Drop(r Ref) { c.drop(&r) }

// objectStore finds the object store. It asks again until ctx ends: a question that was lost has no answer.
func objectStore(ctx context.Context, js jetstream.JetStream, n names) (jetstream.ObjectStore, error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, foundWithin)
		store, err := js.ObjectStore(attempt, n.bucket())
		late := attempt.Err() != nil
		cancel()
		if err == nil || !late || ctx.Err() != nil {
			return store, err
		}
	}
}

// putObject stores data. With a configuration it makes the store where it is missing.
func putObject(ctx context.Context, js jetstream.JetStream, n names, name string, data []byte, c *config) (*Ref, error) {
	store, err := objectStore(ctx, js, n)
	if errors.Is(err, jetstream.ErrBucketNotFound) && c != nil {
		err = c.onServers(js.Conn(), 1, func(replicas int) (err error) {
			ctx, cancel := context.WithTimeout(ctx, answerWithin)
			defer cancel()
			store, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: n.bucket(), TTL: keepResults, MaxBytes: c.bytes(), Storage: c.storage, Replicas: replicas})
			return err
		})
		if errors.Is(err, jetstream.ErrBucketExists) {
			store, err = objectStore(ctx, js, n)
		}
	}
	if err != nil {
		return nil, err
	}
	// A deadline of the context would be how long each message may take to be acknowledged, also one that was lost on its way. Without one
	// the client waits for 5 s.
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	if _, err := store.Put(own, jetstream.ObjectMeta{Name: name}, bytes.NewReader(data)); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	sum := sha256.Sum256(data)
	return &Ref{URI: "object:" + name, Length: int64(len(data)), Digest: hex.EncodeToString(sum[:])}, nil
}

// readObject reads the range of an object. What is lost on its way comes late or never, so it tries again, and waits longer each time.
func readObject(ctx context.Context, js jetstream.JetStream, n names, name string, r *Ref, into []byte) (err error) {
	for within := answerWithin; within <= 4*answerWithin; within *= 2 {
		attempt, cancel := context.WithTimeout(ctx, within+moveWithin(r.Offset+r.Length))
		err = readOnce(attempt, js, n, name, r, into)
		late := attempt.Err() != nil
		cancel()
		if err == nil || !late || ctx.Err() != nil {
			break
		}
	}
	return err
}

func readOnce(ctx context.Context, js jetstream.JetStream, n names, name string, r *Ref, into []byte) error {
	store, err := objectStore(ctx, js, n)
	if err != nil {
		return err
	}
	object, err := store.Get(ctx, name)
	if err != nil {
		return err
	}
	defer object.Close()
	skipped, err := io.CopyN(io.Discard, object, r.Offset)
	read := 0
	if err == nil {
		read, err = io.ReadFull(object, into)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return driver.Errorf(ErrMismatch, "%s has %d bytes, not %d", r.URI, skipped+int64(read), r.Offset+r.Length)
	}
	return err
}

// getObject gets data of at most so many bytes that did not go with a message.
func getObject(ctx context.Context, js jetstream.JetStream, n names, r *Ref, most int64) ([]byte, error) {
	name, ok := strings.CutPrefix(r.URI, "object:")
	if err := r.check(); err != nil || !ok || r.Offset != 0 || r.Length > most || r.Digest == "" {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "%.80q with %d bytes from byte %d on and digest %.80q is no reference to at most %d bytes of a piece", r.URI, r.Length, r.Offset, r.Digest, most)
	}
	data := make([]byte, r.Length)
	err := readObject(ctx, js, n, name, r, data)
	if err == nil {
		err = r.verify(data)
	}
	return data, err
}

// dropObject removes an object, and tells whether there was no answer in time. Then all of it may be there still, or its bytes without
// their name. What stays is removed by its age.
func dropObject(js jetstream.JetStream, n names, r *Ref) (late bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	store, err := js.ObjectStore(ctx, n.bucket())
	if err == nil {
		err = store.Delete(ctx, strings.TrimPrefix(r.URI, "object:"))
	}
	return err != nil && ctx.Err() != nil
}
