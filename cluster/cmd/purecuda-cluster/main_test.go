package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/pool/isolate"
)

// TestMain makes the test binary a worker where hash has started it.
func TestMain(m *testing.M) {
	isolate.Main(openRuntime, sha256Chunks)
	if os.Getenv(ofHash) != "" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

const patience = 90 * time.Second

// call runs the program.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// tree makes a folder with sizes around a chunk, a link out of it, and names whose order is another one by the whole path.
func tree(t *testing.T) string {
	folder, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	random := rand.New(rand.NewPCG(1, 2))
	write := func(path string, size int) {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	for name, size := range map[string]int{"a/b": 4096, "a-b": 4097, "a.txt": 4095, "a/c/d": 1, "empty": 0, "b": 300_003, "Z": 12288} {
		write(filepath.Join(folder, name), size)
	}
	write(outside, 10_000)
	require.NoError(t, os.Symlink(outside, filepath.Join(folder, "link")))
	require.NoError(t, os.Symlink("b", filepath.Join(folder, "inner")))
	for i := range 200 {
		write(filepath.Join(folder, "many", strconv.Itoa(i)), i)
	}
	return folder
}

// rootOf is the root by its definition.
func rootOf(t *testing.T, folder string, chunk, rounds int) string {
	var names []string
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	}))
	slices.Sort(names)
	root := sha256.New()
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		for len(data) > 0 {
			n := min(chunk, len(data))
			digest := sha256.Sum256(data[:n])
			for range rounds {
				digest = sha256.Sum256(digest[:])
			}
			root.Write(digest[:])
			data = data[n:]
		}
	}
	return hex.EncodeToString(root.Sum(nil))
}

func TestHash(t *testing.T) {
	folder := tree(t)
	for _, c := range []struct{ chunk, rounds, simulate int }{{4096, 0, 0}, {1000, 2, 0}, {4096, 1, 2}, {1001, 0, 2}} {
		code, out, errs := call(t, "hash", "--input", folder, "--chunk", strconv.Itoa(c.chunk), "--rounds", strconv.Itoa(c.rounds),
			"--simulate", strconv.Itoa(c.simulate), "--verify", "1", "--quiet")
		require.Zero(t, code, errs)
		assert.Equal(t, rootOf(t, folder, c.chunk, c.rounds)+"\n", out)
	}
	file := filepath.Join(folder, "b")
	code, out, errs := call(t, "hash", "--embedded", "--input", file, "--workers", "1")
	require.Zero(t, code, errs)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, out, "input     "+file+" (1 files, 300003 bytes)\nchunks    74 of up to 4096 bytes, in 1 pieces\nran on    worker0: 1 pieces\n")
	single := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(single, "b"), data, 0o644))
	assert.Contains(t, out, rootOf(t, single, 4096, 0))
}

func TestUsage(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		code int
		args []string
		text string
	}{
		{2, nil, "name a command"},
		{0, []string{"--help"}, ""},
		{0, []string{"hash", "--help"}, ""},
		{2, []string{"dance"}, `unknown command "dance"`},
		{2, []string{"hash", "--none"}, "not defined: -none"},
		{2, []string{"hash", "more"}, `unexpected argument "more"`},
		{2, []string{"hash", "--chunk", "0"}, "chunk"},
		{2, []string{"hash", "--verify", "2"}, "--verify"},
		{2, []string{"hash", "--workers", "0"}, "--workers"},
		{2, []string{"hash", "--root", "data"}, "NAME=DIR"},
		{1, []string{"hash", "--input", empty}, "no single byte"},
		{1, []string{"hash", "--input", filepath.Join(empty, "none")}, "no such file"},
		{1, []string{"hash", "--input", os.Args[0], "--replicas", "3"}, "replicas"},
		{2, []string{"worker"}, "--nats"},
		{2, []string{"status"}, "--nats"},
		{2, []string{"bench", "--nats", "x", "--pieces", "0"}, "--pieces"},
		{2, []string{"permissions", "--cluster", "a.b"}, "a.b"},
		{2, []string{"permissions", "--function", "a.b"}, "a.b"},
		{2, []string{"permissions", "--host", "a b=U"}, "a b"},
		{2, []string{"permissions", "--host", "a"}, "NAME=NKEY"},
	} {
		code, out, errs := call(t, c.args...)
		assert.Equal(t, c.code, code, "%q: %s", c.args, errs)
		assert.Contains(t, errs, c.text)
		if c.code == 0 {
			assert.NotEmpty(t, out)
		}
	}
	_, out, _ := call(t, "permissions", "--function", "blur/v1")
	assert.Contains(t, out, `"$JS.API.CONSUMER.MSG.NEXT.purecuda_v1_work.blur=v1"`)
	_, out, _ = call(t, "permissions", "--host", "a.example.org=UA", "--host", "b=UB")
	assert.Contains(t, out, `nkey: UA, permissions: { publish: ["purecuda.v1.health.a-example-org.*"`)
	assert.Contains(t, out, `nkey: UB, permissions: { publish: ["purecuda.v1.health.b.*"`)
}

// lines hands on what a command prints.
type lines struct {
	mu   sync.Mutex
	text string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(p)
	return len(p), nil
}

func (l *lines) find(pattern string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := regexp.MustCompile(pattern).FindStringSubmatch(l.text); m != nil {
		return m[1]
	}
	return ""
}

