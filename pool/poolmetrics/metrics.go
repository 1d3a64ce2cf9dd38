// Package poolmetrics reads the metrics of a pool, its batchers, its break-even sizes, and groups of child
// processes. They are a list of named numbers, as in package runtime/metrics. The adapters in contrib/ take both.
//
//	reader := poolmetrics.NewReader(p)
//	reader.AddBatcher("score", batcher)
//	for _, s := range reader.Read() {
//		send(s.Name, s.Labels, s.Value)
//	}
//
// Reading makes no call of the driver, and waits for no device. It works on a pool without CUDA, on one
// whose devices are lost, and on one that is closed.
package poolmetrics

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime/metrics"
)

// family is a metric with its samples: of the pool, or of a device, a batcher, a break-even or a group.
type family struct {
	metrics.Metric
	samples []sample
}

// sample is a value and the values of the labels, without that of what the family is of.
type sample struct {
	value  float64
	labels []string
}

func one[N uint64 | int | float64](value N) []sample { return []sample{{value: float64(value)}} }

// The labels. What they can be is bounded by the program: up_to is the upper bound of the values that are counted, all smaller
// ones included, and "+Inf" for the last one.
var (
	device  = []string{"device"}
	batcher = []string{"batcher"} // the name that AddBatcher was given
	work    = []string{"work"}    // the name of a pool.BreakEven
	group   = []string{"group"}   // the name that AddGroup was given
	child   = []string{"group", "device"}
)

const counter, sum, gauge = metrics.Counter, metrics.UpDownCounter, metrics.Gauge

// All describes all metrics, in the order in which they are read.
func All() (all []metrics.Metric) {
	for _, f := range slices.Concat(ofPool(pool.Stats{}), ofDevice(pool.DeviceStats{}), ofBatcher(pool.BatcherStats{}),
		ofBreakEven(nil), ofGroup(isolate.Stats{}), ofChild(isolate.DeviceStats{})) {
		all = append(all, f.Metric)
	}
	return all
}

func ofPool(s pool.Stats) []family {
	return []family{
		{metrics.Metric{Name: "purecuda.pool.requests", Unit: "{request}", Kind: counter, Help: "Calls that the pool has let in."}, one(s.Requests)},
		{metrics.Metric{Name: "purecuda.pool.refused", Unit: "{request}", Kind: counter, Help: "Calls that failed because they would have had to wait."}, one(s.Refused)},
		{metrics.Metric{Name: "purecuda.pool.retries", Unit: "{request}", Kind: counter, Help: "Work that was repeated on another device."}, one(s.Retries)},
		{metrics.Metric{Name: "purecuda.pool.waits", Unit: "{wait}", Kind: counter, Help: "Waits in the queue."}, one(s.Waits)},
		{metrics.Metric{Name: "purecuda.pool.wait_time", Unit: "s", Kind: counter, Help: "Time that calls have waited in the queue."}, one(s.Waited.Seconds())},
		{metrics.Metric{Name: "purecuda.pool.queue.length", Unit: "{request}", Kind: sum, Help: "Calls that wait."}, one(s.Queued)},
		{metrics.Metric{Name: "purecuda.pool.queue.capacity", Unit: "{request}", Kind: gauge, Help: "Calls that may wait."}, one(s.QueueLimit)},
		{metrics.Metric{Name: "purecuda.pool.fallbacks", Unit: "{request}", Kind: counter, Help: "Calls that the CPU or fewer devices did, by reason.", Labels: []string{"reason"}}, by(s.Reasons)},
	}
}

func ofDevice(d pool.DeviceStats) []family {
	return []family{
		{metrics.Metric{Name: "purecuda.pool.device.requests", Unit: "{request}", Kind: counter, Help: "Work that the device was given.", Labels: device}, one(d.Requests)},
		{metrics.Metric{Name: "purecuda.pool.device.failures", Unit: "{failure}", Kind: counter, Help: "Work that has failed on the device.", Labels: device}, one(d.Failures)},
		{metrics.Metric{Name: "purecuda.pool.device.busy_time", Unit: "s", Kind: counter, Help: "Time that work has taken which succeeded, of all streams together.", Labels: device}, one(d.Ran.Seconds())},
		{metrics.Metric{Name: "purecuda.pool.device.streams", Unit: "{stream}", Kind: sum, Help: "Streams that were made.", Labels: device}, one(d.Streams)},
		{metrics.Metric{Name: "purecuda.pool.device.streams.busy", Unit: "{stream}", Kind: sum, Help: "Streams that work.", Labels: device}, one(d.Busy)},
		{metrics.Metric{Name: "purecuda.pool.device.outstanding", Unit: "s", Kind: gauge, Help: "Cost of what the device works on.", Labels: device}, one(d.Outstanding.Seconds())},
		{metrics.Metric{Name: "purecuda.pool.device.quarantined", Kind: gauge, Help: "1 while the device is quarantined because it has failed.", Labels: device}, one(truth(d.Quarantined))},
		{metrics.Metric{Name: "purecuda.pool.device.reserved", Unit: "By", Kind: sum, Help: "Memory of the device that requests have reserved, by who has.", Labels: []string{"device", "user"}}, by(d.ReservedBy)},
		{metrics.Metric{Name: "purecuda.pool.device.reserved.capacity", Unit: "By", Kind: gauge, Help: "Memory of the device that requests may reserve.", Labels: device}, one(d.ReserveLimit)},
	}
}

