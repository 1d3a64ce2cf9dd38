package arena

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

// newSplitDevice is a device that no driver is behind, with two streams.
func newSplitDevice() (d *Device, s, o *Stream) {
	d = &Device{blocks: map[*block]struct{}{}}
	d.home = d.newStream(0)
	d.home.state.Store(int32(streamClosed))
	d.home.done.Store(never)
	s, o = d.newStream(1), d.newStream(2)
	d.streams = []*Stream{s, o}
	d.clock.Store(10)
	return d, s, o
}

// part adds a free part of a segment.
func (d *Device) freePart(on *Stream, g *segment, ptr driver.DevicePtr, size, freedAt uint64) *block {
	g.parts++
	return d.insertPart(on.first, &block{ptr: ptr, size: size, class: classWithin(size), freedAt: freedAt, segment: g})
}

// Segments of the driver may lie side by side, and are no neighbours.
func TestJoin(t *testing.T) {
	d, s, o := newSplitDevice()
	one, two := &segment{owner: s, size: 4096}, &segment{owner: s, size: 3072}
	d.freePart(s, one, 0x11000-2048, 2048, 4)
	d.freePart(s, two, 0x11000, 1024, 1)
	d.freePart(s, one, 0x11000-4096, 2048, 6)
	d.freePart(s, two, 0x11400, 1024, 5)
	kept := d.freePart(o, two, 0x11800, 1024, 1)
	require.True(t, s.join())
	require.False(t, s.join(), "nothing has changed")
	var got []*block
	for b := s.first.all.oldest; b != nil; b = b.inAll.newer {
		got = append(got, b)
	}
	require.Len(t, got, 2)
	assert.Equal(t, []uint64{4096, 2048}, []uint64{got[0].size, got[1].size})
	assert.Equal(t, []uint64{6, 5}, []uint64{got[0].freedAt, got[1].freedAt}, "the later one")
	assert.Nil(t, got[0].segment, "it is whole again")
	assert.Same(t, two, got[1].segment)
	assert.Equal(t, 2, two.parts)
	assert.Equal(t, map[*block]struct{}{got[0]: {}, got[1]: {}, kept: {}}, d.blocks)
	assert.EqualValues(t, 2048, s.first.partBytes)
	assert.EqualValues(t, 4096+2048, s.first.sums.cached)
	assert.EqualValues(t, -4096-2048, s.first.room)
	assert.Same(t, got[0], s.first.oldestWhole())

	lost := &segment{owner: s, size: 4096, lost: true}
	d.freePart(s, lost, 0x20000, 1024, 1)
	d.freePart(s, lost, 0x20400, 1024, 1)
	assert.False(t, s.join(), "the driver never gets it back")
}

// A part that comes back is free on its stream since now: the stream has waited for it, maybe after it was idle last.
func TestRecall(t *testing.T) {
	d, s, o := newSplitDevice()
	mine, other := &segment{owner: s, size: 4096}, &segment{owner: o, size: 4096}
	s.done.Store(8)
	s.seen[o] = 7
	back := d.freePart(o, mine, 0x1000, 1024, 5)
	late := d.freePart(o, mine, 0x1400, 1024, 7)
	theirs := d.freePart(o, other, 0x3000, 1024, 5)
	s.recall()
	assert.Same(t, back, s.first.all.oldest)
	assert.Same(t, back, s.first.all.newest)
	assert.False(t, s.completed(back.freedAt))
	assert.Same(t, late, o.first.all.oldest, "s has not waited for it")
	assert.Same(t, theirs, o.first.all.newest)
	o.done.Store(20)
	s.recall()
	assert.Same(t, theirs, o.first.all.oldest)
	assert.Nil(t, theirs.inAll.newer)
}

func TestClassWithin(t *testing.T) {
	for size := uint64(smallest); size < 1<<20; size += 256 {
		class := classWithin(size)
		require.LessOrEqual(t, classBytes(class), size)
		require.Greater(t, classBytes(class+1), size)
	}
	assert.Equal(t, classes-1, classWithin(maxBytes))
}
