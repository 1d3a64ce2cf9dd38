package runtime_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// laidOut3D are the elements of a box at pitches, with what is untouched between them.
func laidOut3D(elements []uint32, at runtime.Pitches, box runtime.Box, length int) []uint32 {
	all := make([]uint32, length)
	for i := range all {
		all[i] = untouched
	}
	for z := range box.Depth {
		for y := range box.Height {
			copy(all[z*at.Plane+y*at.Row:], elements[(z*box.Height+y)*box.Width:][:box.Width])
		}
	}
	return all
}

func spanOf3D(at runtime.Pitches, box runtime.Box) int {
	return (box.Depth-1)*at.Plane + (box.Height-1)*at.Row + box.Width
}

func TestCopies3D(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		for _, r := range []struct {
			box          runtime.Box
			host, device runtime.Pitches
		}{
			{runtime.Box{Width: 1, Height: 1, Depth: 1}, runtime.Pitches{}, runtime.Pitches{Row: -1, Plane: math.MinInt}},
			{runtime.Box{Width: 5, Height: 1, Depth: 4}, runtime.Pitches{Plane: 5}, runtime.Pitches{Plane: 9}},
			{runtime.Box{Width: 5, Height: 4, Depth: 1}, runtime.Pitches{Row: 6}, runtime.Pitches{Row: 5}},
			{runtime.Box{Width: 5, Height: 4, Depth: 3}, runtime.Pitches{Row: 5, Plane: 20}, runtime.Pitches{Row: 5, Plane: 20}},
			{runtime.Box{Width: 5, Height: 4, Depth: 3}, runtime.Pitches{Row: 7, Plane: 28}, runtime.Pitches{Row: 8, Plane: 40}},
			{runtime.Box{Width: 5, Height: 4, Depth: 3}, runtime.Pitches{Row: 5, Plane: 21}, runtime.Pitches{Row: 6, Plane: 23}}, // no whole rows
			{runtime.Box{Width: 300, Height: 70, Depth: 20}, runtime.Pitches{Row: 301, Plane: 301 * 71}, runtime.Pitches{Row: 320, Plane: 320 * 72}},
		} {
			elements := count(1, r.box.Width*r.box.Height*r.box.Depth)
			src := elements
			packed := runtime.Pitches{Row: r.box.Width, Plane: r.box.Width * r.box.Height}
			if len(elements) > 1 {
				src = laidOut3D(elements, r.host, r.box, spanOf3D(r.host, r.box))
			}
			length := len(elements)
			if length > 1 {
				length = spanOf3D(r.device, r.box)
			}
			x := alloc[uint32](t, s, length+2)
			require.NoError(t, runtime.Fill(s, x, untouched))
			before := c.Stats()
			require.NoError(t, runtime.Upload3D(bg, s, x.Slice(1, length+1), r.device, src, r.host, r.box), "%+v", r)
			want := append(append([]uint32{untouched}, laidOut3D(elements, r.device, r.box, length)...), untouched)
			require.Equal(t, want, download(t, s, x), "%+v", r)

			dense := alloc[uint32](t, s, len(elements))
			require.NoError(t, runtime.Copy3D(s, dense, packed, x.Slice(1, length+1), r.device, r.box), "%+v", r)
			require.Equal(t, elements, download(t, s, dense), "%+v", r)
			spread := alloc[uint32](t, s, length+2)
			require.NoError(t, runtime.Fill(s, spread, untouched))
			require.NoError(t, runtime.Copy3D(s, spread.Slice(1, length+1), r.device, x.Slice(1, length+1), r.device, r.box), "%+v", r)
			require.Equal(t, want, download(t, s, spread), "%+v", r)

			got := laidOut3D(nil, r.host, runtime.Box{}, len(src))
			require.NoError(t, runtime.Download3D(bg, s, got, r.host, x.Slice(1, length+1), r.device, r.box), "%+v", r)
			require.Equal(t, src, got, "%+v", r)
			bytes, after := uint64(4*len(elements)), c.Stats()
			assert.Equal(t, [2]uint64{1, bytes}, [2]uint64{after.Uploads - before.Uploads, after.UploadBytes - before.UploadBytes})
			assert.Equal(t, [2]uint64{2, 2 * bytes}, [2]uint64{after.Copies - before.Copies, after.CopyBytes - before.CopyBytes})
		}
	})
}

