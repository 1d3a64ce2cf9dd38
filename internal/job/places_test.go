package job

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowPlaces is an engine of several places that hash a batch at a time, each at its own
// rate. It hashes on the CPU, in no time, and then sleeps.
type slowPlaces struct {
	rates   []float64 // bytes per second
	workers int       // of each place
	batch   int
	fail    func(place int) error

	queue []chan struct{} // holds a token while a place hashes
	busy  []Busy
	bytes []atomic.Int64
}

func newSlowPlaces(workers, batch int, rates ...float64) *slowPlaces {
	e := &slowPlaces{rates: rates, workers: workers, batch: batch, busy: make([]Busy, len(rates)), bytes: make([]atomic.Int64, len(rates))}
	for range rates {
		e.queue = append(e.queue, make(chan struct{}, 1))
	}
	return e
}

func (e *slowPlaces) Name() string                 { return "slow" }
func (e *slowPlaces) Close() error                 { return nil }
func (e *slowPlaces) Rehasher() Rehasher           { return nil }
func (e *slowPlaces) Busy(place int) time.Duration { return e.busy[place].Total() }

func (e *slowPlaces) Places() (places []Place) {
	for i := range e.rates {
		places = append(places, Place{Name: fmt.Sprint("place ", i), Workers: e.workers, InTurn: 2, BatchBytes: e.batch})
	}
	return places
}

func (e *slowPlaces) NewWorker(_ context.Context, place int, shape Shape) (Worker, error) {
	return &slowWorker{cpuWorker: cpuWorker{buf: make([]byte, shape.Bytes), busy: new(Busy)}, e: e, place: place}, nil
}

type slowWorker struct {
	cpuWorker
	e     *slowPlaces
	place int
	done  chan error
}

func (w *slowWorker) Start(ctx context.Context, chunks []Chunk, rounds uint32) error {
	if err := w.cpuWorker.Start(ctx, chunks, rounds); err != nil {
		return err
	}
	w.done = make(chan error, 1)
	var bytes int64
	for _, c := range chunks {
		bytes += int64(c.Length)
	}
	go func() {
		w.e.queue[w.place] <- struct{}{}
		began := time.Since(epoch)
		time.Sleep(time.Duration(float64(bytes) / w.e.rates[w.place] * float64(time.Second)))
		w.e.busy[w.place].Add(began, time.Since(epoch))
		w.e.bytes[w.place].Add(bytes)
		<-w.e.queue[w.place]
		var err error
		if w.e.fail != nil {
			err = w.e.fail(w.place)
		}
		w.done <- err
	}()
	return nil
}

func (w *slowWorker) Wait(digests []Digest) error {
	if err := <-w.done; err != nil {
		return err
	}
	return w.cpuWorker.Wait(digests)
}

// However slow one device is, the others do not wait for it: the job runs at nearly the sum
// of the rates.
func TestASlowPlaceDoesNotHoldUpTheOthers(t *testing.T) {
	path := writeTree(t, map[string]string{"a": strings.Repeat("0123456789abcdef", 1<<22)}) // 64 MiB
	in := mustList(t, path)
	want, _ := naiveRoot(t, path, 128, 0)
	for _, rates := range [][]float64{
		{1, 1, 1, 1},
		{1, 1, 1, 0.5},
		{1, 1, 1, 0.1},
		{1, 0.05, 1, 1},
		{0.05, 1},
		{1, 0.5, 0.25, 0.125},
	} {
		t.Run(fmt.Sprint(rates), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sum, scaled := 0.0, make([]float64, len(rates))
				for i, rate := range rates {
					scaled[i] = rate * 1e8
					sum += scaled[i]
				}
				engine := newSlowPlaces(16, 128<<10, scaled...)
				result, err := Run(t.Context(), in, engine, Options{ChunkBytes: 128, Verify: Verify{mode: verifyNone}})
				require.NoError(t, err)
				assert.Equal(t, want, result.Root)
				ideal := float64(in.Bytes) / sum
				t.Logf("%.2f of the ideal rate", ideal/result.Elapsed.Seconds())
				assert.Less(t, result.Elapsed.Seconds(), ideal*1.15)
				var bytes, chunks int64
				for i, share := range result.Shares {
					assert.Equal(t, fmt.Sprint("place ", i), share.Name)
					assert.Equal(t, 16, share.Workers)
					assert.Equal(t, engine.bytes[i].Load(), share.Bytes)
					assert.InDelta(t, float64(share.Bytes)/scaled[i], share.Busy.Seconds(), 1e-3)
					bytes, chunks = bytes+share.Bytes, chunks+share.Chunks
				}
				assert.Equal(t, result.Bytes, bytes)
				assert.Equal(t, result.Chunks, chunks)
			})
		})
	}
}

