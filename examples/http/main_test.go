package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// TestMain keeps what is learned in no file.
func TestMain(m *testing.M) {
	os.Setenv("PURECUDA_CACHE_DIR", "off")
	os.Exit(m.Run())
}

// modes are the machines that the service runs on: two simulated GPUs, and none.
func modes() map[string]drivertest.Config {
	return map[string]drivertest.Config{
		"gpu": {Devices: drivertest.Devices(2, drivertest.T4())},
		"cpu": {InitResult: driver.ResultNoDevice},
	}
}

// open is the service on a machine. What it leaves behind is an error of the test.
func open(t *testing.T, gpu *drivertest.Driver, limit int64) http.Handler {
	t.Helper()
	return openService(t, gpu, limit, true, 0).handler()
}

func openService(t *testing.T, gpu *drivertest.Driver, limit int64, onCPU bool, queue int) *service {
	t.Helper()
	goroutines := goruntime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(time.Minute); goruntime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("goroutines left behind:\n%s", stacks[:goruntime.Stack(stacks, true)])
			}
		}
	})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	h, err := newHasher(rt, onCPU, queue)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.close()) })
	return newService(rt, h, limit)
}

func post(handler http.Handler, body io.Reader) (int, map[string]any) {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("POST", "/hash", body))
	var answer map[string]any
	_ = json.Unmarshal(w.Body.Bytes(), &answer)
	return w.Code, answer
}

func random(n int) []byte {
	data := make([]byte, n)
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// rootOfBytes is the root in the plainest way.
func rootOfBytes(data []byte) string {
	all := sha256.New()
	for len(data) > 0 {
		n := min(chunk, len(data))
		digest := sha256.Sum256(data[:n])
		all.Write(digest[:])
		data = data[n:]
	}
	return hex.EncodeToString(all.Sum(nil))
}

func TestHash(t *testing.T) {
	for mode, config := range modes() {
		t.Run(mode, func(t *testing.T) {
			handler := open(t, drivertest.ForTest(t, config), 1<<20)
			for _, n := range []int{1, chunk, chunk + 1, small, small + 1, 200*chunk + 100} {
				data := random(n)
				status, answer := post(handler, bytes.NewReader(data))
				require.Equal(t, http.StatusOK, status)
				assert.Equal(t, rootOfBytes(data), answer["root"])
				assert.EqualValues(t, n, answer["bytes"])
				assert.Equal(t, mode, answer["on"], "%d bytes", n)
			}
		})
	}
}

// The CPU does what it does faster.
func TestLearnedSize(t *testing.T) {
	gpu := drivertest.ForTest(t, modes()["gpu"])
	s := openService(t, gpu, 1<<20, true, 0)
	require.NoError(t, s.hasher.worth.Learn(context.Background()))
	if n, ok := s.hasher.worth.Report().Size(); ok && n <= 20 {
		t.Skipf("simulated GPUs win from %d chunks on", n)
	}
	status, answer := post(s.handler(), bytes.NewReader(random(20*chunk)))
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "cpu", answer["on"])
	assert.EqualValues(t, pool.MeasuredSlower, answer["why"])
}

