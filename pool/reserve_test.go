package pool_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

const gib = 1 << 30 // a device of machine has 16

// held is a request that runs until it is released.
type held struct {
	inside  chan int // the device
	release chan struct{}
	ended   chan error
}

// hold begins a request on a goroutine of its own.
func hold(ctx context.Context, p *pool.Pool, options ...pool.DoOptions) *held {
	h := &held{make(chan int, 1), make(chan struct{}), make(chan error, 1)}
	go func() {
		_, err := p.Do(ctx, func(w *pool.Worker) error {
			h.inside <- w.Device().Ordinal
			<-h.release
			return nil
		}, options...)
		h.ended <- err
	}()
	return h
}

// end lets the request end.
func (h *held) end(t *testing.T) {
	t.Helper()
	close(h.release)
	require.NoError(t, <-h.ended)
}

// runs waits until the request runs.
func (h *held) runs(t *testing.T) int {
	t.Helper()
	select {
	case device := <-h.inside:
		return device
	case err := <-h.ended:
		require.NoError(t, err)
	case <-time.After(patience):
		require.Fail(t, "it does not run")
	}
	return -1
}

// queued waits until so many requests wait.
func queued(t *testing.T, p *pool.Pool, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return p.Stats().Queued == n }, patience, 100*time.Microsecond)
}

func TestReserveWaitsForMemory(t *testing.T) {
	p, _ := open(t, machine(1))
	ctx := context.Background()
	first := hold(ctx, p, pool.DoOptions{Label: "a", Reserve: 8 * gib})
	first.runs(t)
	second := hold(ctx, p, pool.DoOptions{Label: "b", Reserve: 8 * gib})
	queued(t, p, 1)
	assert.Equal(t, map[string]uint64{"a": 8 * gib}, p.Stats().Devices[0].ReservedBy)
	_, err := p.Do(ctx, func(*pool.Worker) error { return nil })
	assert.NoError(t, err, "who reserves nothing does not wait")

	leaves, cancel := context.WithCancelCause(ctx)
	third := hold(leaves, p, pool.DoOptions{Label: "c", Reserve: 10 * gib})
	queued(t, p, 2)
	cancel(errData)
	assert.ErrorIs(t, <-third.ended, errData)
	first.end(t)
	second.runs(t)
	second.end(t)
	assert.Zero(t, p.Stats().Devices[0].Reserved)
	assert.Empty(t, p.Stats().Devices[0].ReservedBy)
}

// Where nothing may wait, the error says what is reserved.
func TestReserveWithoutAQueue(t *testing.T) {
	p, _ := open(t, machine(1), pool.Options{Queue: -1})
	ctx := context.Background()
	second := hold(ctx, p, pool.DoOptions{Label: "b", Reserve: 8 * gib})
	second.runs(t)
	_, err := p.Do(ctx, func(*pool.Worker) error { return nil }, pool.DoOptions{Label: "c", Reserve: 7 * gib})
	var refused *pool.ReserveError
	require.ErrorAs(t, err, &refused)
	limit := uint64(16*gib) / 10 * 9
	assert.Equal(t, pool.ReserveError{Label: "c", Bytes: 7 * gib, Reserved: 8 * gib, Limit: limit}, *refused)
	assert.ErrorIs(t, err, driver.ErrOutOfMemory)
	assert.ErrorContains(t, err, fmt.Sprintf(`7516192768 bytes for "c" cannot be reserved on device 0: 8589934592 of %d bytes of the device are reserved`, limit))
	second.end(t)
}

func TestReserveTakesTheDeviceWithRoom(t *testing.T) {
	p, _ := open(t, machine(2))
	ctx := context.Background()
	first := hold(ctx, p, pool.DoOptions{Label: "a", Reserve: 8 * gib})
	one := first.runs(t)
	busy := hold(ctx, p, pool.DoOptions{Devices: []int{1 - one}, Cost: time.Hour})
	other := busy.runs(t)
	second := hold(ctx, p, pool.DoOptions{Label: "a", Reserve: 8 * gib})
	assert.Equal(t, other, second.runs(t), "the other one would be free sooner")
	for _, h := range []*held{first, busy, second} {
		h.end(t)
	}
}

