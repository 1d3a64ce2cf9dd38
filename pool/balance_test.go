package pool_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/pool"
)

// The tests of this file run on the clock of synctest, which moves only while all
// goroutines wait: times are exact, and say nothing about the machine.

// paced does items at a given number per second on each device.
func paced(work *done, perSecond ...float64) func(*pool.Worker, pool.Tile) error {
	return func(w *pool.Worker, tile pool.Tile) error {
		work.note(tile)
		time.Sleep(time.Duration(float64(tile.Len()) / perSecond[w.Index()] * float64(time.Second)))
		return nil
	}
}

func sum(speeds []float64) (all float64) {
	for _, s := range speeds {
		all += s
	}
	return all
}

// One slow device out of four, which nobody knew to be slow: the throughput is within
// 15 % of what the devices can do together, and each does what fits its speed.
func TestOneSlowDeviceOfFour(t *testing.T) {
	for _, slow := range []float64{0.9, 0.5, 0.25, 0.1, 0.05} {
		for _, n := range []int{20_000, 200_000} {
			synctest.Test(t, func(t *testing.T) {
				p, _ := open(t, machine(4))
				speeds := []float64{1000, 1000, 1000 * slow, 1000}
				work := newDone(n)
				report, err := p.Scatter(t.Context(), n, paced(work, speeds...))
				require.NoError(t, err)
				work.once(t)
				ideal := float64(n) / sum(speeds)
				t.Logf("speed %.2f, %6d items: %4.1f %% over the ideal time, %d calls, items of each device: %v",
					slow, n, 100*(report.Wall.Seconds()/ideal-1), len(work.calls), work.by)
				assert.Less(t, ideal/report.Wall.Seconds(), 1.0001)
				assert.Greater(t, ideal/report.Wall.Seconds(), 0.85)
			})
		}
	}
}

// Devices of any speeds: nobody waits long for another.
func TestUnevenDevices(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	worst := 1.0
	for range 60 {
		speeds := make([]float64, 2+chance.IntN(7))
		for i := range speeds {
			speeds[i] = 100 * (1 + 9*chance.Float64())
		}
		n := 2000 * len(speeds) * (1 + chance.IntN(5))
		synctest.Test(t, func(t *testing.T) {
			p, _ := open(t, machine(len(speeds)))
			work := newDone(n)
			report, err := p.Scatter(t.Context(), n, paced(work, speeds...))
			require.NoError(t, err)
			work.once(t)
			worst = min(worst, float64(n)/sum(speeds)/report.Wall.Seconds())
		})
	}
	t.Logf("worst throughput: %.3f of the ideal", worst)
	assert.Greater(t, worst, 0.85)
}

// A device that gets slow in the middle is helped as well.
func TestDeviceThatGetsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(4))
		const n, perSecond = 100_000, 1000.0
		start := time.Now()
		work := newDone(n)
		report, err := p.Scatter(t.Context(), n, func(w *pool.Worker, tile pool.Tile) error {
			work.note(tile)
			speed := perSecond
			if w.Index() == 3 && time.Since(start) > 10*time.Second {
				speed /= 10
			}
			time.Sleep(time.Duration(float64(tile.Len()) / speed * float64(time.Second)))
			return nil
		})
		require.NoError(t, err)
		work.once(t)
		ideal := 10 + (n-4*10*perSecond)/(3.1*perSecond)
		t.Logf("%.1f s, at least %.1f", report.Wall.Seconds(), ideal)
		assert.Greater(t, ideal/report.Wall.Seconds(), 0.85)
	})
}

// Devices that are ready late, because their context takes its time, find their tile,
// and those that were early come back to help.
func TestDeviceThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(2), pool.Options{Setup: []pool.Setup{pool.PerStream(func(w *pool.Worker) (int, error) {
			if w.Index() == 0 {
				time.Sleep(50 * time.Second)
			}
			return 0, nil
		})}})
		const n = 20_000
		work := newDone(n)
		report, err := p.Scatter(t.Context(), n, paced(work, 1000, 1000))
		require.NoError(t, err)
		work.once(t)
		t.Logf("%v, items of each device: %v", report.Wall, work.by)
		assert.Less(t, report.Wall, 57*time.Second)
	})
}

// Items of unequal cost keep all cores busy.
func TestUnequalItemsOnTheCPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 4096
		cost := func(i int) time.Duration { return time.Duration(i) * time.Millisecond }
		var cores sync.Map
		var running, most atomic.Int64
		report, err := pool.Parallel(t.Context(), n, func(_ context.Context, lo, hi int) error {
			if now := running.Add(1); now > most.Load() {
				most.Store(now)
			}
			defer running.Add(-1)
			for i := lo; i < hi; i++ {
				_, again := cores.LoadOrStore(i, true)
				assert.False(t, again)
				time.Sleep(cost(i))
			}
			return nil
		})
		require.NoError(t, err)
		checkCovers(t, n, report.Tiles)
		ideal := float64(n*(n-1)/2) / 1000 / float64(most.Load())
		t.Logf("%d cores, %.1f %% over the ideal time", most.Load(), 100*(report.Wall.Seconds()/ideal-1))
		assert.Greater(t, ideal/report.Wall.Seconds(), 0.9)
	})
}
