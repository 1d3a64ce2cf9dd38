package cluster_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

func TestScatter(t *testing.T) {
	c := onHosts(t, 2)
	var progress []int
	report := squares(t, c, "square/v1", 1000, cluster.WithProgress(func(done, n int) { progress = append(progress, done) }))
	assert.Equal(t, pool.OnGPU, report.Where)
	hosts := map[string]bool{}
	for _, tile := range report.Tiles {
		hosts[tile.Host] = true
	}
	assert.Equal(t, map[string]bool{"host0": true, "host1": true}, hosts)
	assert.Len(t, progress, 1000)
	assert.Equal(t, 1000, progress[999])

	report, err := cluster.Scatter(within(t), c, "square/v1", 0, func(int) (cluster.Piece, error) { panic("no piece") }, func(int, []byte) error { panic("no result") })
	require.NoError(t, err)
	assert.Empty(t, report.Tiles)
}

func TestMapReduceDo(t *testing.T) {
	c := onHosts(t, 2)
	in := [][]byte{[]byte("a"), nil, []byte("c")}
	out, _, err := cluster.Map(within(t), c, "echo/v1", in)
	require.NoError(t, err)
	for i := range in {
		assert.Equal(t, string(in[i]), string(out[i]))
	}
	const n = 37
	text, _, err := cluster.Reduce(within(t), c, "echo/v1", n, func(i int) (cluster.Piece, error) { return cluster.Piece{Data: fmt.Append(nil, i)}, nil },
		func(_ int, data []byte) (string, error) { return string(data), nil }, func(a, b string) string { return a + " " + b })
	require.NoError(t, err)
	want := "0"
	for i := 1; i < n; i++ {
		want += fmt.Sprint(" ", i)
	}
	assert.Equal(t, want, text)

	result, report, err := cluster.Do(within(t), c, "square/v1", cluster.Piece{Data: number(12)})
	require.NoError(t, err)
	assert.EqualValues(t, 144, binary.LittleEndian.Uint64(result))
	assert.Equal(t, 1, report.Tries)
	assert.Contains(t, []string{"host0", "host1"}, report.Host)
	assert.Zero(t, report.Device)
}

func TestArguments(t *testing.T) {
	s := start(t, embedded.Config{})
	nc := connect(t, s)
	c := open(t, nc)
	piece := func(int) (cluster.Piece, error) { return cluster.Piece{}, nil }
	take := func(int, []byte) error { return nil }
	refused := func(_ any, err error) {
		t.Helper()
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	}
	refused(cluster.Open(within(t), nil))
	refused(cluster.Open(within(t), nc, cluster.WithName("a.b")))
	refused(cluster.Open(within(t), nc, cluster.WithReplicas(-1)))
	refused(cluster.Scatter(within(t), nil, "echo/v1", 1, piece, take))
	refused(cluster.Scatter(within(t), c, "echo/v1", -1, piece, take))
	refused(cluster.Scatter(within(t), c, "echo/v1", 1, nil, take))
	refused(cluster.Scatter(within(t), c, "echo/v1", 1, piece, nil))
	refused(cluster.Scatter(within(t), c, "a.b/v1", 1, piece, take))
	refused(cluster.Scatter(within(t), c, "a//v1", 1, piece, take))
	refused(cluster.Scatter(within(t), c, "echo/v1", 1, piece, take, cluster.WithRetry(-1)))
	refused(cluster.Scatter(within(t), c, "echo/v1", 1, piece, take, cluster.WithVerify(math.NaN())))
	refused(cluster.Scatter(within(t), c, "echo/v1", 1, piece, take, cluster.WithName("other")))
	refused(c.Put(within(t), "a b", nil))
	p := openPool(t, 1)
	serve := func(functions []string, options ...cluster.Option) (any, error) {
		return nil, cluster.Serve(within(t), nc, p, functions, options...)
	}
	refused(serve([]string{"none/v1"}))
	refused(serve([]string{}))
	refused(serve(nil, cluster.WithRoot("data", filepath.Join(t.TempDir(), "none"))))
	refused(serve(nil, cluster.WithURL("ftp://example.org/")))
	refused(serve(nil, cluster.WithURL("https://example.org/data")))
	refused(nil, cluster.Serve(within(t), nc, (*pool.Pool)(nil), nil))
	refused(nil, cluster.Serve(within(t), nc, (*isolate.Group)(nil), nil))
	refused(nil, cluster.Serve(within(t), nil, p, nil))
	require.NoError(t, c.Close())
	_, err := cluster.Scatter(within(t), c, "echo/v1", 1, piece, take)
	assert.ErrorIs(t, err, driver.ErrClosed)
}

