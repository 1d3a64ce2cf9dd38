package job

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/seeds"
)

var errInjected = errors.New("injected")

func TestRunKnownAnswer(t *testing.T) {
	// printf abc | sha256sum, and the digest's bytes through sha256sum again.
	folder := writeTree(t, map[string]string{"f": "abc"})
	result, err := Run(context.Background(), mustList(t, folder), NewCPU(1), Options{ChunkBytes: 4096})
	require.NoError(t, err)
	assert.Equal(t, "4f8b42c22dd3729b519ba6f68d2da7cc5b2d606d05daed5ad5128cc03e6c6358", hex.EncodeToString(result.Root[:]))
}

func TestRunSizesAroundAChunk(t *testing.T) {
	for _, size := range []int{1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 640, 1000} {
		for _, chunk := range []int{1, 7, 16, 64, 100, 1000, 4096} {
			folder := writeTree(t, map[string]string{"a/empty": "", "f": strings.Repeat("x", size), "z": "tail"})
			want, chunks := naiveRoot(t, folder, chunk, 0)
			result, err := Run(context.Background(), mustList(t, folder), NewCPU(2), Options{ChunkBytes: chunk, BatchBytes: 128})
			require.NoError(t, err)
			require.Equal(t, want, result.Root, "size %d, chunk %d", size, chunk)
			require.Equal(t, chunks, result.Chunks)
			require.Equal(t, chunks, result.Verified)
			require.EqualValues(t, size+4, result.Bytes)
		}
	}
}

// The root depends on nothing but content, chunk size and rounds.
func TestRunProperty(t *testing.T) {
	noLeaks(t)
	seeds.Each(t, 40, func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(1, seed))
		files := map[string]string{}
		for range 1 + random.IntN(40) {
			name := fmt.Sprintf("%c/%c %d", 'a'+rune(random.IntN(3)), 'a'+rune(random.IntN(26)), random.IntN(100))
			data := make([]byte, random.IntN(1<<random.IntN(17)))
			for i := range data {
				data[i] = byte(random.Uint32())
			}
			files[name] = string(data)
		}
		files["one"] = "1"
		folder := writeTree(t, files)
		chunk := 1 + random.IntN(1<<(1+random.IntN(16)))
		if random.IntN(2) == 0 {
			chunk = 1 << (6 + random.IntN(11))
		}
		opt := Options{
			ChunkBytes: chunk,
			Rounds:     uint32(random.IntN(3)),
			Workers:    1 + random.IntN(8),
			BatchBytes: 1 << random.IntN(20),
		}
		var opens countingOpen
		opt.open = opens.fn
		var lines sinkLines
		opt.Sink = &lines
		var progress int64
		opt.Progress = func(_, n int64) { progress += n }

		want, chunks := naiveRoot(t, folder, chunk, int(opt.Rounds))
		in := mustList(t, folder)
		engine := NewCPU(1)
		if random.IntN(2) == 0 {
			fake := &fakeEngine{devices: 1 + random.IntN(4)}
			if random.IntN(2) == 0 {
				fake.rehasher = &fakeRehasher{enough: 1 << random.IntN(12)}
			}
			engine = fake
		}
		result, err := Run(context.Background(), in, engine, opt)
		require.NoError(t, err)
		require.Equal(t, want, result.Root, "%+v", opt)
		require.Equal(t, chunks, result.Chunks)
		require.Equal(t, chunks, in.Chunks(chunk))
		require.Equal(t, in.Bytes, progress)
		require.EqualValues(t, chunks, strings.Count(lines.String(), "\n"))
		require.Zero(t, opens.open.Load(), "files left open")
		require.LessOrEqual(t, opens.total.Load(), int64(len(in.Files)), "a file was opened twice")
	})
}

func TestRunSinkGetsEveryChunkInOrder(t *testing.T) {
	folder := writeTree(t, map[string]string{"b": strings.Repeat("x", 1<<20), "a": "y", "c": ""})
	var lines sinkLines
	// Later batches finish first: the order must come from the collector.
	var calls atomic.Int64
	engine := &fakeEngine{workers: 4, hash: func(context.Context, int, []Digest) error {
		time.Sleep(time.Duration(5-calls.Add(1)) * time.Millisecond)
		return nil
	}}
	_, err := Run(context.Background(), mustList(t, folder), engine, Options{ChunkBytes: 1 << 17, BatchBytes: 1, Sink: &lines})
	require.NoError(t, err)
	var names []string
	for _, line := range strings.Split(strings.TrimSpace(lines.String()), "\n") {
		names = append(names, line[66:])
	}
	assert.Equal(t, []string{"a#0", "b#0", "b#1", "b#2", "b#3", "b#4", "b#5", "b#6", "b#7"}, names)
}

