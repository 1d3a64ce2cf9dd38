package pool_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

const (
	hashBytes = 1024 // of a request
	hashBatch = 256  // requests
)

type hashRequest [hashBytes]byte

func newHashRequest(i int) (r hashRequest) {
	binary.LittleEndian.PutUint64(r[:], uint64(i))
	return r
}

// hashRoom is what a stream has for a batch: page-locked memory and memory of the device.
type hashRoom struct {
	data     *runtime.HostBuffer[byte]
	digests  *runtime.HostBuffer[kernels.Digest]
	onDevice *runtime.Ref[byte]
	chunks   *runtime.Ref[kernels.Chunk]
	result   *runtime.Ref[kernels.Digest]
	close    []interface{ Close() error }
}

func (r *hashRoom) Close() error {
	var errs []error
	for _, c := range r.close {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// What devices and streams have ready for requests.
var (
	ofSHA256 = pool.PerDevice(kernels.Load[kernels.SHA256Chunks])
	ofRoom   = pool.PerStream(newHashRoom)
	hashing  = []pool.Setup{ofSHA256, ofRoom}
)

func newHashRoom(w *pool.Worker) (r *hashRoom, err error) {
	r = new(hashRoom)
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	where := make([]kernels.Chunk, hashBatch)
	for i := range where {
		where[i] = kernels.Chunk{Offset: uint64(i * hashBytes), Length: hashBytes}
	}
	r.data, err = runtime.AllocHost[byte](w.Context(), hashBatch*hashBytes)
	if err != nil {
		return r, err
	}
	r.close = append(r.close, r.data)
	if r.digests, err = runtime.AllocHost[kernels.Digest](w.Context(), hashBatch); err != nil {
		return r, err
	}
	r.close = append(r.close, r.digests)
	if r.onDevice, err = runtime.Alloc[byte](w.Stream(), hashBatch*hashBytes); err != nil {
		return r, err
	}
	r.close = append(r.close, r.onDevice)
	if r.chunks, err = runtime.Alloc[kernels.Chunk](w.Stream(), hashBatch); err != nil {
		return r, err
	}
	r.close = append(r.close, r.chunks)
	if r.result, err = runtime.Alloc[kernels.Digest](w.Stream(), hashBatch); err != nil {
		return r, err
	}
	r.close = append(r.close, r.result)
	return r, runtime.Upload(context.Background(), w.Stream(), r.chunks, where)
}

// hashRequests is the batch function.
func hashRequests(w *pool.Worker, in []*hashRequest, out []kernels.Digest, _ []error) error {
	sha, r := ofSHA256.Of(w), ofRoom.Of(w)
	s, n := w.Stream(), len(in)
	for i, one := range in {
		copy(r.data.Data()[i*hashBytes:], one[:])
	}
	if err := runtime.UploadHost(s, r.onDevice.Slice(0, n*hashBytes), r.data.Slice(0, n*hashBytes)); err != nil {
		return err
	}
	if err := sha.Launch(s, r.onDevice.Slice(0, n*hashBytes), r.chunks.Slice(0, n), 0, r.result.Slice(0, n)); err != nil {
		return err
	}
	if err := runtime.DownloadHost(s, r.digests.Slice(0, n), r.result.Slice(0, n)); err != nil {
		return err
	}
	if err := s.Synchronize(context.Background()); err != nil {
		return err
	}
	copy(out, r.digests.Data())
	return nil
}

// hashers are the two ways to serve a request.
func hashers(t testing.TB, p *pool.Pool, delay time.Duration) map[string]func(ctx context.Context, r *hashRequest) (kernels.Digest, error) {
	b, err := pool.NewBatcher(p, hashRequests, pool.BatcherConfig[*hashRequest, kernels.Digest]{MaxItems: hashBatch, MaxDelay: delay, Batches: 8})
	require.NoError(t, err)
	t.Cleanup(func() {
		s := b.Stats()
		t.Logf("batches: %d, of %.1f requests on the average", s.Sizes.Count(), float64(s.Sizes.Sum)/float64(max(s.Sizes.Count(), 1)))
		assert.NoError(t, b.Close())
	})
	return map[string]func(ctx context.Context, r *hashRequest) (kernels.Digest, error){
		"batcher": b.Do,
		"do": func(ctx context.Context, r *hashRequest) (kernels.Digest, error) {
			in, out := [1]*hashRequest{r}, [1]kernels.Digest{}
			_, err := p.Do(ctx, func(w *pool.Worker) error { return hashRequests(w, in[:], out[:], nil) }, pool.DoOptions{Wait: true})
			return out[0], err
		},
	}
}

func TestHashRequests(t *testing.T) {
	p, _ := open(t, machine(2), pool.Options{Setup: hashing})
	for name, hash := range hashers(t, p, 100*time.Microsecond) {
		var callers sync.WaitGroup
		for i := range 50 {
			callers.Go(func() {
				r := newHashRequest(i)
				digest, err := hash(context.Background(), &r)
				assert.NoError(t, err, name)
				assert.Equal(t, sha256.Sum256(r[:]), digest, name)
			})
		}
		callers.Wait()
	}
}

// BenchmarkHardwareRequests is SHA-256 of 1 KiB for each request of many goroutines, by Do and by a Batcher.
func BenchmarkHardwareRequests(b *testing.B) {
	for _, goroutines := range []int{64, 256, 1024, 4096} {
		for _, delay := range []time.Duration{0, 200 * time.Microsecond, time.Millisecond} {
			for _, way := range []string{"do", "batcher"} {
				if way == "do" && delay > 0 {
					continue
				}
				b.Run(fmt.Sprintf("goroutines=%d/delay=%v/by=%s", goroutines, delay, way), func(b *testing.B) {
					onHardware(b, func(b *testing.B, _ int, p *pool.Pool) {
						benchmarkRequests(b, goroutines, hashers(b, p, delay)[way])
					}, pool.Options{Setup: hashing})
				})
			}
		}
	}
}

func benchmarkRequests(b *testing.B, goroutines int, hash func(ctx context.Context, r *hashRequest) (kernels.Digest, error)) {
	each := max(b.N/goroutines, 1)
	took := make([]time.Duration, goroutines*each)
	serve := func(n int) {
		var callers sync.WaitGroup
		for g := range goroutines {
			callers.Go(func() {
				r := newHashRequest(g)
				for i := range n {
					began := time.Now()
					if _, err := hash(context.Background(), &r); err != nil {
						b.Error(err)
						return
					}
					took[(g*each+i)%len(took)] = time.Since(began)
				}
			})
		}
		callers.Wait()
	}
	for range 20 { // until all devices have loaded the kernel, and all streams are made
		serve(1)
	}
	b.ResetTimer()
	serve(each)
	b.StopTimer()
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "req/s")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}