// TestFailures are of functions: the error has all tries, on all hosts.
func TestFailures(t *testing.T) {
	c := onHosts(t, 2)
	for function, want := range map[string]string{"fail/v1": "not today", "panic/v1": "panic: at the function"} {
		out, report, err := cluster.Map(within(t), c, function, make([][]byte, 10), cluster.WithRetry(1))
		assert.Nil(t, out)
		e, ok := errors.AsType[*pool.Error](err)
		require.True(t, ok, "%v", err)
		assert.ErrorIs(t, err, pool.ErrStopped)
		var failed []pool.TileReport
		for _, tile := range e.Tiles {
			if !errors.Is(tile.Cause, pool.ErrStopped) {
				failed = append(failed, tile)
			}
		}
		require.Len(t, failed, 1)
		assert.Regexp(t, fmt.Sprintf(`^pool: not done: host host[01], device 0, items \[%d, %d\), after 1 retries: host host`, failed[0].Lo, failed[0].Hi), err.Error())
		assert.Regexp(t, `; no host, items \[\d+, \d+\): stopped`, err.Error())
		assert.NotContains(t, err.Error(), "CPU")
		assert.Equal(t, 1, failed[0].Len())
		assert.Equal(t, 1, failed[0].Retries)
		for _, host := range []string{"host host0, device 0: " + want, "host host1, device 0: " + want, ""} {
			assert.ErrorContains(t, failed[0].Cause, host)
		}
		assert.Equal(t, 10, report.Tiles[len(report.Tiles)-1].Hi)
	}
	// Without another host the same one tries again.
	one := onHosts(t, 1)
	_, report, err := cluster.Do(within(t), one, "fail/v1", cluster.Piece{}, cluster.WithRetry(2))
	assert.ErrorContains(t, err, "not today")
	assert.Equal(t, 3, report.Tries)
}

// TestRefusedResult has another host do what the caller does not believe.
func TestRefusedResult(t *testing.T) {
	c := onHosts(t, 2)
	refusals, hosts := 0, map[string]bool{}
	report, err := cluster.Scatter(within(t), c, "echo/v1", 20, func(i int) (cluster.Piece, error) { return cluster.Piece{Data: number(uint64(i))}, nil },
		func(i int, _ []byte) error {
			if i == 7 && refusals == 0 {
				refusals++
				return errors.New("hard to believe")
			}
			return nil
		})
	require.NoError(t, err)
	for _, tile := range report.Tiles {
		if tile.Lo == 7 {
			assert.Equal(t, 1, tile.Retries)
			assert.ErrorContains(t, tile.Cause, "hard to believe")
			try, ok := errors.AsType[*cluster.TryError](tile.Cause)
			require.True(t, ok)
			hosts[tile.Host], hosts[try.Host] = true, true
		}
	}
	assert.Len(t, hosts, 2, "another host repeats it")
}

func TestFunctionsOfCaller(t *testing.T) {
	c := onHosts(t, 1)
	good := func(int) (cluster.Piece, error) { return cluster.Piece{}, nil }
	_, err := cluster.Scatter(within(t), c, "echo/v1", 5, func(i int) (cluster.Piece, error) { return cluster.Piece{}, errors.New("no piece") }, func(int, []byte) error { return nil })
	assert.ErrorContains(t, err, "no piece")
	_, err = cluster.Scatter(within(t), c, "echo/v1", 5, func(i int) (cluster.Piece, error) { panic("piece") }, func(int, []byte) error { return nil })
	assert.ErrorContains(t, err, "panic: piece")
	_, err = cluster.Scatter(within(t), c, "echo/v1", 5, good, func(int, []byte) error { panic("take") }, cluster.WithRetry(0))
	assert.ErrorContains(t, err, "panic: take")
	squares(t, c, "square/v1", 10)
}

func TestVerify(t *testing.T) {
	c := onHosts(t, 2)
	squares(t, c, "square/v1", 100, cluster.WithVerify(1))
	_, _, err := cluster.Map(within(t), c, "differs/v1", make([][]byte, 3), cluster.WithVerify(1))
	assert.ErrorIs(t, err, cluster.ErrMismatch)
	assert.ErrorContains(t, err, "host0")
	assert.ErrorContains(t, err, "host1")
	one := onHosts(t, 1)
	_, _, err = cluster.Map(within(t), one, "echo/v1", make([][]byte, 3), cluster.WithVerify(1), cluster.WithPatience(50*time.Millisecond))
	assert.ErrorIs(t, err, cluster.ErrNoWorker)
}

