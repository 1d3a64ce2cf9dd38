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

// The labels. What they can be is bounded by the program.
const (
	labelDevice  = "device"
	labelResult  = "result"
	labelReason  = "reason"  // a pool.Reason
	labelBatcher = "batcher" // the name that AddBatcher was given
	labelWork    = "work"    // the name of a pool.BreakEven
	labelGroup   = "group"   // the name that AddGroup was given
	labelUser    = "user"    // a label of pool.DoOptions.Reserve
	labelUpTo    = "up_to"   // the upper bound of the values that are counted, all smaller ones included: "+Inf" for the last one
)

// The metrics.
const (
	requests   = "purecuda.pool.requests"
	refused    = "purecuda.pool.refused"
	retries    = "purecuda.pool.retries"
	waits      = "purecuda.pool.waits"
	waitTime   = "purecuda.pool.wait_time"
	queued     = "purecuda.pool.queue.length"
	queueLimit = "purecuda.pool.queue.capacity"
	reasons    = "purecuda.pool.fallbacks"

	deviceRequests    = "purecuda.pool.device.requests"
	deviceFailures    = "purecuda.pool.device.failures"
	deviceBusyTime    = "purecuda.pool.device.busy_time"
	deviceStreams     = "purecuda.pool.device.streams"
	deviceBusy        = "purecuda.pool.device.streams.busy"
	deviceOutstanding = "purecuda.pool.device.outstanding"
	deviceQuarantined = "purecuda.pool.device.quarantined"
	deviceReserved    = "purecuda.pool.device.reserved"
	deviceReservable  = "purecuda.pool.device.reserved.capacity"

	items       = "purecuda.batcher.items"
	itemsQueued = "purecuda.batcher.queue.length"
	batches     = "purecuda.batcher.running"
	sizes       = "purecuda.batcher.batches"
	delays      = "purecuda.batcher.delays"
	delayTime   = "purecuda.batcher.delay_time"

	size    = "purecuda.break_even.size"
	drifted = "purecuda.break_even.drifted"

	groupRequests   = "purecuda.isolate.requests"
	groupRefused    = "purecuda.isolate.refused"
	groupRetries    = "purecuda.isolate.retries"
	groupFallbacks  = "purecuda.isolate.fallbacks"
	groupTimedOut   = "purecuda.isolate.timeouts"
	groupDied       = "purecuda.isolate.lost_tries"
	groupQueued     = "purecuda.isolate.queue.length"
	groupQueueLimit = "purecuda.isolate.queue.capacity"
	childRequests   = "purecuda.isolate.device.requests"
	childBusy       = "purecuda.isolate.device.busy"
	childStarts     = "purecuda.isolate.device.starts"
	childDeaths     = "purecuda.isolate.device.deaths"
	childKills      = "purecuda.isolate.device.kills"
	childReady      = "purecuda.isolate.device.ready"
	childLeftOut    = "purecuda.isolate.device.left_out"
)

