package arena_test

import (
	"bufio"
	"embed"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// The allocation logs. A line is one action, # begins a comment:
//
//	a ID STREAM BYTES   allocate a block on a stream; both have numbers
//	f ID STREAM         free the block on a stream, which need not be that of before
//	w STREAM OTHER      later work on the stream waits for the other one
//
// IDs come again once they are free. job.log is what cmd/smoke's workers allocate, training.log a training-like mix.
// sizes.log, growing.log and service.log are hard for an allocator that wants few pieces. replay_generate_test.go writes
// all of them.
//
//go:embed testdata/*.log
var logs embed.FS

var logNames = []string{"job", "training", "sizes", "growing", "service"}

// action is a line of a log.
type action struct {
	kind       byte // a, f or w
	id, stream int
	other      int
	bytes      uint64
}

// allocationLog is a log with the room that it needs.
type allocationLog struct {
	name         string
	actions      []action
	ids, streams int
	// peak is the most that was asked for at one time, which no allocator gets below.
	peak uint64
}

func readLog(t testing.TB, name string) *allocationLog {
	t.Helper()
	f, err := logs.Open("testdata/" + name + ".log")
	require.NoError(t, err)
	defer f.Close()
	l := &allocationLog{name: name}
	sizes := map[int]uint64{}
	var now uint64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		var n [3]uint64
		for i, field := range fields[1:] {
			n[i], err = strconv.ParseUint(field, 10, 64)
			require.NoError(t, err, "%q", line)
		}
		a := action{kind: fields[0][0], id: int(n[0]), stream: int(n[1]), bytes: n[2]}
		switch {
		case a.kind == 'a' && len(fields) == 4:
			require.NotContains(t, sizes, a.id, "%q", line)
			sizes[a.id] = a.bytes
			now += a.bytes
		case a.kind == 'f' && len(fields) == 3:
			require.Contains(t, sizes, a.id, "%q", line)
			now -= sizes[a.id]
			delete(sizes, a.id)
		case a.kind == 'w' && len(fields) == 3:
			a.id, a.stream, a.other = 0, int(n[0]), int(n[1])
		default:
			require.FailNow(t, "not an action", "%q", line)
		}
		l.peak = max(l.peak, now)
		l.ids, l.streams = max(l.ids, a.id+1), max(l.streams, a.stream+1, a.other+1)
		l.actions = append(l.actions, a)
	}
	require.Empty(t, sizes, "a log frees all it allocates")
	return l
}

// replay does what a log says once.
func (l *allocationLog) replay(streams []*arena.Stream, blocks []arena.Block) error {
	for _, a := range l.actions {
		var err error
		switch a.kind {
		case 'a':
			blocks[a.id], err = streams[a.stream].Alloc(a.bytes)
		case 'f':
			err = streams[a.stream].Free(blocks[a.id])
		case 'w':
			err = streams[a.stream].Wait(streams[a.other])
		}
		if err != nil {
			return fmt.Errorf("%c %d: %w", a.kind, a.id, err)
		}
	}
	return nil
}

// replayDriver is replay with the driver's allocator alone.
func (l *allocationLog) replayDriver(m *machine, streams []*arena.Stream, ptrs []driver.DevicePtr) error {
	for _, a := range l.actions {
		r := driver.Success
		switch s := streams[a.stream]; a.kind {
		case 'a':
			ptrs[a.id], r = m.API.MemAllocAsync(a.bytes, s.Handle())
		case 'f':
			r = m.API.MemFreeAsync(ptrs[a.id], s.Handle())
		case 'w':
			if err := s.Wait(streams[a.other]); err != nil {
				return err
			}
		}
		if r != driver.Success {
			return m.Failed("replay", r)
		}
	}
	return nil
}

// report tells what a replay needed, beside the least that is possible.
func report(b *testing.B, l *allocationLog, peak uint64) {
	b.ReportMetric(float64(peak), "peak-bytes")
	b.ReportMetric(float64(peak)/float64(l.peak), "peak/asked")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(l.actions)), "ns/action")
}