func TestRunFailures(t *testing.T) {
	wrong := func(chunk int) func(context.Context, int, []Digest) error {
		return func(_ context.Context, _ int, digests []Digest) error {
			if chunk < len(digests) {
				digests[chunk][0] ^= 1
			}
			return nil
		}
	}
	read := func(call func(path string, off int64) error) *countingOpen {
		return &countingOpen{wrap: func(path string, f content) content {
			return beforeRead{f, func(off int64) error { return call(path, off) }}
		}}
	}
	var calls atomic.Int64
	tests := []struct {
		name   string
		engine *fakeEngine // nil: one without faults
		opt    Options
		opens  *countingOpen
		kind   Kind
		is     error
		text   []string
	}{
		{name: "chunk of 0", opt: Options{ChunkBytes: -1}, kind: InvalidArgument, text: []string{"chunk size -1"}},
		{name: "chunk too large", opt: Options{ChunkBytes: MaxChunkBytes + 1}, kind: InvalidArgument, text: []string{"256 MiB"}},
		{name: "wrong digest", engine: &fakeEngine{workers: 1, hash: wrong(2)}, kind: DigestMismatch, text: []string{"a", "chunk 2", " computed", "crypto/sha256 says"}},
		{name: "worker fails", engine: &fakeEngine{workers: 1, hash: func(context.Context, int, []Digest) error { return errInjected }},
			kind: EngineFailed, is: errInjected, text: []string{"fake", "from chunk 0"}},
		{name: "no worker", engine: &fakeEngine{newWorker: func(int64) error { return errInjected }}, kind: EngineFailed, is: errInjected, text: []string{"fake"}},
		{name: "rounds fail", opt: Options{Rounds: 3}, engine: &fakeEngine{workers: 1, rehasher: &fakeRehasher{enough: 100,
			rehash: func(context.Context, []Digest) error { return errInjected }}}, kind: EngineFailed, is: errInjected, text: []string{"fake: the rounds of ", "chunk 0 of this file"}},
		{name: "later rounds fail", opt: Options{Rounds: 3}, engine: &fakeEngine{rehasher: &fakeRehasher{enough: 100, rehash: func(context.Context, []Digest) error {
			if calls.Add(1)%2 == 0 {
				return errInjected
			}
			return nil
		}}}, kind: EngineFailed, is: errInjected, text: []string{"fake: the rounds of "}},
		{name: "wrong rounds", opt: Options{Rounds: 3}, engine: &fakeEngine{workers: 1, rehasher: &fakeRehasher{enough: 4000,
			rehash: func(_ context.Context, d []Digest) error {
				d[246][0] ^= 1
				return nil
			}}}, kind: DigestMismatch, text: []string{"b: ", "chunk 1: ", "fake computed", "crypto/sha256 says"}},
		{name: "sink fails after rounds", opt: Options{Rounds: 3, Sink: &sinkLines{err: errInjected}}, engine: &fakeEngine{rehasher: &fakeRehasher{enough: 10}},
			kind: OutputFailed, is: errInjected},
		{name: "close fails", engine: &fakeEngine{closeErr: errInjected}, kind: EngineFailed, is: errInjected},
		{name: "sink fails", opt: Options{Sink: &sinkLines{err: errInjected}}, kind: OutputFailed, is: errInjected},
		{name: "open fails", opt: Options{open: func(path string) (content, error) {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
		}}, kind: ReadFailed, is: fs.ErrPermission, text: []string{": open: permission denied"}},
		{name: "read fails", opens: read(func(path string, off int64) error {
			if off > 0 {
				return &fs.PathError{Op: "read", Path: path, Err: errInjected}
			}
			return nil
		}), kind: ReadFailed, is: errInjected, text: []string{": read: injected"}},
		{name: "file shrinks", opens: read(func(path string, off int64) error { return os.Truncate(path, 100) }),
			kind: FileChanged, text: []string{"ends at byte"}},
		{name: "file grows", opens: read(func(path string, off int64) error { return os.Truncate(path, 4<<20) }),
			kind: FileChanged, text: []string{"had 1000000 bytes when it was listed, now has 4194304"}},
		{name: "file is written to", opens: read(func(path string, off int64) error {
			return os.Chtimes(path, time.Time{}, time.Unix(1, 0))
		}), kind: FileChanged, text: []string{"was written to while it was read"}},
	}
	for i := range 2 * len(tests) {
		tt := tests[i/2] // on one device, and on two
		t.Run(tt.name, func(t *testing.T) {
			noLeaks(t)
			folder := writeTree(t, map[string]string{"a": strings.Repeat("a", 1e6), "b": strings.Repeat("b", 1e6), "c": "small"})
			engine := tt.engine
			if engine == nil {
				engine = &fakeEngine{}
			}
			engine.opened.Store(0)
			engine.closed.Store(0)
			engine.batch, engine.devices = 64<<10, 1
			if engine.workers == 0 {
				engine.workers = 3
			}
			if engine.workers > 1 {
				engine.devices += i % 2
			}
			opt := tt.opt
			if opt.ChunkBytes == 0 {
				opt.ChunkBytes = 4096
			}
			opt.Verify = Verify{mode: verifyAll}
			if tt.opens != nil {
				opt.open = tt.opens.fn
			}
			_, err := Run(context.Background(), mustList(t, folder), engine, opt)
			require.ErrorIs(t, err, tt.kind)
			assert.True(t, strings.HasPrefix(err.Error(), string(tt.kind)+": "), err)
			if tt.is != nil {
				assert.ErrorIs(t, err, tt.is)
			}
			for _, text := range tt.text {
				assert.ErrorContains(t, err, text)
			}
			assert.Equal(t, engine.opened.Load(), engine.closed.Load(), "workers left open")
			if tt.opens != nil {
				assert.Zero(t, tt.opens.open.Load(), "files left open")
			}
		})
	}
}