// All describes all metrics, in the order in which they are read.
func All() []metrics.Metric {
	const counter, sum, gauge = metrics.Counter, metrics.UpDownCounter, metrics.Gauge
	device, batcher, work := []string{labelDevice}, []string{labelBatcher}, []string{labelWork}
	group, child := []string{labelGroup}, []string{labelGroup, labelDevice}
	return []metrics.Metric{
		{Name: requests, Unit: "{request}", Kind: counter, Help: "Calls that the pool has let in."},
		{Name: refused, Unit: "{request}", Kind: counter, Help: "Calls that failed because they would have had to wait."},
		{Name: retries, Unit: "{request}", Kind: counter, Help: "Work that was repeated on another device."},
		{Name: waits, Unit: "{wait}", Kind: counter, Help: "Waits in the queue."},
		{Name: waitTime, Unit: "s", Kind: counter, Help: "Time that calls have waited in the queue."},
		{Name: queued, Unit: "{request}", Kind: sum, Help: "Calls that wait."},
		{Name: queueLimit, Unit: "{request}", Kind: gauge, Help: "Calls that may wait."},
		{Name: reasons, Unit: "{request}", Kind: counter, Help: "Calls that the CPU or fewer devices did, by reason.", Labels: []string{labelReason}},
		{Name: deviceRequests, Unit: "{request}", Kind: counter, Help: "Work that the device was given.", Labels: device},
		{Name: deviceFailures, Unit: "{failure}", Kind: counter, Help: "Work that has failed on the device.", Labels: device},
		{Name: deviceBusyTime, Unit: "s", Kind: counter, Help: "Time that work has taken which succeeded, of all streams together.", Labels: device},
		{Name: deviceStreams, Unit: "{stream}", Kind: sum, Help: "Streams that were made.", Labels: device},
		{Name: deviceBusy, Unit: "{stream}", Kind: sum, Help: "Streams that work.", Labels: device},
		{Name: deviceOutstanding, Unit: "s", Kind: gauge, Help: "Cost of what the device works on.", Labels: device},
		{Name: deviceQuarantined, Kind: gauge, Help: "1 while the device is quarantined because it has failed.", Labels: device},
		{Name: deviceReserved, Unit: "By", Kind: sum, Help: "Memory of the device that requests have reserved, by who has.", Labels: []string{labelDevice, labelUser}},
		{Name: deviceReservable, Unit: "By", Kind: gauge, Help: "Memory of the device that requests may reserve.", Labels: device},
		{Name: items, Unit: "{item}", Kind: counter, Help: "Items that were answered, by result: done, failed, left or refused.", Labels: []string{labelBatcher, labelResult}},
		{Name: itemsQueued, Unit: "{item}", Kind: sum, Help: "Items that wait for a batch.", Labels: batcher},
		{Name: batches, Unit: "{batch}", Kind: sum, Help: "Batches that are under way.", Labels: batcher},
		{Name: sizes, Unit: "{batch}", Kind: counter, Help: "Batches that were begun, by their number of items.", Labels: []string{labelBatcher, labelUpTo}},
		{Name: delays, Unit: "{item}", Kind: counter, Help: "Items that came into a batch, by the seconds that they had waited for it.", Labels: []string{labelBatcher, labelUpTo}},
		{Name: delayTime, Unit: "s", Kind: counter, Help: "Time that items have waited for their batch.", Labels: batcher},
		{Name: size, Unit: "{item}", Kind: gauge, Help: "Items from which on the GPUs win; 0 if they never do. None as long as nothing is learned.", Labels: work},
		{Name: drifted, Kind: gauge, Help: "1 if calls take half or twice the time that was measured.", Labels: work},
		{Name: groupRequests, Unit: "{request}", Kind: counter, Help: "Requests that the group has let in.", Labels: group},
		{Name: groupRefused, Unit: "{request}", Kind: counter, Help: "Requests that did not find room in the queue.", Labels: group},
		{Name: groupRetries, Unit: "{try}", Kind: counter, Help: "Tries after the first one of a request.", Labels: group},
		{Name: groupFallbacks, Unit: "{request}", Kind: counter, Help: "Requests that the CPU began to do.", Labels: group},
		{Name: groupTimedOut, Unit: "{try}", Kind: counter, Help: "Tries that a deadline has ended.", Labels: group},
		{Name: groupDied, Unit: "{try}", Kind: counter, Help: "Tries that the death of their child has ended.", Labels: group},
		{Name: groupQueued, Unit: "{request}", Kind: sum, Help: "Requests that wait for a child.", Labels: group},
		{Name: groupQueueLimit, Unit: "{request}", Kind: gauge, Help: "Requests that may wait.", Labels: group},
		{Name: childRequests, Unit: "{try}", Kind: counter, Help: "Tries that the children of the device were given.", Labels: child},
		{Name: childBusy, Unit: "{request}", Kind: sum, Help: "Requests that the child works on.", Labels: child},
		{Name: childStarts, Unit: "{process}", Kind: counter, Help: "Child processes that got ready.", Labels: child},
		{Name: childDeaths, Unit: "{process}", Kind: counter, Help: "Child processes that died or did not get ready.", Labels: child},
		{Name: childKills, Unit: "{process}", Kind: counter, Help: "Child processes that were killed because a request did not end.", Labels: child},
		{Name: childReady, Kind: gauge, Help: "1 while a child serves.", Labels: child},
		{Name: childLeftOut, Kind: gauge, Help: "1 while the device is left out because its children have died too often.", Labels: child},
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
	add := func(name string, value float64, labels ...string) {
		byName[name] = append(byName[name], metrics.Sample{Name: name, Labels: labels, Value: value})
	}
	addPool(add, r.pool.Stats())
	r.mu.Lock()
	batchers, breakEvens, groups := maps.Clone(r.batchers), maps.Clone(r.breakEvens), maps.Clone(r.groups)
	r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(batchers)) {
		addBatcher(add, name, batchers[name].Stats())
	}
	for _, work := range slices.Sorted(maps.Keys(breakEvens)) {
		if known := breakEvens[work].Report(); known != nil {
			n, _ := known.Size()
			add(size, float64(n), work)
		}
		add(drifted, truth(breakEvens[work].Drifted()), work)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		addGroup(add, name, groups[name].Stats())
	}
	var samples []metrics.Sample
	for _, m := range All() {
		samples = append(samples, byName[m.Name]...)
	}
	return samples
}