func TestReserveByQuota(t *testing.T) {
	p, _ := open(t, machine(1), pool.Options{Quotas: map[string]uint64{"batch": 4 * gib, "web": 2 * gib}})
	ctx := context.Background()
	first := hold(ctx, p, pool.DoOptions{Label: "batch", Reserve: 3 * gib})
	first.runs(t)
	second := hold(ctx, p, pool.DoOptions{Label: "batch", Reserve: 2 * gib})
	queued(t, p, 1)
	web := hold(ctx, p, pool.DoOptions{Label: "web", Reserve: 2 * gib})
	web.runs(t) // which does not wait for the quota of others
	_, err := p.Do(ctx, func(*pool.Worker) error { return nil }, pool.DoOptions{Label: "batch", Reserve: 5 * gib})
	var never *pool.ReserveError
	require.ErrorAs(t, err, &never)
	assert.True(t, never.Quota)
	assert.EqualValues(t, 4*gib, never.Limit)
	assert.ErrorContains(t, err, `0 of 4294967296 bytes of the label "batch"`)
	web.end(t)
	first.end(t)
	second.runs(t)
	second.end(t)
}

// What fits on no device goes to the fallback, or fails at once.
func TestReserveTooMuch(t *testing.T) {
	p, _ := open(t, machine(2))
	_, err := p.Do(context.Background(), func(*pool.Worker) error { return nil }, pool.DoOptions{Label: "a", Reserve: 15 * gib})
	var never *pool.ReserveError
	require.ErrorAs(t, err, &never)
	report, err := p.Do(context.Background(), func(*pool.Worker) error { return nil }, pool.DoOptions{Label: "a", Reserve: 15 * gib,
		Fallback: func(context.Context) error { return nil }})
	require.NoError(t, err)
	assert.Equal(t, pool.OnCPU, report.Where)
	assert.Equal(t, pool.NoMemory, report.Reason)
	assert.ErrorIs(t, report.Err, driver.ErrOutOfMemory)
}

// A request that needs much gets its turn before small ones that come after it.
func TestReserveInTurn(t *testing.T) {
	p, _ := open(t, machine(1))
	ctx := context.Background()
	first := hold(ctx, p, pool.DoOptions{Label: "a", Reserve: 10 * gib})
	first.runs(t)
	large := hold(ctx, p, pool.DoOptions{Label: "a", Reserve: 14 * gib})
	queued(t, p, 1)
	small := hold(ctx, p, pool.DoOptions{Label: "a", Reserve: gib})
	queued(t, p, 2)
	first.end(t)
	large.runs(t)
	assert.Empty(t, small.inside)
	large.end(t)
	small.runs(t)
	small.end(t)
}

// What others have taken is not there, and when they free it somebody notices.
func TestReserveOfWhatIsFree(t *testing.T) {
	p, gpu := open(t, machine(1))
	ctx := context.Background()
	_, err := p.Do(ctx, func(*pool.Worker) error { return nil }) // opens the context
	require.NoError(t, err)
	other, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(gpu))
	require.NoError(t, err)
	c, err := other.Context(0)
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	x, err := runtime.Alloc[byte](s, 12*gib)
	require.NoError(t, err)
	waits := hold(ctx, p, pool.DoOptions{Label: "a", Reserve: 6 * gib})
	queued(t, p, 1)
	assert.EqualValues(t, 4*gib/10*9, p.Stats().Devices[0].ReserveLimit)
	require.NoError(t, x.Close())
	require.NoError(t, s.Synchronize(ctx))
	require.NoError(t, c.TrimMemory(0))
	waits.runs(t)
	waits.end(t)
	require.NoError(t, other.Close())
}

// What requests have allocated of what they have reserved does not count twice.
func TestReserveAndAllocate(t *testing.T) {
	p, _ := open(t, machine(1))
	ctx := context.Background()
	var keeps *runtime.Ref[byte] // 2 GiB for as long as the service runs
	_, err := p.Do(ctx, func(w *pool.Worker) (err error) {
		keeps, err = runtime.Alloc[byte](w.Stream(), 2*gib)
		return err
	})
	require.NoError(t, err)
	var inside, ended sync.WaitGroup
	release := make(chan struct{})
	for range 2 {
		inside.Add(1)
		ended.Go(func() {
			_, err := p.Do(ctx, func(w *pool.Worker) error {
				x, err := runtime.Alloc[byte](w.Stream(), 4*gib)
				inside.Done()
				if err != nil {
					return err
				}
				<-release
				return x.Close()
			}, pool.DoOptions{Label: "a", Reserve: 4 * gib})
			assert.NoError(t, err)
		})
	}
	inside.Wait()
	time.Sleep(20 * time.Millisecond) // the figures are asked again
	third := hold(ctx, p, pool.DoOptions{Label: "a", Reserve: 4 * gib})
	third.runs(t)
	assert.EqualValues(t, 14*gib/10*9, p.Stats().Devices[0].ReserveLimit)
	third.end(t)
	close(release)
	ended.Wait()
	require.NoError(t, keeps.Close())
}

