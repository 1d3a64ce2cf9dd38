package arena_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// rectangles are shapes that are copied in one piece, as rows, as parts of rows, and as a line.
var rectangles = []struct{ width, height, hostGap, deviceGap int }{
	{1, 1, 0, 0}, {10, 7, 3, 0}, {10, 7, 0, 5}, {100, 80, 1, 1}, {1000, 300, 24, 0}, {3000, 100, 7, 9},
	{20 << 10, 9, 100, 3}, {90 << 10, 5, 1, 2}, {512, 1000, 0, 0}, {4096, 40, 0, 4096}, {40 << 10, 1, 9, 9},
}

func TestCopiesOfRectangles(t *testing.T) {
	for _, limit := range []uint64{0, 4096} { // staged, and by the driver
		for _, r := range rectangles {
			t.Run(fmt.Sprintf("%dx%d+%d+%d/limit=%d", r.width, r.height, r.hostGap, r.deviceGap, limit), func(t *testing.T) {
				b := newCopyBed(t, drivertest.Config{HotPathNeedsContext: r.width%2 == 0, Chaos: &drivertest.Chaos{SlowWork: 0.2}})
				c := b.copies(t, arena.PinnedConfig{Limit: limit}, smallCopies)
				s := b.stream(t)
				hostPitch, devicePitch := r.width+r.hostGap, r.width+r.deviceGap
				room := devicePitch * r.height
				p := b.memory(t, room)
				b.fill(t, s, p, bytes.Repeat([]byte{0xAA}, room))
				src := random(hostPitch*(r.height-1) + r.width)
				kept := bytes.Clone(src)
				width, height := uint64(r.width), uint64(r.height)
				require.NoError(t, c.Upload2D(background, s, p, uint64(devicePitch), src, uint64(hostPitch), width, height))
				clear(src)
				want := bytes.Repeat([]byte{0xAA}, room)
				for row := range r.height {
					copy(want[row*devicePitch:][:r.width], kept[row*hostPitch:])
				}
				require.Equal(t, want, b.content(t, s, p, room))

				dst := bytes.Repeat([]byte{0x55}, len(src))
				require.NoError(t, c.Download2D(background, s, dst, uint64(hostPitch), p, uint64(devicePitch), width, height))
				for row := range r.height {
					require.Equal(t, kept[row*hostPitch:][:r.width], dst[row*hostPitch:][:r.width])
					if row < r.height-1 {
						require.Equal(t, bytes.Repeat([]byte{0x55}, r.hostGap), dst[row*hostPitch+r.width:][:r.hostGap])
					}
				}

				q := b.memory(t, r.width*r.height)
				require.NoError(t, c.Copy2D(s, q, width, p, uint64(devicePitch), width, height))
				packed := b.content(t, s, q, r.width*r.height)
				for row := range r.height {
					require.Equal(t, kept[row*hostPitch:][:r.width], packed[row*r.width:][:r.width])
				}
			})
		}
	}
}

func TestRectanglesThatDoNotFit(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{})
	c := b.copies(t, arena.PinnedConfig{}, smallCopies)
	s, p := b.stream(t), b.memory(t, 1000)
	host := make([]byte, 100)
	for _, r := range [][4]uint64{ // device pitch, host pitch, width, height
		{10, 10, 10, 11}, {9, 10, 10, 2}, {10, 9, 10, 2}, {1 << 63, 1 << 63, 10, 3}, {10, 10, 1 << 63, 2}, {1 << 62, 10, 10, 9}, {10, 10, 101, 1},
	} {
		require.ErrorIs(t, c.Upload2D(background, s, p, r[0], host, r[1], r[2], r[3]), driver.ErrInvalidArgument, "%v", r)
		require.ErrorIs(t, c.Download2D(background, s, host, r[1], p, r[0], r[2], r[3]), driver.ErrInvalidArgument, "%v", r)
	}
	require.NoError(t, c.Upload2D(background, s, p, 0, host, 0, 0, 5))
	require.NoError(t, c.Download2D(background, s, host, 0, p, 0, 100, 1), "a single row has no pitch")
}

// FuzzCopies compares copies of any shape with what they should do.
func FuzzCopies(f *testing.F) {
	f.Add(uint32(10), uint16(3), uint16(2), uint16(1), uint64(1))
	f.Add(uint32(70000), uint16(1), uint16(0), uint16(0), uint64(2))
	f.Fuzz(func(t *testing.T, width uint32, height, hostGap, deviceGap uint16, seed uint64) {
		w, h := int(width%200000)+1, int(height%300)+1
		if w*h > 2<<20 {
			h = 1
		}
		hg, dg := int(hostGap%5000), int(deviceGap%5000)
		chance := rand.New(rand.NewPCG(seed, 3))
		b := newCopyBed(t, drivertest.Config{})
		config := arena.CopierConfig{ChunkBytes: 1 + uint64(chance.IntN(1<<17)), SlotBytes: 1 + uint64(chance.IntN(1<<15)),
			PieceBytes: 1 + uint64(chance.IntN(1<<15)) + uint64(w*h/200),
			AloneBytes: uint64(chance.IntN(1 << 18)), SmallUploadBytes: int64(chance.IntN(1000))}
		config.ChunkBytes = max(config.ChunkBytes, config.PieceBytes)
		c := b.copies(t, arena.PinnedConfig{}, config)
		s := b.stream(t)
		p := b.memory(t, (w+dg)*h)
		src := random((w+hg)*(h-1) + w)
		dst := make([]byte, len(src))
		require.NoError(t, c.Upload2D(background, s, p, uint64(w+dg), src, uint64(w+hg), uint64(w), uint64(h)))
		require.NoError(t, c.Download2D(background, s, dst, uint64(w+hg), p, uint64(w+dg), uint64(w), uint64(h)))
		for row := range h {
			require.True(t, bytes.Equal(src[row*(w+hg):][:w], dst[row*(w+hg):][:w]), "row %d", row)
		}
	})
}