var differs atomic.Int64

func init() {
	isolate.Register("differs/v1", func(*pool.Worker, *isolate.Request) ([]byte, error) { return fmt.Append(nil, differs.Add(1)), nil })
}

func TestNoWorkerAndFallback(t *testing.T) {
	s := start(t, embedded.Config{})
	c := open(t, connect(t, s), cluster.WithPatience(200*time.Millisecond))
	_, _, err := cluster.Do(within(t), c, "square/v1", cluster.Piece{})
	assert.ErrorIs(t, err, cluster.ErrNoWorker)
	serveFunctions(t, connect(t, s), openPool(t, 1), "here", []string{"square/v2"})
	require.Eventually(t, func() bool { return len(c.Hosts()) == 1 }, patience, 10*time.Millisecond)
	_, _, err = cluster.Do(within(t), c, "square/v1", cluster.Piece{})
	assert.ErrorIs(t, err, cluster.ErrNoWorker)
	assert.ErrorContains(t, err, `"here" serves ["square/v2"]`)

	here := cluster.WithFallback(func(_ context.Context, p cluster.Piece) ([]byte, error) {
		return square(nil, &isolate.Request{Data: p.Data})
	})
	report := squares(t, c, "square/v1", 100, here)
	assert.Equal(t, pool.OnCPU, report.Where)
	assert.Equal(t, cluster.NoWorker, report.Reason)
	assert.ErrorIs(t, report.Err, cluster.ErrNoWorker)
	_, do, err := cluster.Do(within(t), c, "square/v1", cluster.Piece{Data: number(3)}, here)
	require.NoError(t, err)
	assert.Equal(t, cluster.NoWorker, do.Reason)
	_, _, err = cluster.Do(within(t), c, "square/v1", cluster.Piece{}, cluster.WithFallback(func(context.Context, cluster.Piece) ([]byte, error) { return nil, errors.New("nor here") }))
	assert.ErrorContains(t, err, "nor here")
	assert.ErrorIs(t, err, cluster.ErrNoWorker)

	// What the hosts fail at is done here as well.
	serveFunctions(t, connect(t, s), openPool(t, 1), "there", []string{"fail/v1"})
	require.Eventually(t, func() bool { return len(c.Hosts()) == 2 }, patience, 10*time.Millisecond)
	report = squares(t, c, "fail/v1", 100, here)
	assert.Equal(t, pool.Failed, report.Reason)
	assert.ErrorContains(t, report.Err, "not today")
}

// TestCancel ends a call: the hosts stop what they run of it, and nothing of it stays in the queue.
func TestCancel(t *testing.T) {
	c := onHosts(t, 1)
	ctx, cancel := context.WithCancelCause(within(t))
	why := errors.New("enough")
	done := make(chan error, 1)
	go func() {
		_, _, err := cluster.Map(ctx, c, "wait/v1", make([][]byte, 10))
		done <- err
	}()
	require.Eventually(t, func() bool { return running.Load() == 2 }, patience, time.Millisecond)
	cancel(why)
	assert.ErrorIs(t, <-done, why)
	require.Eventually(t, func() bool { return running.Load() == 0 }, patience, time.Millisecond)
	require.Eventually(t, func() bool {
		n, err := c.Queue(within(t))
		return err == nil && n == 0
	}, patience, 10*time.Millisecond)
	squares(t, c, "square/v1", 10)
}

func TestPieceDeadline(t *testing.T) {
	c := onHosts(t, 2)
	_, report, err := cluster.Do(within(t), c, "wait/v1", cluster.Piece{}, cluster.WithPieceDeadline(50*time.Millisecond), cluster.WithRetry(1))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, 2, report.Tries)
}

func TestClose(t *testing.T) {
	c := onHosts(t, 1)
	done := make(chan error, 1)
	go func() {
		_, _, err := cluster.Do(within(t), c, "wait/v1", cluster.Piece{})
		done <- err
	}()
	require.Eventually(t, func() bool { return running.Load() == 1 }, patience, time.Millisecond)
	require.NoError(t, c.Close())
	assert.ErrorIs(t, <-done, driver.ErrClosed)
	require.Eventually(t, func() bool { return running.Load() == 0 }, patience, time.Millisecond)
}

