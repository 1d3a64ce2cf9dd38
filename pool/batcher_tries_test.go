package pool_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
)

// An item whose error says that the device fails is done again, elsewhere and on the CPU, and the others keep their
// results.
func TestBatcherItemsOfAFailingDevice(t *testing.T) {
	ecc := driver.Failed("cuLaunchKernel", driver.ResultECCUncorrectable)
	for _, c := range []struct {
		name     string
		devices  int
		bad      int // tries on a device in which every third item fails
		fallback bool
		retries  int
		sizes    []int // of the tries
		err      error
	}{
		{"no retry", 2, 9, false, 0, []int{10}, ecc},
		{"retry", 2, 1, false, 1, []int{10, 4}, nil},
		{"retry in vain", 2, 9, false, 1, []int{10, 4}, ecc},
		{"fallback", 2, 9, true, 0, []int{10, 4}, nil},
		{"retry and fallback", 3, 9, true, 2, []int{10, 4, 4, 4}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _ := open(t, machine(c.devices))
			var mu sync.Mutex
			var sizes []int
			triple := func(in, out []uint32, errs []error, bad bool) error {
				mu.Lock()
				defer mu.Unlock()
				sizes = append(sizes, len(in))
				for i, x := range in {
					if out[i] = 3*x + 1; x == 5 {
						errs[i] = errData // of the item itself
					}
					if bad && x%3 == 0 {
						out[i], errs[i] = 0, ecc
					}
				}
				return nil
			}
			config := pool.BatcherConfig[uint32, uint32]{Retry: c.retries}
			if c.fallback {
				config.Fallback = func(_ context.Context, in, out []uint32, errs []error) error { return triple(in, out, errs, false) }
			}
			tries := 0
			b, err := pool.NewBatcher(p, func(_ *pool.Worker, in, out []uint32, errs []error) error {
				tries++
				return triple(in, out, errs, tries <= c.bad)
			}, config)
			require.NoError(t, err)
			out, errs := b.DoAll(t.Context(), count(10))
			require.NoError(t, b.Close())
			assert.Equal(t, c.sizes, sizes)
			for i := range out {
				switch {
				case i == 5:
					assert.Equal(t, errData, errs[i])
				case c.err != nil && i%3 == 0:
					assert.ErrorIs(t, errs[i], c.err)
				default:
					assert.NoError(t, errs[i])
					assert.EqualValues(t, 3*i+1, out[i])
				}
			}
			failures := uint64(0)
			for _, d := range p.Stats().Devices {
				failures += d.Failures
			}
			assert.EqualValues(t, min(c.bad, tries), failures, "they count for the device")
		})
	}
}

// After a sticky error that the function writes into errs, the clients get their results from the CPU.
func TestBatcherItemsAfterALoss(t *testing.T) {
	p, gpu := open(t, machine(2))
	gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
	b, err := pool.NewBatcher(p, func(w *pool.Worker, in, out []uint32, errs []error) error {
		for i := range in {
			_, errs[i] = w.Stream().Query()
		}
		return nil
	}, pool.BatcherConfig[uint32, uint32]{Fallback: func(_ context.Context, in, out []uint32, _ []error) error {
		for i, x := range in {
			out[i] = 3*x + 1
		}
		return nil
	}})
	require.NoError(t, err)
	for range 3 {
		out, errs := b.DoAll(t.Context(), count(50))
		assert.Equal(t, tripled(50), out)
		assert.Equal(t, make([]error, 50), errs)
	}
	require.NoError(t, b.Close())
	assert.EqualValues(t, 1, p.Stats().Reasons[pool.Failed])
	assert.EqualValues(t, 2, p.Stats().Reasons[pool.Fault])
}