// A device that fails gets its reservation back, and the request reserves on the next one.
func TestReserveAndRetry(t *testing.T) {
	p, _ := open(t, machine(2))
	var devices []int
	_, err := p.Do(context.Background(), func(w *pool.Worker) error {
		devices = append(devices, w.Device().Ordinal)
		for _, d := range p.Stats().Devices {
			want := uint64(0)
			if d.Device.Ordinal == w.Device().Ordinal {
				want = gib
			}
			assert.Equal(t, want, d.Reserved)
		}
		if len(devices) == 1 {
			panic("fails")
		}
		return nil
	}, pool.DoOptions{Retry: 1, Label: "a", Reserve: gib})
	require.NoError(t, err)
	assert.ElementsMatch(t, []int{0, 1}, devices)
}

// Requests of several labels and sizes, some of which leave: what is reserved never exceeds the limits, and
// every one gets its answer.
func TestReserveCampaign(t *testing.T) {
	seeds.Run(t, seeds.Count(60, 300, 300), func(seed uint64) reserving { return reserving{seed} })
}

type reserving struct{ seed uint64 }

func (r reserving) Describe() string { return "" }

func (r reserving) Run() (err error) {
	chance := rand.New(rand.NewPCG(r.seed, 0x5e5e))
	gpu := drivertest.New(machine(1 + chance.IntN(3)))
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(gpu))
	if err != nil {
		return err
	}
	queue := 100
	if chance.IntN(5) == 0 {
		queue = -1
	}
	p, err := pool.Open(rt, pool.Options{Quotas: map[string]uint64{"a": 5 * gib}, Streams: 1 + chance.IntN(4), Queue: queue})
	if err != nil {
		return err
	}
	var wrong atomic.Pointer[error]
	found := func(err error) { wrong.CompareAndSwap(nil, &err) }
	var all sync.WaitGroup
	for range 2 + chance.IntN(20) {
		label, bytes := []string{"a", "b", ""}[chance.IntN(3)], chance.Uint64N(6*gib)
		ctx, cancel := context.WithCancel(context.Background())
		leaves, works := chance.IntN(4) == 0, time.Duration(chance.IntN(400))*time.Microsecond
		if leaves {
			time.AfterFunc(time.Duration(chance.IntN(500))*time.Microsecond, cancel)
		}
		all.Go(func() {
			defer cancel()
			_, err := p.Do(ctx, func(w *pool.Worker) error {
				d := p.Stats().Devices[w.Index()]
				if d.Reserved > d.ReserveLimit || d.ReservedBy["a"] > 5*gib || d.ReservedBy[label] < bytes {
					found(fmt.Errorf("%+v", d))
				}
				time.Sleep(works)
				return nil
			}, pool.DoOptions{Label: label, Reserve: bytes})
			switch {
			case err == nil:
			case leaves && errors.Is(err, context.Canceled):
			case queue < 0 && (errors.Is(err, pool.ErrQueueFull) || errors.Is(err, driver.ErrOutOfMemory)):
			case label == "a" && bytes > 5*gib && errors.Is(err, driver.ErrOutOfMemory):
			default:
				found(err)
			}
		})
	}
	all.Wait()
	for _, d := range p.Stats().Devices {
		if d.Reserved > 0 || len(d.ReservedBy) > 0 {
			found(fmt.Errorf("left: %+v", d))
		}
	}
	if p.Stats().Queued > 0 {
		found(errors.New("left in the queue"))
	}
	if first := wrong.Load(); first != nil {
		err = *first
	}
	return errors.Join(err, p.Close(), rt.Close(), gpu.Close())
}
