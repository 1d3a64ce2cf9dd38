package runtime

import (
	"errors"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
)

func TestLedger(t *testing.T) {
	c := new(Context)
	l := &c.ledger
	event, stream := &entry{ctx: c, kind: eventEntry, handle: 1}, &entry{ctx: c, kind: streamEntry, handle: 1}
	memory, more := &entry{ctx: c, kind: hostMemory, handle: 0x1000, bytes: 100}, &entry{ctx: c, kind: hostMemory, handle: 0x2000, bytes: 50}
	assert.False(t, l.take(event, true), "it is not on it yet")
	l.freeLater(event)
	assert.Empty(t, l.takeDeferred(), "it is not on it yet")
	for _, e := range []*entry{event, stream, memory, more} {
		assert.True(t, l.add(e))
	}
	assert.False(t, l.add(&entry{ctx: c, kind: streamEntry, handle: 1, details: &details{wrapped: true}}), "there is one with that handle")
	count, bytes, _ := l.sums()
	assert.Equal(t, [entryKinds]uint64{eventEntry: 1, streamEntry: 1, hostMemory: 2}, count)
	assert.Equal(t, [entryKinds]uint64{hostMemory: 150}, bytes)
	assert.Equal(t, []*entry{more, memory}, l.entries(hostMemory))
	assert.Equal(t, []*entry{event, stream, more, memory}, l.entries())
	assert.Empty(t, l.entries(moduleEntry))
	assert.Equal(t, 2, l.openHostMemory())

	assert.True(t, l.take(event, true))
	assert.False(t, l.take(event, true), "only once")
	assert.True(t, l.take(stream, true))

	l.freeLater(memory)
	l.freeLater(more)
	l.freeLater(memory)
	assert.Zero(t, l.openHostMemory())
	assert.Equal(t, []*entry{memory, more}, l.takeDeferred())
	assert.Empty(t, l.takeDeferred())
	assert.Len(t, l.entries(hostMemory), 2, "forgotten is not yet given back")

	assert.NotNil(t, memory.retain())
	assert.True(t, memory.leaveToGraphs())
	memory.gate.Close(nil)
	assert.NotNil(t, memory.retain(), "another graph retains it")
	assert.False(t, l.take(memory, false), "graphs retain it")
	assert.False(t, memory.unretain())
	assert.True(t, memory.unretain(), "the last one frees it")
	assert.Nil(t, memory.retain(), "it is closed")

	l.clear()
	count, bytes, _ = l.sums()
	assert.Zero(t, count)
	assert.Zero(t, bytes)
	assert.Empty(t, l.entries())
	assert.Nil(t, more.retain(), "it is gone")
	assert.False(t, l.take(more, true))
}

// Whatever is closed from several sides is given back once.
func TestLedgerGivesOut(t *testing.T) {
	var l ledger
	var taken atomic.Int64
	var wg sync.WaitGroup
	var all []*entry
	for h := range uint64(100) {
		all = append(all, &entry{kind: moduleEntry, handle: h})
		l.add(all[h])
	}
	for range 8 {
		wg.Go(func() {
			for _, e := range all {
				l.freeLater(e)
				for _, e := range append(l.takeDeferred(), e) {
					if l.take(e, true) {
						taken.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	assert.Equal(t, int64(100), taken.Load())
	assert.Empty(t, l.entries())
}

// An error hook that refers to what the runtime has made does not keep it.
func TestAHookKeepsNothing(t *testing.T) {
	made := func() (rt weak.Pointer[Runtime]) {
		var kept []any
		r, err := Open(WithDriver(drivertest.New(drivertest.Config{})), WithErrorHook(func(error) { kept = append(kept, errors.New("seen")) }))
		require.NoError(t, err)
		c, err := r.Context(0)
		require.NoError(t, err)
		s, err := c.NewStream()
		require.NoError(t, err)
		e, err := c.NewEvent()
		require.NoError(t, err)
		m, err := c.CachedModule(Image{Code: []byte(nothingPTX)})
		require.NoError(t, err)
		h, err := AllocHost[byte](c, 1)
		require.NoError(t, err)
		kept = []any{s, e, m, h}
		require.NoError(t, r.Close())
		return weak.Make(r)
	}
	rt := made()
	for range 100 {
		if goruntime.GC(); rt.Value() == nil {
			break
		}
	}
	assert.Nil(t, rt.Value())
}

const nothingPTX = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n"
