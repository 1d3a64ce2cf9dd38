package job

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// naiveRoot computes the root in the plainest way: whole files, one loop, nothing
// shared with the code under test. It does not follow links.
func naiveRoot(t *testing.T, folder string, chunk, rounds int) (root [32]byte, chunks int64) {
	t.Helper()
	var names []string
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, relErr := filepath.Rel(folder, path)
			names = append(names, filepath.ToSlash(rel))
			return relErr
		}
		return err
	}))
	sort.Strings(names)
	var digests []byte
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		require.NoError(t, err)
		for len(data) > 0 {
			piece := data[:min(chunk, len(data))]
			data = data[len(piece):]
			digest := sha256.Sum256(piece)
			for range rounds {
				digest = sha256.Sum256(digest[:])
			}
			digests = append(digests, digest[:]...)
			chunks++
		}
	}
	return sha256.Sum256(digests), chunks
}

// writeTree creates files from a map of slash-separated paths.
func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, data := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(data), 0o644))
	}
	return folder
}

func mustList(t *testing.T, path string) *Input {
	t.Helper()
	in, err := List(context.Background(), path)
	require.NoError(t, err)
	return in
}

// noLeaks fails the test when goroutines stay behind.
func noLeaks(t *testing.T) {
	t.Helper()
	simulated()
	before := goruntime.NumGoroutine()
	t.Cleanup(func() {
		for range 200 {
			if goruntime.NumGoroutine() <= before {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		stacks := make([]byte, 1<<16)
		t.Errorf("goroutines left behind: %d before, %d now\n%s", before, goruntime.NumGoroutine(), stacks[:goruntime.Stack(stacks, true)])
	})
}

// simulated is the runtime of all fake engines, with 4 devices.
var simulated = sync.OnceValue(func() *runtime.Runtime {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(drivertest.New(drivertest.Config{Devices: drivertest.Devices(4, drivertest.T4())})),
		runtime.WithPinned(arena.PinnedConfig{Limit: MemoryBudget}))
	if err != nil {
		panic(err)
	}
	return rt
})

// fakeEngine has workers on simulated devices, and hashes on the CPU. It counts what it hands out.
type fakeEngine struct {
	devices, workers, batch int
	newWorker               func(n int64) error
	hash                    func(ctx context.Context, place int, digests []Digest) error // after hashing
	closeErr                error
	busy                    Busy
	rehasher                *fakeRehasher
	worker                  *pool.State[fakeWorker] // of the pool of Open

	opened, closed, hashes, bytes atomic.Int64
}

func (e *fakeEngine) Name() string           { return "fake" }
func (e *fakeEngine) Busy(int) time.Duration { return e.busy.Total() }
func (e *fakeEngine) Close() error           { return nil }
func (e *fakeEngine) Sharer() Sharer         { return nil }

func (e *fakeEngine) Places() (places []Place) {
	for i := range max(e.devices, 1) {
		places = append(places, Place{Name: fmt.Sprint("fake ", i), Workers: max(e.workers, 1), BatchBytes: max(e.batch, 1)})
	}
	return places
}

func (e *fakeEngine) Open(devices, workers int, shape Shape, _ bool) (*pool.Pool, error) {
	e.bytes.Add(int64(devices * workers * shape.Bytes))
	e.worker = pool.PerStream(func(*pool.Worker) (fakeWorker, error) {
		n := e.opened.Add(1)
		if e.newWorker != nil {
			if err := e.newWorker(n); err != nil {
				e.opened.Add(-1)
				return fakeWorker{}, err
			}
		}
		return fakeWorker{e}, nil
	})
	return pool.Open(simulated(), pool.Options{Devices: []int{0, 1, 2, 3}[:devices], Streams: workers, Setup: []pool.Setup{e.worker}})
}

type fakeWorker struct{ *fakeEngine }

func (w fakeWorker) Close() error {
	w.closed.Add(1)
	return w.closeErr
}

func (e *fakeEngine) Hash(w *pool.Worker, b *Batch) error {
	e.hashes.Add(1)
	began := time.Since(epoch)
	defer func() { e.busy.Add(began, time.Since(epoch)) }()
	if e.worker.Of(w).fakeEngine != e || len(b.Data) != b.Host.Len() || &b.Data[0] != &b.Host.Data()[0] {
		return errors.New("not the memory that was read to")
	}
	if err := b.HashOnCPU(w.CallContext()); err != nil || e.hash == nil {
		return err
	}
	return e.hash(w.CallContext(), w.Index(), b.Digests)
}

// fakeRehasher does rounds on the CPU.
type fakeRehasher struct {
	enough int
	skip   bool                                              // the rounds
	rehash func(ctx context.Context, digests []Digest) error // after them
	most   atomic.Int32                                      // batches of a device at a time
	active [4]atomic.Int32                                   // by device
}

func (r *fakeRehasher) Enough() int { return r.enough }

func (r *fakeRehasher) Rehash(w *pool.Worker, digests []Digest, rounds uint32) error {
	active := &r.active[w.Index()]
	r.most.Store(max(r.most.Load(), active.Add(1)))
	defer active.Add(-1)
	if !r.skip {
		for i := range digests {
			digests[i], _ = hashAgain(w.CallContext(), digests[i], rounds)
		}
	}
	if r.rehash == nil {
		return nil
	}
	return r.rehash(w.CallContext(), digests)
}

func (e *fakeEngine) Rehasher() Rehasher {
	if e.rehasher == nil {
		return nil
	}
	return e.rehasher
}

// countingOpen opens files and counts them.
type countingOpen struct {
	open, most, total atomic.Int64
	wrap              func(path string, f content) content
}

func (c *countingOpen) fn(path string) (content, error) {
	f, err := openContent(path)
	if err != nil {
		return nil, err
	}
	c.total.Add(1)
	now := c.open.Add(1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	if c.wrap != nil {
		f = c.wrap(path, f)
	}
	return &countedContent{content: f, c: c}, nil
}

type countedContent struct {
	content
	c *countingOpen
}

func (f *countedContent) Close() error {
	f.c.open.Add(-1)
	return f.content.Close()
}

// beforeRead calls a function before every read.
type beforeRead struct {
	content
	call func(off int64) error
}

func (f beforeRead) ReadAt(p []byte, off int64) (int, error) {
	if err := f.call(off); err != nil {
		return 0, err
	}
	return f.content.ReadAt(p, off)
}

// sinkLines collects digests as lines.
type sinkLines struct {
	strings.Builder
	err error
}

func (s *sinkLines) Digests(path string, first int64, digests []Digest) error {
	if s.err != nil {
		return s.err
	}
	for i := range digests {
		fmt.Fprintf(s, "%x  %s#%d\n", digests[i], path, first+int64(i))
	}
	return nil
}