// TestDrain ends a host while it works: nothing is lost or waited for.
func TestDrain(t *testing.T) {
	s := start(t, embedded.Config{})
	stop := serve(t, connect(t, s), openPool(t, 1), "first")
	serve(t, connect(t, s), openPool(t, 1), "second")
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	require.Eventually(t, func() bool { return len(c.Hosts()) == 2 }, patience, 10*time.Millisecond)
	report := squares(t, c, "slow/v1", 100, cluster.WithProgress(func(done, _ int) {
		if done == 10 {
			go stop()
		}
	}))
	hosts := map[string]int{}
	for _, tile := range report.Tiles {
		hosts[tile.Host] += tile.Len()
		assert.Zero(t, tile.Retries)
	}
	assert.Positive(t, hosts["first"])
	assert.Positive(t, hosts["second"])
	require.Eventually(t, func() bool { return len(c.Hosts()) == 1 }, patience, 10*time.Millisecond)
	stop()

	// What does not end in time goes to another host, where it is cancelled with its call.
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, _, err := cluster.Do(ctx, c, "wait/v1", cluster.Piece{})
		done <- err
	}()
	require.Eventually(t, func() bool { return running.Load() == 1 }, patience, time.Millisecond)
	third := serve(t, connect(t, s), openPool(t, 1), "third", cluster.WithDrain(0))
	require.Eventually(t, func() bool { return len(c.Hosts()) == 2 }, patience, 10*time.Millisecond)
	third()
	cancel()
	assert.ErrorIs(t, <-done, context.Canceled)
}

// TestTwoVersions is a rolling update: both versions are served at the same time, each where it is.
func TestTwoVersions(t *testing.T) {
	s := start(t, embedded.Config{})
	old := serveFunctions(t, connect(t, s), openPool(t, 1), "old", []string{"square/v1"})
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	squares(t, c, "square/v1", 10)
	serveFunctions(t, connect(t, s), openPool(t, 1), "new", []string{"square/v1", "square/v2"})
	for _, tile := range squares(t, c, "square/v2", 50).Tiles {
		assert.Equal(t, "new", tile.Host)
	}
	old()
	for _, tile := range squares(t, c, "square/v1", 50).Tiles {
		assert.Equal(t, "new", tile.Host)
	}
}

// TestCPU serves with the cores of a host that has no CUDA.
func TestCPU(t *testing.T) {
	s := start(t, embedded.Config{})
	serveFunctions(t, connect(t, s), openPool(t, 0), "cores", []string{"square/v1"}, cluster.WithCPU("square/v1",
		func(_ context.Context, r *isolate.Request) ([]byte, error) { return square(nil, r) }))
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	report := squares(t, c, "square/v1", 50)
	assert.Equal(t, pool.OnCPU, report.Where)
}