func TestCopies3DThatDoNotFit(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	c := contextOf(t, rt)
	s := newStream(t, c)
	x, y := alloc[uint32](t, s, 100), alloc[uint32](t, s, 100)
	host := make([]uint32, 100)
	ok := runtime.Pitches{Row: 5, Plane: 20}
	for text, r := range map[string]struct {
		box runtime.Box
		at  runtime.Pitches
	}{
		"-1 planes of 4 rows of 5 elements: want 0 or more":                 {runtime.Box{Width: 5, Height: 4, Depth: -1}, ok},
		"rows of 5 elements that begin 4 elements apart":                    {runtime.Box{Width: 5, Height: 4, Depth: 2}, runtime.Pitches{Row: 4, Plane: 20}},
		"planes of 20 elements that begin 19 elements apart":                {runtime.Box{Width: 5, Height: 4, Depth: 2}, runtime.Pitches{Row: 5, Plane: 19}},
		"6 planes of 20 elements that begin 20 elements apart":              {runtime.Box{Width: 5, Height: 4, Depth: 6}, ok},
		"3 planes of 1 elements that begin 9223372036854775807":             {runtime.Box{Width: 1, Height: 1, Depth: 3}, runtime.Pitches{Plane: math.MaxInt64}},
		"9223372036854775807 planes of 1 elements that begin 2305843009213": {runtime.Box{Width: 1, Height: 1, Depth: math.MaxInt64}, runtime.Pitches{Plane: 2305843009213693953}},
	} {
		for _, err := range []error{
			runtime.Upload3D(bg, s, x, r.at, host, ok, r.box), runtime.Upload3D(bg, s, x, ok, host, r.at, r.box),
			runtime.Download3D(bg, s, host, r.at, x, ok, r.box), runtime.Download3D(bg, s, host, ok, x, r.at, r.box),
			runtime.Copy3D(s, y, r.at, x, ok, r.box), runtime.Copy3D(s, y, ok, x, r.at, r.box),
		} {
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		}
		assert.ErrorContains(t, runtime.Upload3D(bg, s, x, r.at, host, ok, r.box), text)
	}
	for _, box := range []runtime.Box{{}, {Width: 5}, {Height: 5, Depth: 7}, {Width: 1, Depth: math.MaxInt}} {
		none := runtime.Pitches{}
		assert.NoError(t, runtime.Upload3D(bg, s, x, none, nil, none, box))
		assert.NoError(t, runtime.Download3D(bg, s, nil, none, x, none, box))
		assert.NoError(t, runtime.Copy3D(s, y, none, x, none, box))
	}
	other := contextAt(t, rt, 1)
	far := alloc[uint32](t, newStream(t, other), 100)
	box := runtime.Box{Width: 5, Height: 4, Depth: 2}
	assert.ErrorContains(t, runtime.Copy3D(s, x, ok, far, ok, box), "Copy3D from device 1 to device 0")
	gpu.Fail("cuMemcpy3DAsync", 1, driver.ResultUnknown)
	assert.ErrorIs(t, runtime.Copy3D(s, y, runtime.Pitches{Row: 5, Plane: 25}, x, ok, box), driver.ResultUnknown)
	gpu.Fail("cuMemcpy2DAsync", 1, driver.ResultUnknown)
	assert.ErrorIs(t, runtime.Copy3D(s, y, runtime.Pitches{Row: 6, Plane: 25}, x, ok, box), driver.ResultUnknown)
	require.NoError(t, x.Close())
	assert.ErrorIs(t, runtime.Copy3D(s, y, ok, x, ok, box), driver.ErrClosed)
	assert.ErrorIs(t, runtime.Upload3D(bg, s, x, ok, host, ok, box), driver.ErrClosed)
	assert.ErrorIs(t, runtime.Download3D(bg, s, host, ok, x, ok, box), driver.ErrClosed)
	assert.ErrorIs(t, runtime.Copy3D(nil, y, ok, y, ok, box), driver.ErrInvalidArgument)
	assert.ErrorIs(t, runtime.Upload3D(bg, nil, y, ok, host, ok, box), driver.ErrInvalidArgument)
	assert.ErrorIs(t, runtime.Download3D(bg, s, host, ok, nil, ok, box), driver.ErrInvalidArgument)
}