// A device that fails in the middle ends the job, and the error names it.
func TestAPlaceThatFails(t *testing.T) {
	noLeaks(t)
	in := mustList(t, writeTree(t, map[string]string{"a": strings.Repeat("x", 4<<20)}))
	engine := newSlowPlaces(2, 64<<10, 1e9, 1e9, 1e9)
	var calls atomic.Int64
	engine.fail = func(place int) error {
		if place == 1 && calls.Add(1) == 5 {
			return errInjected
		}
		return nil
	}
	_, err := Run(context.Background(), in, engine, Options{ChunkBytes: 4096})
	require.ErrorIs(t, err, EngineFailed)
	require.ErrorIs(t, err, errInjected)
	assert.ErrorContains(t, err, "place 1: hashing ")
}

func TestTogether(t *testing.T) {
	noLeaks(t)
	folder := writeTree(t, map[string]string{"a": strings.Repeat("x", 8<<20), "b": "y"})
	want, _ := naiveRoot(t, folder, 1000, 0)
	fake := &fakeEngine{workers: 2, inTurn: 2, batch: 1 << 20, late: true}
	both := Together(fake, NewCPU(3))
	assert.Equal(t, "fake and cpu", both.Name())
	result, err := Run(context.Background(), mustList(t, folder), both, Options{ChunkBytes: 1000})
	require.NoError(t, err)
	assert.Equal(t, want, result.Root)
	assert.Equal(t, 5, result.Workers)
	require.Len(t, result.Shares, 2)
	assert.Equal(t, []string{"fake", "cpu"}, []string{result.Shares[0].Name, result.Shares[1].Name})
	assert.Equal(t, []int{2, 3}, []int{result.Shares[0].Workers, result.Shares[1].Workers})
	assert.Equal(t, result.Bytes, result.Shares[0].Bytes+result.Shares[1].Bytes)
	assert.Equal(t, fake.opened.Load(), fake.closed.Load())
	assert.NoError(t, both.Close())
	assert.ErrorIs(t, Together(closeFails{fake}, NewCPU(1)).Close(), errInjected)
}

type closeFails struct{ Engine }

func (closeFails) Close() error { return errInjected }

// Few workers are spread over the places.
func TestDeal(t *testing.T) {
	places := []Place{{Workers: 4}, {Workers: 1}, {Workers: 4}}
	assert.Equal(t, []int{1, 0, 0}, deal(places, 1, true))
	assert.Equal(t, []int{2, 1, 2}, deal(places, 5, true))
	assert.Equal(t, []int{4, 1, 4}, deal(places, 9, true))
	assert.Equal(t, []int{4, 1, 4}, deal(places, 20, true), "no place gets more than it wishes")
	assert.Equal(t, []int{7, 7, 6}, deal(places, 20, false), "but for a number that the user gives")
}

// No place takes more memory than the shape of its own batches, and chunks fit everywhere.
func TestPlacesWithBatchesOfTheirOwn(t *testing.T) {
	large := &Input{Files: []File{{Size: 1 << 40}}}
	l := large.layout(4096, 4, 4<<20)
	assert.Equal(t, 4<<20, l.shapeAt(4<<20).Bytes)
	assert.Equal(t, 1<<20, l.shapeAt(1<<20).Bytes)
	l = large.layout(16<<20, 4, 4<<20)
	assert.Equal(t, 16<<20, l.shapeAt(1<<20).Bytes)
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

func TestPaceLimits(t *testing.T) {
	full := shapeFor(1 << 20)
	p := newPace(2, full, 256)
	assert.Equal(t, 1<<16, p.limit(0, full).Bytes, "before anything is known")
	p.finished(0, 1<<20)
	assert.Equal(t, full, p.limit(0, full))
	assert.Equal(t, 1<<14, p.limit(1, full).Bytes, "it has done nothing yet")
	p.finished(1, 1<<19)
	assert.Equal(t, full, p.limit(1, full), "half as fast is fast enough")
	for range 1000 {
		p.finished(0, 1<<20)
		p.finished(1, 1<<18)
	}
	assert.InDelta(t, 1<<19, p.limit(1, full).Bytes, 1<<14)
	for range 1000 {
		p.finished(1, 1<<20)
	}
	assert.Equal(t, full, p.limit(1, full), "it has become the faster one")
	assert.Equal(t, full.Bytes, newPace(2, full, full.Bytes).limit(0, full).Bytes, "the largest chunk always fits")
	assert.Equal(t, full, newPace(1, full, 0).limit(0, full), "one place has nobody to wait for it")
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
		for _, engine := range []Engine{NewCPU(1), Together(NewCPU(2), &fakeEngine{workers: 3, late: true})} {
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