func ofBatcher(s pool.BatcherStats) []family {
	results := map[string]uint64{"done": s.Done, "failed": s.Failed, "left": s.Left, "refused": s.Refused}
	return []family{
		{metrics.Metric{Name: "purecuda.batcher.items", Unit: "{item}", Kind: counter, Help: "Items that were answered, by result: done, failed, left or refused.", Labels: []string{"batcher", "result"}}, by(results)},
		{metrics.Metric{Name: "purecuda.batcher.queue.length", Unit: "{item}", Kind: sum, Help: "Items that wait for a batch.", Labels: batcher}, one(s.Queued)},
		{metrics.Metric{Name: "purecuda.batcher.running", Unit: "{batch}", Kind: sum, Help: "Batches that are under way.", Labels: batcher}, one(s.Running)},
		{metrics.Metric{Name: "purecuda.batcher.batches", Unit: "{batch}", Kind: counter, Help: "Batches that were begun, by their number of items.", Labels: []string{"batcher", "up_to"}}, upTo(s.Sizes, 1)},
		{metrics.Metric{Name: "purecuda.batcher.delays", Unit: "{item}", Kind: counter, Help: "Items that came into a batch, by the seconds that they had waited for it.", Labels: []string{"batcher", "up_to"}}, upTo(s.Delays, 1e-6)},
		{metrics.Metric{Name: "purecuda.batcher.delay_time", Unit: "s", Kind: counter, Help: "Time that items have waited for their batch.", Labels: batcher}, one(float64(s.Delays.Sum) * 1e-6)},
	}
}

func ofBreakEven(b *pool.BreakEven) []family {
	var size []sample
	if known := b.Report(); known != nil {
		n, _ := known.Size()
		size = one(n)
	}
	return []family{
		{metrics.Metric{Name: "purecuda.break_even.size", Unit: "{item}", Kind: gauge, Help: "Items from which on the GPUs win; 0 if they never do. None as long as nothing is learned.", Labels: work}, size},
		{metrics.Metric{Name: "purecuda.break_even.drifted", Kind: gauge, Help: "1 if calls take half or twice the time that was measured.", Labels: work}, one(truth(b.Drifted()))},
	}
}

func ofGroup(s isolate.Stats) []family {
	return []family{
		{metrics.Metric{Name: "purecuda.isolate.requests", Unit: "{request}", Kind: counter, Help: "Requests that the group has let in.", Labels: group}, one(s.Requests)},
		{metrics.Metric{Name: "purecuda.isolate.refused", Unit: "{request}", Kind: counter, Help: "Requests that did not find room in the queue.", Labels: group}, one(s.Refused)},
		{metrics.Metric{Name: "purecuda.isolate.retries", Unit: "{try}", Kind: counter, Help: "Tries after the first one of a request.", Labels: group}, one(s.Retries)},
		{metrics.Metric{Name: "purecuda.isolate.fallbacks", Unit: "{request}", Kind: counter, Help: "Requests that the CPU began to do.", Labels: group}, one(s.Fallbacks)},
		{metrics.Metric{Name: "purecuda.isolate.timeouts", Unit: "{try}", Kind: counter, Help: "Tries that a deadline has ended.", Labels: group}, one(s.TimedOut)},
		{metrics.Metric{Name: "purecuda.isolate.lost_tries", Unit: "{try}", Kind: counter, Help: "Tries that the death of their child has ended.", Labels: group}, one(s.Died)},
		{metrics.Metric{Name: "purecuda.isolate.queue.length", Unit: "{request}", Kind: sum, Help: "Requests that wait for a child.", Labels: group}, one(s.Queue)},
		{metrics.Metric{Name: "purecuda.isolate.queue.capacity", Unit: "{request}", Kind: gauge, Help: "Requests that may wait.", Labels: group}, one(s.QueueLimit)},
	}
}

