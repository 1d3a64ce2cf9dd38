package runtime

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/internal/gate"
)

func TestLedger(t *testing.T) {
	var l resources
	event, stream := resource{kind: eventResource, handle: 1}, resource{kind: streamResource, handle: 1}
	memory, more := resource{kind: hostMemory, handle: 0x1000}, resource{kind: hostMemory, handle: 0x2000}
	assert.False(t, isTaken(&l, event), "nothing is on it yet")
	l.add(event, entry{gate: new(gate.Gate)})
	l.add(stream, entry{gate: new(gate.Gate)})
	l.add(memory, entry{gate: new(gate.Gate), bytes: 100})
	l.add(more, entry{gate: new(gate.Gate), bytes: 50})
	count, bytes := l.sums()
	assert.Equal(t, [resourceKinds]uint64{eventResource: 1, streamResource: 1, hostMemory: 2}, count)
	assert.Equal(t, [resourceKinds]uint64{hostMemory: 150}, bytes)
	assert.Len(t, l.entries(hostMemory), 2)
	assert.Contains(t, l.entries(streamResource), stream)
	assert.Empty(t, l.entries(moduleResource))

	assert.True(t, isTaken(&l, event))
	assert.False(t, isTaken(&l, event), "only once")
	assert.True(t, isTaken(&l, stream), "the same handle of another kind is another thing")

	l.freeLater(memory)
	l.freeLater(more)
	assert.Equal(t, []resource{memory, more}, l.takeDeferred())
	assert.Empty(t, l.takeDeferred())
	assert.Len(t, l.entries(hostMemory), 2, "forgotten is not yet given back")
}

func isTaken(l *resources, r resource) bool {
	_, ok := l.take(r)
	return ok
}

// Whatever is closed from several sides is given back once.
func TestLedgerGivesOut(t *testing.T) {
	var l resources
	var taken atomic.Int64
	var wg sync.WaitGroup
	for h := range uint64(100) {
		l.add(resource{kind: moduleResource, handle: h}, entry{gate: new(gate.Gate)})
	}
	for range 8 {
		wg.Go(func() {
			for h := range uint64(100) {
				l.freeLater(resource{kind: moduleResource, handle: h})
				for _, r := range append(l.takeDeferred(), resource{kind: moduleResource, handle: h}) {
					if isTaken(&l, r) {
						taken.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	assert.Equal(t, int64(100), taken.Load())
}