func TestLargeData(t *testing.T) {
	s := start(t, embedded.Config{})
	nc := connect(t, s)
	serve(t, connect(t, s), openPool(t, 1), "host")
	c := open(t, nc, cluster.WithPatience(patience))
	large := bytes.Repeat([]byte("0123456789abcdef"), 100<<10)
	out, _, err := cluster.Map(within(t), c, "echo/v1", [][]byte{large, []byte("small")})
	require.NoError(t, err)
	assert.True(t, bytes.Equal(large, out[0]))
	assert.Equal(t, "small", string(out[1]))
	_, _, err = cluster.Do(within(t), c, "echo/v1", cluster.Piece{Data: make([]byte, 16<<20+1)})
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, _, err = cluster.Do(within(t), c, "large/v1", cluster.Piece{Data: number(16<<20 + 1)})
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	store, err := js.ObjectStore(within(t), "purecuda_v1_data")
	require.NoError(t, err)
	require.Eventually(t, func() bool { // all objects of the calls are gone
		_, err := store.List(within(t))
		return errors.Is(err, jetstream.ErrNoObjectsFound)
	}, patience, 10*time.Millisecond)
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func sum(data []byte) []byte {
	var s uint64
	for _, b := range data {
		s += uint64(b)
	}
	return binary.LittleEndian.AppendUint64(nil, s)
}

func TestReferences(t *testing.T) {
	data := make([]byte, 300_000)
	for i := range data {
		data[i] = byte(i * 7)
	}
	folder, cache := t.TempDir(), t.TempDir()
	file := filepath.Join(folder, "sub", "data.bin")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, data, 0o644))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(folder, "out")))
	web := serveWeb(t, data)
	s := start(t, embedded.Config{})
	serve(t, connect(t, s), openPool(t, 1), "host", cluster.WithRoot("set", folder), cluster.WithURL(web+"/data/"), cluster.WithCache(cache, 1<<20))
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	object, err := c.Put(within(t), "object", data)
	require.NoError(t, err)
	part := data[1000:201_000]
	for uri, want := range map[string]error{
		"file:set/sub/data.bin":  nil,
		web + "/data/ranges":     nil,
		web + "/data/whole":      nil,
		object.URI:               nil,
		"file:set/none":          os.ErrNotExist,
		"file:none/data.bin":     cluster.ErrPermission,
		"file:set/../data.bin":   os.ErrInvalid,
		"file:set//etc/passwd":   os.ErrInvalid,
		"file:set/out":           os.ErrInvalid,
		"file:set/sub":           cluster.ErrPermission,
		web + "/secret":          cluster.ErrPermission,
		web + "/data/../secret":  cluster.ErrPermission,
		web + "/data/elsewhere":  cluster.ErrPermission,
		"http://example.org/":    cluster.ErrPermission,
		web + "/data/none":       os.ErrInvalid,
		"object:none":            os.ErrInvalid,
		"gopher://example.org/x": driver.ErrInvalidArgument,
	} {
		r := cluster.Ref{URI: uri, Offset: 1000, Length: int64(len(part))}
		out, _, err := cluster.Do(within(t), c, "sum/v1", cluster.Piece{Refs: []cluster.Ref{r, r}}, cluster.WithRetry(0))
		switch {
		case want == nil:
			require.NoError(t, err, uri)
			assert.Equal(t, binary.LittleEndian.Uint64(sum(part))*2, binary.LittleEndian.Uint64(out), uri)
			r.Digest = sha(part)
			_, _, err = cluster.Do(within(t), c, "sum/v1", cluster.Piece{Refs: []cluster.Ref{r}})
			require.NoError(t, err, uri)
		case errors.As(want, new(driver.Kind)):
			assert.ErrorIs(t, err, want, uri)
		default:
			assert.Error(t, err, uri)
		}
	}
	// What is in the cache is there when the source is not, and damage is found.
	require.NoError(t, os.Remove(file))
	cached := cluster.Ref{URI: "file:set/sub/data.bin", Offset: 1000, Length: int64(len(part)), Digest: sha(part)}
	_, _, err = cluster.Do(within(t), c, "sum/v1", cluster.Piece{Refs: []cluster.Ref{cached}}, cluster.WithRetry(0))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(cache, cached.Digest), make([]byte, len(part)), 0o600))
	_, _, err = cluster.Do(within(t), c, "sum/v1", cluster.Piece{Refs: []cluster.Ref{cached}}, cluster.WithRetry(0))
	assert.ErrorContains(t, err, "no such file")
	assert.NoFileExists(t, filepath.Join(cache, cached.Digest))

	require.NoError(t, os.WriteFile(file, make([]byte, len(data)), 0o644))
	_, _, err = cluster.Do(within(t), c, "sum/v1", cluster.Piece{Refs: []cluster.Ref{cached}}, cluster.WithRetry(0))
	assert.ErrorIs(t, err, cluster.ErrMismatch)
	for _, r := range []cluster.Ref{{URI: "file:set/sub/data.bin", Length: -1}, {URI: "file:set/sub/data.bin", Length: 1 << 40}, {URI: "file:set/sub/data.bin"},
		{URI: "file:set/sub/data.bin", Offset: -1, Length: 1}, {URI: "file:set/sub/data.bin", Length: 1, Digest: "x"}, {URI: "file:set/sub/data.bin", Offset: math.MaxInt64, Length: 1}} {
		_, _, err = cluster.Do(within(t), c, "sum/v1", cluster.Piece{Refs: []cluster.Ref{r}}, cluster.WithRetry(0))
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, "%+v", r)
	}
	_, _, err = cluster.Do(within(t), c, "sum/v1", cluster.Piece{Refs: make([]cluster.Ref, 10_000)}, cluster.WithRetry(0))
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	c.Drop(object)
	_, _, err = cluster.Do(within(t), c, "sum/v1", cluster.Piece{Refs: []cluster.Ref{{URI: object.URI, Length: 10}}}, cluster.WithRetry(0))
	assert.Error(t, err)
}