func ofChild(d isolate.DeviceStats) []family {
	return []family{
		{metrics.Metric{Name: "purecuda.isolate.device.requests", Unit: "{try}", Kind: counter, Help: "Tries that the children of the device were given.", Labels: child}, one(d.Requests)},
		{metrics.Metric{Name: "purecuda.isolate.device.busy", Unit: "{request}", Kind: sum, Help: "Requests that the child works on.", Labels: child}, one(d.Busy)},
		{metrics.Metric{Name: "purecuda.isolate.device.starts", Unit: "{process}", Kind: counter, Help: "Child processes that got ready.", Labels: child}, one(d.Starts)},
		{metrics.Metric{Name: "purecuda.isolate.device.deaths", Unit: "{process}", Kind: counter, Help: "Child processes that died or did not get ready.", Labels: child}, one(d.Deaths)},
		{metrics.Metric{Name: "purecuda.isolate.device.kills", Unit: "{process}", Kind: counter, Help: "Child processes that were killed because a request did not end.", Labels: child}, one(d.Kills)},
		{metrics.Metric{Name: "purecuda.isolate.device.ready", Kind: gauge, Help: "1 while a child serves.", Labels: child}, one(truth(d.State == isolate.Ready))},
		{metrics.Metric{Name: "purecuda.isolate.device.left_out", Kind: gauge, Help: "1 while the device is left out because its children have died too often.", Labels: child}, one(truth(d.State == isolate.LeftOut))},
	}
}

// Batcher is a [pool.Batcher] of any types.
type Batcher interface{ Stats() pool.BatcherStats }

// Group is an [isolate.Group].
type Group interface{ Stats() isolate.Stats }

// Reader reads the metrics of a pool. It is safe for concurrent use.
type Reader struct {
	pool *pool.Pool

	mu         sync.Mutex
	batchers   map[string]Batcher
	breakEvens map[string]*pool.BreakEven
	groups     map[string]Group
}

// NewReader makes a Reader of a pool. That of a nil pool reads what is added to it.
func NewReader(p *pool.Pool) *Reader {
	return &Reader{pool: p}
}

// AddBatcher adds the metrics of a batcher, under a name of its own.
func (r *Reader) AddBatcher(name string, b Batcher) {
	if r == nil || b == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.batchers == nil {
		r.batchers = map[string]Batcher{}
	}
	r.batchers[name] = b
}

// AddBreakEven adds the metrics of a break-even, under a name of its own.
func (r *Reader) AddBreakEven(work string, b *pool.BreakEven) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.breakEvens == nil {
		r.breakEvens = map[string]*pool.BreakEven{}
	}
	r.breakEvens[work] = b
}

// AddGroup adds the metrics of a group of child processes, under a name of its own.
func (r *Reader) AddGroup(name string, g Group) {
	if r == nil || g == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.groups == nil {
		r.groups = map[string]Group{}
	}
	r.groups[name] = g
}

// Read returns what the metrics are now, in the order of [All]. The result is the caller's.
func (r *Reader) Read() []metrics.Sample {
	r = zero.Or(r)
	byName := map[string][]metrics.Sample{}
	add := func(families []family, labels ...string) {
		for _, f := range families {
			for _, v := range f.samples {
				byName[f.Name] = append(byName[f.Name], metrics.Sample{Name: f.Name, Labels: slices.Concat(labels, v.labels), Value: v.value})
			}
		}
	}
	s := r.pool.Stats()
	add(ofPool(s))
	for _, d := range s.Devices {
		add(ofDevice(d), strconv.Itoa(d.Device.Ordinal))
	}
	r.mu.Lock()
	batchers, breakEvens, groups := maps.Clone(r.batchers), maps.Clone(r.breakEvens), maps.Clone(r.groups)
	r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(batchers)) {
		add(ofBatcher(batchers[name].Stats()), name)
	}
	for _, name := range slices.Sorted(maps.Keys(breakEvens)) {
		add(ofBreakEven(breakEvens[name]), name)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		s := groups[name].Stats()
		add(ofGroup(s), name)
		for _, d := range s.Devices {
			add(ofChild(d), name, strconv.Itoa(d.Device))
		}
	}
	var samples []metrics.Sample
	for _, m := range All() {
		samples = append(samples, byName[m.Name]...)
	}
	return samples
}

// by are the values of a label, in order.
func by[K ~string](values map[K]uint64) (all []sample) {
	for _, label := range slices.Sorted(maps.Keys(values)) {
		all = append(all, sample{float64(values[label]), []string{string(label)}})
	}
	return all
}

// upTo are the counts of values up to each power of two.
func upTo(h pool.Histogram, unit float64) (all []sample) {
	var sum uint64
	for i, n := range h.Counts {
		sum += n
		upTo := math.Inf(1)
		if i < len(h.Counts)-1 {
			upTo = math.Ldexp(unit, i)
		}
		all = append(all, sample{float64(sum), []string{strconv.FormatFloat(upTo, 'g', 6, 64)}})
	}
	return all
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
