package runtime

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLedger(t *testing.T) {
	var l ledger
	event, stream := resource{eventResource, 1}, resource{streamResource, 1}
	memory, more := resource{deviceMemory, 0x1000}, resource{deviceMemory, 0x2000}
	assert.False(t, l.take(event), "nothing is on it yet")
	l.add(event, entry{gate: new(gate)})
	l.add(stream, entry{gate: new(gate)})
	l.add(memory, entry{gate: new(gate), bytes: 100})
	l.add(more, entry{gate: new(gate), bytes: 50})
	count, bytes := l.sums()
	assert.Equal(t, [resourceKinds]uint64{eventResource: 1, streamResource: 1, deviceMemory: 2}, count)
	assert.Equal(t, [resourceKinds]uint64{deviceMemory: 150}, bytes)
	assert.Len(t, l.entries(deviceMemory), 2)
	assert.Contains(t, l.entries(streamResource), stream)
	assert.Empty(t, l.entries(hostMemory))

	assert.True(t, l.take(event))
	assert.False(t, l.take(event), "only once")
	assert.True(t, l.take(stream), "the same handle of another kind is another thing")

	l.forget(memory)
	l.forget(more)
	assert.Equal(t, []resource{memory, more}, l.takeForgotten())
	assert.Empty(t, l.takeForgotten())
	assert.Len(t, l.entries(deviceMemory), 2, "forgotten is not yet given back")
}

// Whatever is closed from several sides is given back once.
func TestLedgerGivesOut(t *testing.T) {
	var l ledger
	var taken atomic.Int64
	var wg sync.WaitGroup
	for h := range uint64(100) {
		l.add(resource{moduleResource, h}, entry{gate: new(gate)})
	}
	for range 8 {
		wg.Go(func() {
			for h := range uint64(100) {
				l.forget(resource{moduleResource, h})
				for _, r := range append(l.takeForgotten(), resource{moduleResource, h}) {
					if l.take(r) {
						taken.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	assert.Equal(t, int64(100), taken.Load())
}