func TestWhatIsRefused(t *testing.T) {
	handler := open(t, drivertest.ForTest(t, modes()["cpu"]), 10_000)
	for name, c := range map[string]struct {
		body   io.Reader
		status int
	}{
		"empty":      {http.NoBody, http.StatusBadRequest},
		"ends early": {io.MultiReader(strings.NewReader("x"), failing{}), http.StatusBadRequest},
		"too large":  {bytes.NewReader(random(10_001)), http.StatusRequestEntityTooLarge},
		"just fits":  {bytes.NewReader(random(10_000)), http.StatusOK},
	} {
		status, _ := post(handler, c.body)
		assert.Equal(t, c.status, status, name)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A request whose client has gone stops, also while it waits for its turn.
func TestCanceledRequests(t *testing.T) {
	handler := open(t, drivertest.ForTest(t, modes()["gpu"]), 1<<20)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 50 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/hash", bytes.NewReader(random(100*chunk))))
		assert.NotContains(t, w.Body.String(), "root")
	}
	status, _ := post(handler, bytes.NewReader(random(100*chunk)))
	assert.Equal(t, http.StatusOK, status, "no place was kept")
}

func TestHealth(t *testing.T) {
	health := func(handler http.Handler) (int, map[string]any) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/healthz", nil))
		var answer map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		return w.Code, answer
	}
	status, answer := health(open(t, drivertest.ForTest(t, modes()["gpu"]), 1))
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, map[string]any{"cuda": "available"}, answer)

	status, answer = health(open(t, drivertest.ForTest(t, modes()["cpu"]), 1))
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "absent", answer["cuda"])
	assert.Contains(t, answer["reason"], "CUDA_ERROR_NO_DEVICE")

	// One of two GPUs is gone: the service is healthy, and says which one is missing.
	gone := drivertest.New(modes()["gpu"])
	t.Cleanup(func() { assert.NoError(t, gone.Close()) })
	degraded := open(t, gone, 1<<20)
	gone.Vanish(0)
	postStatus, posted := post(degraded, bytes.NewReader(random(100*chunk)))
	assert.Equal(t, http.StatusOK, postStatus)
	assert.Equal(t, rootOfBytes(random(100*chunk)), posted["root"])
	status, answer = health(degraded)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "available", answer["cuda"])
	assert.Contains(t, answer["degraded"], "device 0")

	// The GPU breaks under way: answers stay right, and the health tells.
	gpu := drivertest.New(modes()["gpu"])
	defer gpu.Close()
	handler := open(t, gpu, 1<<20)
	gpu.Fail("cuStreamSynchronize", 1, driver.ResultIllegalAddress)
	gpu.Fail("cuEventSynchronize", 1, driver.ResultIllegalAddress)
	gpu.Fail("cuMemcpyDtoHAsync", 1, driver.ResultIllegalAddress)
	data := random(100 * chunk)
	httpStatus, hashed := post(handler, bytes.NewReader(data))
	assert.Equal(t, http.StatusOK, httpStatus)
	assert.Equal(t, rootOfBytes(data), hashed["root"])
	assert.Equal(t, "cpu", hashed["on"])
	status, answer = health(handler)
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, "fault", answer["cuda"])
}

// Shutting down under load: every request that was accepted is answered, and right.
func TestGracefulShutdown(t *testing.T) {
	for mode, config := range modes() {
		t.Run(mode, func(t *testing.T) {
			handler := open(t, drivertest.ForTest(t, config), 1<<20)
			var inside, answered, right atomic.Int64
			counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				inside.Add(1)
				handler.ServeHTTP(w, r)
			})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			ctx, stop := context.WithCancel(context.Background())
			served := make(chan error, 1)
			go func() { served <- serve(ctx, l, counted, 2*time.Minute) }()

			data := random(20 * chunk)
			want := rootOfBytes(data)
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			var clients sync.WaitGroup
			for range 12 {
				clients.Go(func() {
					for {
						r, err := client.Post(fmt.Sprintf("http://%s/hash", l.Addr()), "", bytes.NewReader(data))
						if err != nil {
							return // it listens no more
						}
						var answer map[string]any
						err = json.NewDecoder(r.Body).Decode(&answer)
						_ = r.Body.Close()
						assert.NoError(t, err)
						answered.Add(1)
						if r.StatusCode == http.StatusServiceUnavailable {
							continue // a busy machine has no place for it in time
						}
						assert.Equal(t, want, answer["root"])
						right.Add(1)
					}
				})
			}
			require.Eventually(t, func() bool { return right.Load() > 5 }, time.Minute, time.Millisecond)
			stop()
			require.NoError(t, <-served)
			clients.Wait()
			assert.Equal(t, inside.Load(), answered.Load(), "requests that were begun and not answered")
		})
	}
}

// A client that never sends its upload cannot keep the service from ending.
func TestShutdownEndsWhatTakesTooLong(t *testing.T) {
	handler := open(t, drivertest.ForTest(t, modes()["cpu"]), 1<<20)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, l, handler, 50*time.Millisecond) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /hash HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
	require.NoError(t, err)
	time.Sleep(20 * time.Millisecond)
	stop()
	assert.ErrorIs(t, <-served, context.DeadlineExceeded)
}

func TestRun(t *testing.T) {
	t.Setenv("PURECUDA_POLICY", "off")
	ctx, stop := context.WithCancel(context.Background())
	stop()
	assert.NoError(t, run(ctx, "127.0.0.1:0", 1, true))
	assert.Error(t, run(ctx, "no such address", 1, true))
}
