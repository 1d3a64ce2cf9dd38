package runtime_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

const untouched = 0xAAAAAAAA

// laidOut are rows of width elements at a pitch, with what is untouched between them.
func laidOut(rows []uint32, pitch, width, height int) []uint32 {
	all := make([]uint32, (height-1)*pitch+width)
	for i := range all {
		all[i] = untouched
	}
	for row := range height {
		copy(all[row*pitch:], rows[row*width:][:width])
	}
	return all
}

func TestCopies2D(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		for _, r := range []struct{ width, height, hostPitch, devicePitch int }{
			{1, 1, 1, 1}, {1, 1, -5, math.MinInt}, {7, 1, 100, 3}, {10, 7, 13, 10}, {10, 7, 10, 15}, {100, 80, 100, 100},
			{100, 80, 101, 117}, {3000, 300, 3001, 3072}, {5, 2, 90, 70}, {1, 1000, 3, 2},
		} {
			rows := count(1, r.width*r.height)
			src, device := rows, laidOut(rows, r.width, r.width, r.height)
			if r.height > 1 {
				src, device = laidOut(rows, r.hostPitch, r.width, r.height), laidOut(rows, r.devicePitch, r.width, r.height)
			}
			x := alloc[uint32](t, s, len(device)+2)
			require.NoError(t, runtime.Fill(s, x, untouched))
			before := c.Stats()
			require.NoError(t, runtime.Upload2D(bg, s, x.Slice(1, len(device)+1), r.devicePitch, src, r.hostPitch, r.width, r.height))
			require.Equal(t, append(append([]uint32{untouched}, device...), untouched), download(t, s, x), "%+v", r)

			packed := alloc[uint32](t, s, len(rows))
			require.NoError(t, runtime.Copy2D(s, packed, r.width, x.Slice(1, len(device)+1), r.devicePitch, r.width, r.height))
			require.Equal(t, rows, download(t, s, packed), "%+v", r)
			spread := alloc[uint32](t, s, len(device))
			require.NoError(t, runtime.Fill(s, spread, untouched))
			require.NoError(t, runtime.Copy2D(s, spread, r.devicePitch, packed, r.width, r.width, r.height))
			require.Equal(t, device, download(t, s, spread), "%+v", r)

			got := make([]uint32, len(src))
			for i := range got {
				got[i] = untouched
			}
			require.NoError(t, runtime.Download2D(bg, s, got, r.hostPitch, x.Slice(1, len(device)+1), r.devicePitch, r.width, r.height))
			require.Equal(t, src, got, "%+v", r)
			bytes, after := uint64(4*len(rows)), c.Stats()
			assert.Equal(t, bytes, after.UploadBytes-before.UploadBytes)
			assert.Equal(t, 2*bytes, after.CopyBytes-before.CopyBytes)
			assert.Equal(t, uint64(2), after.Copies-before.Copies)
			assert.Equal(t, uint64(4*(x.Len()+len(rows)+len(device)))+bytes, after.DownloadBytes-before.DownloadBytes)
			for _, x := range []*runtime.Ref[uint32]{x, packed, spread} {
				require.NoError(t, x.Close())
			}
		}
	})
}

// A graph replays copies of rectangles: here it turns the columns of a matrix around.
func TestCopy2DInAGraph(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const columns, rows = 6, 4
		c := contextOf(t, rt)
		s := newStream(t, c)
		x, y := upload(t, s, count(0, columns*rows)), alloc[uint32](t, s, columns*rows)
		exec := instantiate(t, capture(t, s, func(s *runtime.Stream) error {
			for i := range columns {
				if err := runtime.Copy2D(s, y.Slice(columns-1-i, y.Len()), columns, x.Slice(i, x.Len()), columns, 1, rows); err != nil {
					return err
				}
			}
			return nil
		}))
		for range 2 {
			require.NoError(t, runtime.Zero(s, y))
			require.NoError(t, exec.Launch(s))
			got := download(t, s, y)
			for i, v := range got {
				assert.EqualValues(t, i/columns*columns+columns-1-i%columns, v)
			}
		}
	})
}

