package job

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A device that fails in the middle ends the job, and the error names it. Cores that hash beside do not take over.
func TestAPlaceThatFails(t *testing.T) {
	noLeaks(t)
	in := mustList(t, writeTree(t, map[string]string{"a": strings.Repeat("x", 4<<20)}))
	for _, cores := range []int{0, 2} {
		var failed atomic.Int64
		called := make(chan struct{})
		engine := Engine(&fakeEngine{devices: 3, workers: 2, batch: 64 << 10, hash: func(_ context.Context, place int, _ []Digest) error {
			if failed.CompareAndSwap(0, int64(place)+1) {
				close(called)
				return errInjected
			}
			return nil
		}})
		if cores > 0 {
			engine = WithCPU(engine, cores)
		}
		_, err := Run(context.Background(), in, engine, Options{ChunkBytes: 4096, BatchBytes: 16 << 10, Progress: func(int64, int64) {
			select { // the cores may be faster
			case <-called:
			case <-time.After(20 * time.Millisecond):
			}
		}})
		require.ErrorIs(t, err, EngineFailed)
		require.ErrorIs(t, err, errInjected)
		assert.ErrorContains(t, err, fmt.Sprintf("fake %d: hashing ", failed.Load()-1))
	}
}

func TestWithCPU(t *testing.T) {
	noLeaks(t)
	folder := writeTree(t, map[string]string{"a": strings.Repeat("x", 8<<20), "b": "y"})
	want, _ := naiveRoot(t, folder, 1000, 0)
	fake := &fakeEngine{workers: 2, batch: 1 << 20}
	both := WithCPU(fake, 3)
	assert.Equal(t, "fake and cpu", both.Name())
	result, err := Run(context.Background(), mustList(t, folder), both, Options{ChunkBytes: 1000})
	require.NoError(t, err)
	assert.Equal(t, want, result.Root)
	assert.Equal(t, 5, result.Workers)
	require.Len(t, result.Shares, 2)
	assert.Equal(t, []string{"fake 0", "cpu"}, []string{result.Shares[0].Name, result.Shares[1].Name})
	assert.Equal(t, []int{2, 3}, []int{result.Shares[0].Workers, result.Shares[1].Workers})
	assert.Equal(t, result.Bytes, result.Shares[0].Bytes+result.Shares[1].Bytes)
	assert.Equal(t, fake.opened.Load(), fake.closed.Load())
}

// Few workers are spread over the places. Devices have the same number.
func TestDeal(t *testing.T) {
	places := []Place{{Workers: 4}, {Workers: 4}, {Workers: 2, CPU: true}}
	for _, tt := range []struct {
		n      int
		wishes bool
		want   []int
	}{
		{1, true, []int{1, 0, 0}}, {2, true, []int{1, 1, 0}}, {4, true, []int{1, 1, 1}}, {5, true, []int{2, 2, 1}}, {9, true, []int{3, 3, 2}},
		{20, true, []int{4, 4, 2}}, {20, false, []int{7, 7, 6}},
	} {
		var got []int
		for _, share := range deal(places, tt.n, tt.wishes) {
			got = append(got, share.Workers)
		}
		assert.Equal(t, tt.want, got, "%d", tt.n)
	}
}

// The CPU alone takes no more memory than one GPU with 16 workers of 4 MiB, up to 128 cores.
func TestCPUTakesNoMoreMemoryThanAGPU(t *testing.T) {
	large := &Input{Files: []File{{Size: 1 << 40}}}
	gpu := large.layout(4096, 16, 4<<20)
	for _, cores := range []int{1, 2, 16, 64, 128} {
		place := NewCPU(cores).Places()[0]
		assert.LessOrEqual(t, large.layout(4096, place.Workers, place.BatchBytes).bytes(), gpu.bytes(), "%d cores", cores)
	}
}

func TestBusyIsTheUnion(t *testing.T) {
	var b Busy
	b.Add(5, 5)
	b.Add(7, 6)
	assert.Zero(t, b.Total())
	b.Add(10, 20)
	b.Add(15, 30)
	b.Add(12, 14)
	b.Add(40, 50)
	b.Add(0, 5)
	assert.EqualValues(t, 35, b.Total())
	b.Add(5, 60)
	assert.EqualValues(t, 60, b.Total())

	// In any order of neighbours, and more than are kept apart.
	r := rand.New(rand.NewPCG(1, 2))
	var covered [20000]bool
	var c Busy
	for i := 0; i < len(covered)-60; i += 7 {
		from := max(i+r.IntN(40)-20, 0)
		to := from + r.IntN(9)
		c.Add(time.Duration(from), time.Duration(to))
		for k := from; k < to; k++ {
			covered[k] = true
		}
	}
	want := 0
	for _, yes := range covered {
		if yes {
			want++
		}
	}
	assert.EqualValues(t, want, c.Total())
}

// The sample depends on the seed, and not on batches and workers.
func TestTheSampleIsTheSameEverywhere(t *testing.T) {
	folder := writeTree(t, map[string]string{"a": strings.Repeat("x", 4<<20)})
	in := mustList(t, folder)
	verify := Verify{mode: verifySample, fraction: 0.3, Seed: 7}
	var counts []int64
	for _, batch := range []int{0, 4096, 100_000} {
		for _, engine := range []Engine{NewCPU(1), WithCPU(&fakeEngine{devices: 2, workers: 3}, 2)} {
			result, err := Run(context.Background(), in, engine, Options{ChunkBytes: 4096, Verify: verify, BatchBytes: batch})
			require.NoError(t, err)
			counts = append(counts, result.Verified)
		}
	}
	for _, n := range counts {
		assert.Equal(t, counts[0], n)
	}
	assert.InDelta(t, 0.3*1024, counts[0], 60)
	assert.True(t, verify.picks(0))
}
