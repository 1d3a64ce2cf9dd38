package pool_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// tripleBatch is a batch function: triple, with an error for each item that is divisible by 100.
func tripleBatch(w *pool.Worker, in, out []uint32, errs []error) error {
	for i, x := range in {
		if x%100 == 0 {
			errs[i] = errData
		}
	}
	return triple(w, in, out)
}

// Thousands of requests of many goroutines, over several devices: each gets its own answer.
func TestBatcherOnDevices(t *testing.T) {
	p, gpu := open(t, machine(3))
	b, err := pool.NewBatcher(p, tripleBatch, pool.BatcherConfig[uint32, uint32]{MaxItems: 64, MaxDelay: time.Millisecond})
	require.NoError(t, err)
	var callers sync.WaitGroup
	const goroutines, each = 50, 60
	for g := range uint32(goroutines) {
		callers.Go(func() {
			for i := range uint32(each) {
				x := g*each + i
				out, err := b.Do(context.Background(), x)
				if x%100 == 0 {
					assert.ErrorIs(t, err, errData)
				} else {
					assert.NoError(t, err)
					assert.Equal(t, 3*x+1, out)
				}
			}
		})
	}
	callers.Wait()
	require.NoError(t, b.Close())
	s := b.Stats()
	assert.EqualValues(t, goroutines*each*99/100, s.Done)
	assert.EqualValues(t, goroutines*each/100, s.Failed)
	assert.Less(t, s.Sizes.Count(), uint64(goroutines*each/2), "batches")
	assert.EqualValues(t, s.Sizes.Count(), gpu.Calls("cuMemcpyHtoDAsync"), "one upload for each batch")
}

// Without CUDA, and where the devices fail, the fallback does whole batches.
func TestBatcherFallsBack(t *testing.T) {
	fails := func(*pool.Worker, []uint32, []uint32, []error) error { return errDevice }
	config := pool.BatcherConfig[uint32, uint32]{Fallback: func(_ context.Context, in, out []uint32, errs []error) error {
		for i, x := range in {
			if out[i] != 0 || errs[i] != nil {
				return errors.New("what the devices have left behind")
			}
			out[i] = 3*x + 1
		}
		return nil
	}}
	here, _ := open(t, machine(1))
	for name, p := range map[string]*pool.Pool{"none": without(t), "fails": here} {
		b, err := pool.NewBatcher(p, func(w *pool.Worker, in, out []uint32, errs []error) error {
			out[0], errs[0] = 77, errData
			return fails(w, in, out, errs)
		}, config)
		require.NoError(t, err)
		out, errs := b.DoAll(context.Background(), count(10))
		assert.Equal(t, tripled(10), out, name)
		assert.Equal(t, make([]error, 10), errs, name)
		require.NoError(t, b.Close())

		config := config
		config.Fallback = nil
		b, err = pool.NewBatcher(p, fails, config)
		require.NoError(t, err)
		_, err = b.Do(context.Background(), 1)
		if name == "none" {
			assert.ErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
		} else {
			assert.ErrorIs(t, err, errDevice)
		}
		require.NoError(t, b.Close())
	}
}

var errDevice = errors.New("the device fails")

// With Retry another device repeats a batch, from the start.
func TestBatcherRetries(t *testing.T) {
	p, _ := open(t, machine(2))
	var mu sync.Mutex
	tries := 0
	b, err := pool.NewBatcher(p, func(w *pool.Worker, in, out []uint32, errs []error) error {
		mu.Lock()
		defer mu.Unlock()
		if tries++; tries == 1 {
			out[0], errs[0] = 77, errData
			panic(errDevice)
		}
		return nil
	}, pool.BatcherConfig[uint32, uint32]{Retry: 1})
	require.NoError(t, err)
	out, err := b.Do(context.Background(), 5)
	assert.NoError(t, err)
	assert.Zero(t, out)
	assert.Equal(t, 2, tries)
	require.NoError(t, b.Close())
}

// A batch function that uses its pool is refused, and so is one that closes it.
func TestBatcherUsesItsPool(t *testing.T) {
	p, _ := open(t, machine(1), pool.Options{Streams: 1})
	var errs []error
	b, err := pool.NewBatcher(p, func(w *pool.Worker, _, _ []int, _ []error) error {
		_, nested := p.Do(w.CallContext(), func(*pool.Worker) error { return nil })
		errs = append(errs, nested, p.Shutdown(w.CallContext()))
		return nil
	}, pool.BatcherConfig[int, int]{})
	require.NoError(t, err)
	_, err = b.Do(context.Background(), 1)
	require.NoError(t, err)
	for _, err := range errs {
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	}
	require.NoError(t, p.Close())
	_, err = b.Do(context.Background(), 1)
	assert.ErrorIs(t, err, driver.ErrClosed)
	require.NoError(t, b.Close())
}

// Requests of many goroutines become batches of a device.
func ExampleBatcher() {
	gpu := drivertest.New(drivertest.Config{Devices: drivertest.Devices(1, drivertest.H100())})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(gpu))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	p, err := pool.Open(rt)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	b, err := pool.NewBatcher(p, func(w *pool.Worker, in, out []int, errs []error) error {
		for i, x := range in { // upload in, launch on w.Stream(), download out, wait
			if x < 0 {
				errs[i] = fmt.Errorf("%d is negative", x)
			}
			out[i] = x * x
		}
		return nil
	}, pool.BatcherConfig[int, int]{MaxItems: 100, MaxDelay: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()

	answers := make([]string, 4)
	var requests sync.WaitGroup
	for i := range answers {
		requests.Go(func() {
			square, err := b.Do(context.Background(), 2-i)
			answers[i] = fmt.Sprint(square, " ", err)
		})
	}
	requests.Wait()
	for _, a := range answers {
		fmt.Println(a)
	}
	// Output:
	// 4 <nil>
	// 1 <nil>
	// 0 <nil>
	// 1 -1 is negative
}