func TestCopies2DRefuse(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	c := contextOf(t, rt)
	s := newStream(t, c)
	x, y := alloc[uint32](t, s, 50), alloc[uint32](t, s, 50)
	far := alloc[uint32](t, newStream(t, contextAt(t, rt, 1)), 50)
	closed := alloc[uint32](t, s, 50)
	require.NoError(t, closed.Close())
	data := make([]uint32, 50)
	var none context.Context
	calls := gpu.Calls("cuMemcpy2DAsync")
	up := func(x *runtime.Ref[uint32], dp, sp, w, h int) error {
		return runtime.Upload2D(bg, s, x, dp, data, sp, w, h)
	}
	down := func(x *runtime.Ref[uint32], dp, sp, w, h int) error {
		return runtime.Download2D(bg, s, data, dp, x, sp, w, h)
	}
	for _, r := range []struct {
		err  error
		kind driver.Kind
		text string
	}{
		{up(x, 10, 10, -1, 2), driver.ErrInvalidArgument, "upload of 2 rows of -1 elements: want 0 or more of both"},
		{up(x, 10, 10, 1, math.MinInt), driver.ErrInvalidArgument, "want 0 or more of both"},
		{up(x, 9, 10, 10, 5), driver.ErrInvalidArgument, "upload of rows of 10 elements that begin 9 elements apart in the memory: want 10 or more"},
		{up(x, 10, -1, 10, 5), driver.ErrInvalidArgument, "that begin -1 elements apart in the source: want 10 or more"},
		{up(x, 11, 10, 10, 5), driver.ErrInvalidArgument, "upload of 5 rows of 10 elements that begin 11 elements apart, and the memory has 50 elements"},
		{up(x, 10, 11, 10, 5), driver.ErrInvalidArgument, "and the source has 50 elements"},
		{up(x, math.MaxInt, 10, 10, 2), driver.ErrInvalidArgument, "and the memory has 50 elements"},
		{up(x, math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt), driver.ErrInvalidArgument, "and the memory has 50 elements"},
		{up(x, 1, 1, 1, math.MaxInt), driver.ErrInvalidArgument, "and the memory has 50 elements"},
		{up(closed, 11, 10, 10, 5), driver.ErrClosed, "the Ref was closed before"},
		{up(closed, 10, 10, 10, 5), driver.ErrClosed, "the Ref was closed before"},
		{up(x.Slice(40, 60), 10, 10, 10, 5), driver.ErrInvalidArgument, "slice [40:60]"},
		{up(nil, 10, 10, 10, 5), driver.ErrInvalidArgument, "never allocated"},
		{up(nil, 10, 10, 0, 0), driver.ErrInvalidArgument, "never allocated"},
		{up(far, 10, 10, 10, 5), driver.ErrInvalidArgument, "and the memory is on device"},
		{runtime.Upload2D(bg, nil, x, 10, data, 10, 10, 5), driver.ErrInvalidArgument, "stream"},
		{runtime.Upload2D(none, s, x, 10, data, 10, 10, 5), driver.ErrInvalidArgument, "Upload2D"},
		{runtime.Upload2D(bg, s, x, 10, nil, 10, 10, 5), driver.ErrInvalidArgument, "and the source has 0 elements"},
		{down(x, 11, 10, 10, 5), driver.ErrInvalidArgument, "download of 5 rows of 10 elements that begin 11 elements apart, and the destination has 50 elements"},
		{down(x, 10, 11, 10, 5), driver.ErrInvalidArgument, "and the memory has 50 elements"},
		{down(closed, 10, 11, 10, 5), driver.ErrClosed, "the Ref was closed before"},
		{runtime.Copy2D(nil, x, 10, y, 10, 10, 5), driver.ErrInvalidArgument, "stream"},
		{runtime.Copy2D(s, x, 10, y, 11, 10, 5), driver.ErrInvalidArgument, "copy of 5 rows of 10 elements that begin 11 elements apart, and the source has 50 elements"},
		{runtime.Copy2D(s, x, 10, closed, 10, 10, 5), driver.ErrClosed, "the Ref was closed before"},
		{runtime.Copy2D(s, x, 10, nil, 10, 10, 5), driver.ErrInvalidArgument, "never allocated"},
		{runtime.Copy2D(s, x, 10, y.Slice(40, 60), 10, 10, 5), driver.ErrInvalidArgument, "slice [40:60]"},
		{runtime.Copy2D(s, x, 10, far, 10, 10, 5), driver.ErrInvalidArgument, "copy each row with Copy"},
		{runtime.Copy2D(s, far, 10, x, 10, 10, 5), driver.ErrInvalidArgument, "and the memory is on device"},
	} {
		require.ErrorIs(t, r.err, r.kind, r.text)
		assert.ErrorContains(t, r.err, r.text)
	}
	assert.Equal(t, calls, gpu.Calls("cuMemcpy2DAsync"))
	for _, err := range []error{up(x, 0, 0, 0, 100), up(x, 0, 0, 100, 0), down(x, 0, 0, 0, 0), runtime.Copy2D(s, x, 0, y, 0, 0, 9)} {
		assert.NoError(t, err, "no rows, or no elements in them")
	}
	assert.NoError(t, up(x, 10, 10, 10, 5))
	_, err := s.Capture(func(s *runtime.Stream) error { return up(x, 10, 10, 10, 5) })
	require.ErrorIs(t, err, driver.ErrCaptureFailed)
	assert.ErrorContains(t, err, "Upload2D while the stream is captured")
	_, err = s.Capture(func(s *runtime.Stream) error { return down(x, 10, 10, 10, 5) })
	require.ErrorIs(t, err, driver.ErrCaptureFailed)
	assert.ErrorContains(t, err, "Download2D while the stream is captured")
}