// BenchmarkReplay replays the logs: on the arena, with a cache that holds all of it and
// with the default one, and on cuMemAllocAsync of the device's own pool, which keeps all
// that it had. One op is one log.
func BenchmarkReplay(b *testing.B) {
	benchMachines(b, func(b *testing.B, m *machine) {
		for _, name := range logNames {
			l := readLog(b, name)
			for _, cache := range []struct {
				name  string
				bytes uint64
			}{{"all", 1 << 40}, {"default", 0}} {
				b.Run("log="+name+"/impl=arena/cache="+cache.name, func(b *testing.B) {
					d := m.device(b, arena.DeviceConfig{CacheBytes: cache.bytes})
					streams := m.streams(b, d, l.streams)
					blocks := make([]arena.Block, l.ids)
					var asked, given uint64
					require.NoError(b, l.replay(streams, blocks))
					for _, a := range l.actions {
						if a.kind == 'a' {
							asked += a.bytes
							given += classSize(a.bytes)
						}
					}
					b.ReportAllocs()
					b.ResetTimer()
					for range b.N {
						if err := l.replay(streams, blocks); err != nil {
							b.Fatal(err)
						}
					}
					b.StopTimer()
					stats := d.Stats()
					report(b, l, stats.HighWater)
					b.ReportMetric(100*hitRate(stats), "hit%")
					b.ReportMetric(100*(1-float64(asked)/float64(given)), "waste%")
				})
			}
			if _, simulated := m.API.(poolWatch).API.(*drivertest.Driver); simulated {
				continue // its allocator would be no measure
			}
			b.Run("log="+name+"/impl=cuMemAllocAsync", func(b *testing.B) {
				d := m.device(b, arena.DeviceConfig{})
				streams := m.streams(b, d, l.streams)
				pool, r := m.API.DeviceGetDefaultMemPool(driver.Device(m.Ordinal))
				require.Equal(b, driver.Success, r)
				require.Equal(b, driver.Success, m.API.MemPoolSetAttribute(pool, driver.MemPoolReleaseThreshold, 1<<63))
				ptrs := make([]driver.DevicePtr, l.ids)
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					if err := l.replayDriver(m, streams, ptrs); err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				peak, r := m.API.MemPoolGetAttribute(pool, driver.MemPoolReservedMemHigh)
				require.Equal(b, driver.Success, r)
				report(b, l, peak)
				require.NoError(b, m.Do(func() error {
					return m.Failed("cuCtxSynchronize", m.API.CtxSynchronize())
				}))
				require.Equal(b, driver.Success, m.API.MemPoolSetAttribute(pool, driver.MemPoolReleaseThreshold, 0))
				require.NoError(b, m.Do(func() error {
					return m.Failed("cuMemPoolTrimTo", m.API.MemPoolTrimTo(pool, 0))
				}))
				m.API.MemPoolSetAttribute(pool, driver.MemPoolReservedMemHigh, 0)
			})
		}
	})
}

// streams makes several.
func (m *machine) streams(t testing.TB, d *arena.Device, n int) (all []*arena.Stream) {
	for range n {
		all = append(all, m.stream(t, d))
	}
	return all
}

// classSize is the size of the class for bytes, in another way than the arena finds it.
func classSize(bytes uint64) uint64 {
	if bytes <= 1024 {
		return (bytes + 511) / 512 * 512
	}
	step := uint64(128)
	for bytes > 16*step {
		step *= 2
	}
	return (bytes + step - 1) / step * step
}

// TestReplay replays the logs and looks at what they need.
func TestReplay(t *testing.T) {
	// The most that the arena may hold without a limit, as a multiple of the most that is asked for at a time.
	most := map[string]float64{"job": 1.25, "training": 1.15, "sizes": 1.4, "growing": 3, "service": 3.5}
	for _, name := range logNames {
		l := readLog(t, name)
		for _, noPools := range []bool{false, true} {
			m := newMachine(t, drivertest.ForTest(t, drivertest.Config{}))
			d := m.device(t, arena.DeviceConfig{CacheBytes: 1 << 40, NoPools: noPools})
			streams, blocks := m.streams(t, d, l.streams), make([]arena.Block, l.ids)
			for range 3 {
				require.NoError(t, l.replay(streams, blocks))
			}
			stats := exact(t, d)
			assert.Zero(t, stats.InUse)
			for _, a := range l.actions {
				if a.kind == 'a' && a.bytes > 1024 {
					assert.LessOrEqual(t, float64(classSize(a.bytes)), 1.125*float64(a.bytes))
				}
			}
			assert.Greater(t, hitRate(stats), 0.6)
			assert.Less(t, float64(stats.HighWater)/float64(l.peak), most[name], name)
			t.Logf("%s: %d actions, %d bytes asked at most, %d held: %.3f, hit rate %.3f",
				name, len(l.actions), l.peak, stats.HighWater, float64(stats.HighWater)/float64(l.peak), hitRate(stats))
		}
	}
}

// hitRate is the part of the allocations that needed no memory from the driver.
func hitRate(s arena.DeviceStats) float64 {
	return float64(s.Hits+s.Shared) / float64(s.Hits+s.Shared+s.Misses)
}
