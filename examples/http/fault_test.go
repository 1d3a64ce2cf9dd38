package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
)

// Each class of errors has its status, and says whether to try again, and where.
func TestClassesOfErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		retry  retry
	}{
		{errBusy, 503, later},
		{fmt.Errorf("%w: 5 wait", pool.ErrQueueFull), 503, later},
		{&pool.ReserveError{Label: "large"}, 503, later},
		{driver.Errorf(driver.ErrOutOfMemory, "no"), 503, later},
		{context.DeadlineExceeded, 504, later},
		{driver.Errorf(driver.ErrClosed, "closed"), 503, elsewhere},
		{driver.ResultIllegalAddress, 500, never},
		{errors.Join(pool.ErrQuarantined, driver.Errorf(driver.ErrDeviceLost, "gone")), 503, elsewhere},
		{driver.Errorf(driver.ErrDriverLibraryUnavailable, "none"), 503, elsewhere},
		{io.ErrUnexpectedEOF, 500, never},
	} {
		w := httptest.NewRecorder()
		fail(w, c.err)
		assert.Equal(t, c.status, w.Code, c.err)
		var answer map[string]string
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		assert.Equal(t, string(c.retry), answer["retry"], c.err)
		assert.Equal(t, c.retry == later, w.Header().Get("Retry-After") != "", c.err)
		assert.NotEmpty(t, answer["error"])
	}
}

func get(t *testing.T, handler http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

// Without the CPU a service whose GPUs are gone says that it is not ready, and sends its clients elsewhere.
func TestWithoutTheCPU(t *testing.T) {
	gpu := drivertest.New(modes()["gpu"])
	t.Cleanup(func() { assert.NoError(t, gpu.Close()) })
	s := openService(t, gpu, 1<<20, false, 0)
	handler := s.handler()
	status, body := get(t, handler, "/readyz")
	assert.Equal(t, http.StatusOK, status, body)
	gpu.Vanish(0)
	gpu.Vanish(1)
	data := random(100 * chunk)
	status, answer := post(handler, bytes.NewReader(data))
	assert.Equal(t, http.StatusServiceUnavailable, status, answer)
	assert.Equal(t, string(elsewhere), answer["retry"])
	assert.Eventually(t, func() bool {
		status, _ = post(handler, bytes.NewReader(data[:100]))
		return status == http.StatusServiceUnavailable
	},
		10*time.Second, time.Millisecond)
	status, body = get(t, handler, "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status, body)
	assert.Contains(t, body, "no GPU can be used")

	none := openService(t, drivertest.ForTest(t, modes()["cpu"]), 1<<20, false, 0).handler()
	status, answer = post(none, bytes.NewReader(data))
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, string(elsewhere), answer["retry"])
}

func TestReadinessAtTheEnd(t *testing.T) {
	s := openService(t, drivertest.ForTest(t, modes()["cpu"]), 1, true, 0)
	status, _ := get(t, s.handler(), "/readyz")
	assert.Equal(t, http.StatusOK, status, "the CPU does it")
	s.ending.Store(true)
	status, body := get(t, s.handler(), "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, body, "the service ends")
}

func TestMetrics(t *testing.T) {
	s := openService(t, drivertest.ForTest(t, modes()["gpu"]), 1<<20, true, 0)
	status, _ := post(s.handler(), bytes.NewReader(random(100)))
	require.Equal(t, http.StatusOK, status)
	status, body := get(t, s.handler(), "/metrics")
	assert.Equal(t, http.StatusOK, status)
	for _, line := range []string{
		`purecuda_outcome{outcome="available"} 1`, `purecuda_batcher_items{batcher="small",result="done"} 1`,
		`purecuda_pool_device_quarantined{device="0"} 0`, `purecuda_break_even_drifted{work="large"} 0`,
	} {
		assert.Contains(t, body, line+"\n")
	}
}

// A thousand clients, some of which leave, while a GPU vanishes: every request that is answered with 200 has the right
// root, and all others are told to come later.
func TestThousandClients(t *testing.T) {
	gpu := drivertest.New(modes()["gpu"])
	t.Cleanup(func() { assert.NoError(t, gpu.Close()) })
	s := openService(t, gpu, 1<<20, true, 100)
	ctx, stop := context.WithCancel(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- serve(ctx, l, s.handler(), 20*time.Second) }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	url := fmt.Sprintf("http://%s/hash", l.Addr())

	const clients, each = 1000, 3
	var right, busy, left atomic.Int64
	var all sync.WaitGroup
	for c := range uint64(clients) {
		all.Go(func() {
			chance := rand.New(rand.NewPCG(1, c))
			for i := range each {
				if c == clients/2 && i == 1 {
					gpu.Vanish(0)
				}
				n := 1 + chance.IntN(200)
				if chance.IntN(500) == 0 {
					n = small + chance.IntN(small)
				}
				data := random(n)
				ctx, cancel := context.WithCancel(context.Background())
				if chance.IntN(20) == 0 {
					time.AfterFunc(time.Duration(chance.IntN(20))*time.Millisecond, cancel)
				}
				status, answer, err := send(ctx, client, url, data)
				switch {
				case err != nil && ctx.Err() != nil:
					left.Add(1)
				case status == http.StatusOK:
					right.Add(1)
					assert.Equal(t, rootOfBytes(data), answer["root"])
				case status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout: // on a slow machine
					busy.Add(1)
					assert.Equal(t, string(later), answer["retry"])
				default:
					assert.Fail(t, "what is this?", "%d %v %v", status, answer, err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	status, _, err := send(context.Background(), client, url, random(100*chunk)) // on all GPUs: so it is no news at the end that one has vanished
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
	client.CloseIdleConnections()
	stop()
	require.NoError(t, <-served)
	assert.EqualValues(t, clients*each, right.Load()+busy.Load()+left.Load(), "an answer for each")
	stats := s.hasher.batcher.Stats()
	assert.Less(t, stats.Sizes.Count(), stats.Sizes.Sum, "batches")
	assert.Equal(t, stats.Accepted, stats.Done+stats.Failed+stats.Left)
	assert.Positive(t, right.Load())
	t.Logf("%d right, %d busy, %d left; %d batches of %d uploads", right.Load(), busy.Load(), left.Load(), stats.Sizes.Count(), stats.Sizes.Sum)
}

// send posts an upload.
func send(ctx context.Context, client *http.Client, url string, data []byte) (status int, answer map[string]any, err error) {
	request, err := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	err = json.NewDecoder(response.Body).Decode(&answer)
	return response.StatusCode, answer, err
}