func TestRunFileChangedBeforeItIsOpened(t *testing.T) {
	changes := map[string]func(t *testing.T, path string){
		"shrunk": func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 1)) },
		"a folder now": func(t *testing.T, path string) {
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Mkdir(path, 0o755))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			folder := writeTree(t, map[string]string{"a": "12345"})
			in := mustList(t, folder)
			change(t, filepath.Join(folder, "a"))
			_, err := Run(context.Background(), in, NewCPU(2), Options{ChunkBytes: 4096})
			require.ErrorIs(t, err, FileChanged)
			assert.ErrorContains(t, err, filepath.Join(folder, "a"))
		})
	}
	t.Run("gone", func(t *testing.T) {
		folder := writeTree(t, map[string]string{"a": "12345"})
		in := mustList(t, folder)
		require.NoError(t, os.Remove(filepath.Join(folder, "a")))
		_, err := Run(context.Background(), in, NewCPU(2), Options{ChunkBytes: 4096})
		require.ErrorIs(t, err, ReadFailed)
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}

func TestRunCanceled(t *testing.T) {
	folder := writeTree(t, map[string]string{"a": strings.Repeat("a", 4<<20)})
	in := mustList(t, folder)
	tests := map[string]func(cancel func()) (Engine, Options){
		"before": func(cancel func()) (Engine, Options) {
			cancel()
			return NewCPU(2), Options{}
		},
		"while hashing": func(cancel func()) (Engine, Options) {
			return &fakeEngine{workers: 2, hash: func(ctx context.Context, _ int, _ []Digest) error {
				cancel()
				<-ctx.Done()
				return ctx.Err()
			}}, Options{}
		},
		"while reading": func(cancel func()) (Engine, Options) {
			opens := &countingOpen{wrap: func(_ string, f content) content {
				return beforeRead{f, func(int64) error { cancel(); return nil }}
			}}
			return NewCPU(2), Options{open: opens.fn}
		},
		"from progress": func(cancel func()) (Engine, Options) {
			return NewCPU(2), Options{Progress: func(int64, int64) { cancel() }, BatchBytes: 4096, ChunkBytes: 64 << 10}
		},
		"in the rounds of many": func(cancel func()) (Engine, Options) {
			return &fakeEngine{workers: 2, rehasher: &fakeRehasher{enough: 100, rehash: func(ctx context.Context, _ []Digest) error {
				cancel()
				<-ctx.Done()
				return ctx.Err()
			}}}, Options{Rounds: 7}
		},
		"in the comparison of rounds": func(cancel func()) (Engine, Options) {
			return &fakeEngine{workers: 2, rehasher: &fakeRehasher{enough: 100, skip: true, rehash: func(context.Context, []Digest) error {
				time.AfterFunc(20*time.Millisecond, cancel)
				return nil
			}}}, Options{Rounds: 1<<32 - 1}
		},
		"in the rounds of a chunk": func(cancel func()) (Engine, Options) {
			time.AfterFunc(20*time.Millisecond, cancel)
			return NewCPU(2), Options{Rounds: 1<<32 - 1}
		},
	}
	for name, build := range tests {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			engine, opt := build(cancel)
			if opt.ChunkBytes == 0 {
				opt.ChunkBytes = 4096
			}
			_, err := Run(ctx, in, engine, opt)
			require.ErrorIs(t, err, Canceled)
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

// A worker that never returns first must not let the others run away: the number of
// batches that are out is bounded.
func TestRunBoundsBatchesInFlight(t *testing.T) {
	folder := writeTree(t, map[string]string{"a": strings.Repeat("a", 8<<20)})
	const workers = 3
	release := make(chan struct{})
	var first atomic.Bool
	var hashes atomic.Int64
	engine := &fakeEngine{workers: workers, batch: minBatch, hash: func(_ context.Context, _ int, _ []Digest) error {
		if first.CompareAndSwap(false, true) {
			<-release
			return nil
		}
		hashes.Add(1)
		return nil
	}}
	done := make(chan error, 1)
	go func() {
		_, err := Run(context.Background(), mustList(t, folder), engine, Options{ChunkBytes: 4096})
		done <- err
	}()
	// A batch ahead of the held one can be consumed; later ones cannot.
	require.Eventually(t, func() bool { return hashes.Load() >= int64(slotsFor(workers)-1) }, time.Minute, time.Millisecond)
	time.Sleep(20 * time.Millisecond)
	assert.LessOrEqual(t, hashes.Load(), int64(slotsFor(workers)-1+workers))
	close(release)
	require.NoError(t, <-done)
}

func TestRunKeepsFewFilesOpen(t *testing.T) {
	files := map[string]string{}
	for i := range 500 {
		files[fmt.Sprintf("%03d", i)] = strings.Repeat("x", 1+i*37)
	}
	const workers = 4
	var opens countingOpen
	in := mustList(t, writeTree(t, files))
	_, err := Run(context.Background(), in, NewCPU(1), Options{ChunkBytes: 512, Workers: workers, BatchBytes: 4096, open: opens.fn})
	require.NoError(t, err)
	assert.EqualValues(t, 500, opens.total.Load(), "each file is opened once")
	assert.LessOrEqual(t, opens.most.Load(), int64(3*workers))
}

// The rounds go to the engine many digests at a time, while the workers go on.
func TestRunGathersForTheRounds(t *testing.T) {
	noLeaks(t)
	folder := writeTree(t, map[string]string{"a": strings.Repeat("abc", 1<<20), "b": "b", "c": strings.Repeat("c", 100_000)})
	const chunk, rounds, enough = 256, 3, 2000
	want, chunks := naiveRoot(t, folder, chunk, rounds)
	for _, verify := range []Verify{{mode: verifyAll}, {mode: verifySample, fraction: 0.1}, {mode: verifyNone}} {
		var mu sync.Mutex
		var sizes []int
		engine := &fakeEngine{workers: 3, batch: 16 << 10, rehasher: &fakeRehasher{enough: enough, rehash: func(_ context.Context, d []Digest) error {
			mu.Lock()
			defer mu.Unlock()
			sizes = append(sizes, len(d))
			return nil
		}}}
		result, err := Run(context.Background(), mustList(t, folder), engine, Options{ChunkBytes: chunk, Rounds: rounds, Verify: verify})
		require.NoError(t, err)
		assert.Equal(t, want, result.Root)
		assert.Equal(t, chunks, result.Chunks)
		assert.Equal(t, chunks, result.Shares[0].Chunks)
		sum, small := 0, 0
		for _, n := range sizes {
			sum += n
			if n < enough {
				small++
			}
			assert.Less(t, n, enough+minBatchChunks)
		}
		assert.LessOrEqual(t, small, 1, "the last one")
		assert.EqualValues(t, chunks, sum)
		switch verify.mode {
		case verifyAll:
			assert.Equal(t, chunks, result.Verified)
		case verifyNone:
			assert.Zero(t, result.Verified)
		default:
			assert.NotZero(t, result.Verified)
		}
	}
}

// A device that is done with its rounds gets the next digests before another one has as many again that wait.
func TestRunGivesEachDeviceItsRounds(t *testing.T) {
	noLeaks(t)
	folder := writeTree(t, map[string]string{"a": strings.Repeat("abc", 1<<18)})
	const chunk, rounds = 256, 3
	want, _ := naiveRoot(t, folder, chunk, rounds)
	rehasher := &fakeRehasher{enough: 200, rehash: func(context.Context, []Digest) error {
		time.Sleep(2 * time.Millisecond) // so long that others come meanwhile
		return nil
	}}
	engine := &fakeEngine{devices: 2, workers: 3, batch: 16 << 10, rehasher: rehasher}
	result, err := Run(context.Background(), mustList(t, folder), engine, Options{ChunkBytes: chunk, Rounds: rounds})
	require.NoError(t, err)
	assert.Equal(t, want, result.Root)
	assert.EqualValues(t, 1, rehasher.most.Load())
}

func TestEnoughForTheRounds(t *testing.T) {
	const full = 2048 * 132 // of an H200
	for _, test := range []struct {
		total   int64
		devices int
		want    int
	}{
		{1 << 20, 1, 1<<18 + 1},
		{1 << 20, 2, 1<<17 + 1},
		{1 << 20, 4, full / 4},
		{1 << 30, 1, full},
		{1 << 30, 8, mostRehashed / 8},
		{1000, 1, 1001},
		{1000, 4, 251},
		{0, 1, 1},
	} {
		r := run{total: test.total, rehash: &fakeRehasher{enough: full}}
		assert.Equal(t, test.want, r.enough(test.devices), test)
	}
}

// The last large batch comes with the last chunk: the end of the batches may wait for a device that does the rounds of others.
func TestTheLastRoundsWaitForNoEnd(t *testing.T) {
	r := run{total: 5, shares: make([]Share, 1)}
	ended := false
	next, stop := iter.Pull2(r.gather(func(yield func(*batch, error) bool) {
		for _, n := range []int{3, 2} {
			if !yield(&batch{Batch: Batch{Digests: make([]Digest, n)}}, nil) {
				return
			}
		}
		ended = true
	}, 4))
	defer stop()
	b, err, ok := next()
	require.True(t, ok)
	require.NoError(t, err)
	assert.Len(t, b.Digests, 5)
	assert.False(t, ended)
	_, _, ok = next()
	assert.False(t, ok)
	assert.True(t, ended)
}

// While a device does rounds the digests for the next ones are gathered.
func TestRunGathersWhileADeviceIsBusy(t *testing.T) {
	noLeaks(t)
	folder := writeTree(t, map[string]string{"a": strings.Repeat("abcd", 3<<16)})
	engine := &fakeEngine{workers: 2, batch: 4 << 10} // 192 batches of 16 chunks, 49 of them for a device
	engine.rehasher = &fakeRehasher{enough: 1 << 10, rehash: func(ctx context.Context, _ []Digest) error {
		for engine.hashes.Load() < 130 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		return nil
	}}
	result, err := Run(context.Background(), mustList(t, folder), engine, Options{ChunkBytes: 256, Rounds: 1})
	require.NoError(t, err)
	assert.EqualValues(t, 3072, result.Chunks)
	assert.EqualValues(t, 192, engine.hashes.Load())
}

// A failure does not wait for the rounds of an earlier batch to be verified, which would take minutes here.
func TestAFailureEndsVerification(t *testing.T) {
	noLeaks(t)
	folder := writeTree(t, map[string]string{"a": strings.Repeat("abcd", 1<<10)})
	var calls atomic.Int64
	engine := &fakeEngine{devices: 2, workers: 2, batch: 1024, rehasher: &fakeRehasher{enough: 4, skip: true, rehash: func(context.Context, []Digest) error {
		if calls.Add(1) > 1 {
			time.Sleep(20 * time.Millisecond)
			return errInjected
		}
		return nil
	}}}
	_, err := Run(context.Background(), mustList(t, folder), engine, Options{ChunkBytes: 256, Rounds: 1 << 31, Verify: Verify{mode: verifyAll}})
	require.ErrorIs(t, err, errInjected)
	var failed *Error
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, EngineFailed, failed.Kind)
}