func addPool(add func(name string, value float64, labels ...string), s pool.Stats) {
	add(requests, float64(s.Requests))
	add(refused, float64(s.Refused))
	add(retries, float64(s.Retries))
	add(waits, float64(s.Waits))
	add(waitTime, s.Waited.Seconds())
	add(queued, float64(s.Queued))
	add(queueLimit, float64(s.QueueLimit))
	for _, reason := range slices.Sorted(maps.Keys(s.Reasons)) {
		add(reasons, float64(s.Reasons[reason]), string(reason))
	}
	for _, d := range s.Devices {
		ordinal := strconv.Itoa(d.Device.Ordinal)
		add(deviceRequests, float64(d.Requests), ordinal)
		add(deviceFailures, float64(d.Failures), ordinal)
		add(deviceBusyTime, d.Ran.Seconds(), ordinal)
		add(deviceStreams, float64(d.Streams), ordinal)
		add(deviceBusy, float64(d.Busy), ordinal)
		add(deviceOutstanding, d.Outstanding.Seconds(), ordinal)
		add(deviceQuarantined, truth(d.Quarantined), ordinal)
		for _, user := range slices.Sorted(maps.Keys(d.ReservedBy)) {
			add(deviceReserved, float64(d.ReservedBy[user]), ordinal, user)
		}
		add(deviceReservable, float64(d.ReserveLimit), ordinal)
	}
}

func addBatcher(add func(name string, value float64, labels ...string), name string, s pool.BatcherStats) {
	add(items, float64(s.Done), name, "done")
	add(items, float64(s.Failed), name, "failed")
	add(items, float64(s.Left), name, "left")
	add(items, float64(s.Refused), name, "refused")
	add(itemsQueued, float64(s.Queued), name)
	add(batches, float64(s.Running), name)
	addHistogram(add, sizes, name, s.Sizes, 1)
	addHistogram(add, delays, name, s.Delays, 1e-6)
	add(delayTime, float64(s.Delays.Sum)*1e-6, name)
}

func addGroup(add func(name string, value float64, labels ...string), name string, s isolate.Stats) {
	add(groupRequests, float64(s.Requests), name)
	add(groupRefused, float64(s.Refused), name)
	add(groupRetries, float64(s.Retries), name)
	add(groupFallbacks, float64(s.Fallbacks), name)
	add(groupTimedOut, float64(s.TimedOut), name)
	add(groupDied, float64(s.Died), name)
	add(groupQueued, float64(s.Queue), name)
	add(groupQueueLimit, float64(s.QueueLimit), name)
	for _, d := range s.Devices {
		ordinal := strconv.Itoa(d.Device)
		add(childRequests, float64(d.Requests), name, ordinal)
		add(childBusy, float64(d.Busy), name, ordinal)
		add(childStarts, float64(d.Starts), name, ordinal)
		add(childDeaths, float64(d.Deaths), name, ordinal)
		add(childKills, float64(d.Kills), name, ordinal)
		add(childReady, truth(d.State == isolate.Ready), name, ordinal)
		add(childLeftOut, truth(d.State == isolate.LeftOut), name, ordinal)
	}
}

// addHistogram adds the counts of values up to each power of two.
func addHistogram(add func(name string, value float64, labels ...string), metric, name string, h pool.Histogram, unit float64) {
	var sum uint64
	for i, n := range h.Counts {
		sum += n
		upTo := math.Inf(1)
		if i < len(h.Counts)-1 {
			upTo = math.Ldexp(unit, i)
		}
		add(metric, float64(sum), name, strconv.FormatFloat(upTo, 'g', 6, 64))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