// TestWorker runs a worker as an operator does, with its probes, and the commands beside it.
func TestWorker(t *testing.T) {
	s, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", Token: "secret", Folder: t.TempDir()})
	require.NoError(t, err)
	defer s.Close()
	t.Setenv(tokenVariable, "secret")
	t.Setenv(simulateVariable, "")
	folder := tree(t)
	ctx, cancel := context.WithCancel(context.Background())
	var out lines
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"worker", "--nats", s.URL(), "--root", "data=" + folder, "--simulate", "2", "--name", "here", "--in-process", "--listen", "127.0.0.1:0",
			"--cache", t.TempDir()}, &out, os.Stderr)
	}()
	var url string
	require.Eventually(t, func() bool { url = out.find(`at (http://\S+)`); return url != "" }, patience, 10*time.Millisecond)
	get := func(path string) (int, string) {
		r, err := http.Get(url + path)
		if err != nil {
			return 0, err.Error()
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(text)
	}
	require.Eventually(t, func() bool { code, _ := get("/readyz"); return code == http.StatusOK }, patience, 10*time.Millisecond)
	c, text, errs := call(t, "hash", "--nats", s.URL(), "--root", "data="+folder, "--input", folder, "--quiet")
	require.Zero(t, c, errs)
	assert.Equal(t, rootOf(t, folder, 4096, 0)+"\n", text)
	c, text, errs = call(t, "bench", "--nats", s.URL(), "--pieces", "100")
	require.Zero(t, c, errs)
	assert.Contains(t, text, "100 pieces of 64 bytes")
	require.Eventually(t, func() bool { _, text := get("/metrics"); return strings.Contains(text, "purecuda_cluster_slots 4\n") }, patience, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		_, text := get("/metrics")
		return strings.Contains(text, `purecuda_cluster_function_pieces_done_total{function="purecuda/echo/v1"} 300`+"\n")
	}, patience, 10*time.Millisecond)
	_, text = get("/healthz")
	assert.Contains(t, text, `"Name":"here"`)
	c, text, errs = call(t, "status", "--nats", s.URL(), "--once")
	require.Zero(t, c, errs)
	assert.Regexp(t, `(?m)^here +serves +2/2 +0/4 `, text)
	assert.Contains(t, text, "1 hosts, 0 of 4 slots busy, 0 pieces in the queue")
	cancel()
	assert.Zero(t, <-code)
	t.Setenv(tokenVariable, "another")
	c, _, errs = call(t, "status", "--nats", s.URL(), "--once")
	assert.Equal(t, 1, c)
	assert.Contains(t, strings.ToLower(errs), "authorization")
}

// TestStale has a worker whose Serve tells nothing any more: it is neither alive nor ready.
func TestStale(t *testing.T) {
	var state atomic.Pointer[seen]
	get := func(path string) int {
		w := httptest.NewRecorder()
		probes(&nats.Conn{}, &state).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	assert.Equal(t, http.StatusServiceUnavailable, get("/healthz"))
	state.Store(&seen{cluster.Host{ID: "1", Slots: 1}, time.Now()})
	assert.Equal(t, http.StatusOK, get("/healthz"))
	state.Store(&seen{cluster.Host{ID: "1", Slots: 1}, time.Now().Add(-staleAfter)})
	assert.Equal(t, http.StatusServiceUnavailable, get("/healthz"))
	assert.Equal(t, http.StatusServiceUnavailable, get("/readyz"))
}

// TestTable has a host with a device that serves nothing, and rates of two tables.
func TestTable(t *testing.T) {
	h := cluster.Host{ID: "1", Name: "here\x1b", Slots: 2, Busy: 1, Done: 10, Devices: []cluster.Device{{Ordinal: 0}, {Ordinal: 3, Err: "left out: it died"}}}
	before := map[string]uint64{}
	var out strings.Builder
	table(&out, []cluster.Host{h}, 5, before)
	h.Done = 17
	out.Reset()
	table(&out, []cluster.Host{h}, 5, before)
	assert.Regexp(t, `(?m)^here.* +serves +1/2 +1/2 +0 +17 +0 +7$`, out.String())
	assert.Regexp(t, `(?m)^here.*, device 3: left out: it died$`, out.String())
	assert.Contains(t, out.String(), "1 hosts, 1 of 2 slots busy, 5 pieces in the queue, 7 pieces/s")
	assert.NotContains(t, out.String(), "\x1b")
}

// TestFilesOfExamples compares the command lines in the files with the flags that there are.
func TestFilesOfExamples(t *testing.T) {
	var found int
	var visit func(t *testing.T, v any)
	visit = func(t *testing.T, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				list, ok := value.([]any)
				if !ok || key != "args" && key != "command" {
					visit(t, value)
					continue
				}
				var args []string
				for _, a := range list {
					args = append(args, a.(string))
				}
				at := slices.IndexFunc(commands, func(c command) bool { return c.name == args[0] })
				if at < 0 {
					assert.Equal(t, "--jetstream", args[0]) // of the server
					continue
				}
				found++
				f := flag.NewFlagSet(args[0], flag.ContinueOnError)
				f.SetOutput(io.Discard)
				commands[at].set(f)
				assert.NoError(t, f.Parse(args[1:]))
				assert.Empty(t, f.Args())
			}
		case []any:
			for _, value := range v {
				visit(t, value)
			}
		}
	}
	for _, name := range []string{"compose.yaml", "kubernetes.yaml", "keda.yaml", "nats-values.yaml"} {
		text, err := os.ReadFile("../../../examples/cluster/" + name)
		require.NoError(t, err)
		for all := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var v any
			err := all.Decode(&v)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, name)
			visit(t, v)
		}
	}
	assert.Equal(t, 3, found)
}
