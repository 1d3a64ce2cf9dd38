//go:build linux && (amd64 || arm64)

package isolate_test

import (
	"encoding/binary"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

// openPool opens the pool of a group, and closes it at the end of the test.
func openPool(t testing.TB, g *isolate.Group, options ...pool.Options) *pool.Pool {
	t.Helper()
	p, err := g.Pool(options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

// words are a buffer of a group as numbers.
func words(t testing.TB, g *isolate.Group, n int) (*isolate.Buffer, []uint32) {
	t.Helper()
	b, err := g.NewBuffer(4 * n)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	return b, unsafe.Slice((*uint32)(unsafe.Pointer(&b.Bytes()[0])), n)
}

// set fills a part of the first buffer in a child: it may be done twice.
func set(lo, hi int) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(lo)), uint32(hi))
}

// Scatter, Map and Reduce work over children, and survive that one is killed.
func TestPool(t *testing.T) {
	onDrivers(t, func(t *testing.T, g *isolate.Group) {
		p := openPool(t, g)
		const n = 1 << 14
		b, all := words(t, g, n)
		alone := len(p.Devices()) == 1
		killed := alone
		report, err := p.Scatter(within(t), n, func(w *pool.Worker, tile pool.Tile) error {
			if tile.Lo == 0 && !killed { // only one piece begins there
				killed = true
				_, err := g.Call(w, "kill/v1", nil)
				return err
			}
			_, err := g.Call(w, "set/v1", set(tile.Lo, tile.Hi), isolate.WithBuffers(b), isolate.WithRetry(3))
			return err
		}, pool.ScatterOptions{Retry: 1})
		require.NoError(t, err)
		for i, word := range all {
			require.EqualValues(t, i, word)
		}
		assert.Equal(t, pool.OnGPU, report.Where)
		items, retries := 0, 0
		for _, tile := range report.Tiles {
			items, retries = items+tile.Len(), retries+tile.Retries
			if tile.Retries > 0 {
				assert.ErrorIs(t, tile.Cause, isolate.ErrChildDied)
			}
		}
		assert.Equal(t, n, items)
		assert.Equal(t, !alone, retries == 1)
		in, out := make([]byte, 1000), make([]byte, 1000)
		for i := range in {
			in[i] = byte(i)
		}
		_, err = pool.Map(within(t), p, in, out, func(w *pool.Worker, in, out []byte) error {
			result, err := g.Call(w, "echo/v1", in)
			copy(out, result)
			return err
		})
		require.NoError(t, err)
		assert.Equal(t, in, out)
		sum, _, err := pool.Reduce(within(t), p, n, 100, func(w *pool.Worker, lo, hi int, out []int) error {
			_, err := g.Call(w, "echo/v1", nil)
			for i := range out {
				out[i] = min(hi, lo+100*(i+1)) - (lo + 100*i)
			}
			return err
		}, func(a, b int) int { return a + b })
		require.NoError(t, err)
		assert.Equal(t, n, sum)
	})
}

// A key of another device is an error of Call, and the key goes on.
func TestCallWithAKey(t *testing.T) {
	g := open(t, 2)
	p := openPool(t, g)
	call := func(device int) error {
		_, err := p.Do(within(t), func(w *pool.Worker) error {
			_, err := g.Call(w, "count/v1", nil, isolate.WithKey("a"))
			return err
		}, pool.DoOptions{Devices: []int{device}})
		return err
	}
	require.NoError(t, call(1))
	err := call(0)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, `the key "a" is in a child of device 1, and the worker of Call is of device 0`)
	require.NoError(t, call(1))
	n, _, _ := counted(t, g, "a")
	assert.Equal(t, 3, n)
}

// A device that is left out gets nothing, and the report says so.
func TestPoolSkips(t *testing.T) {
	g := open(t, 2, isolate.WithRestarts(1, time.Hour))
	p := openPool(t, g)
	for range 2 {
		_, _, err := g.Do(within(t), "kill/v1", nil, isolate.WithDevices(1))
		assert.ErrorIs(t, err, isolate.ErrChildDied)
	}
	require.Eventually(t, func() bool { return g.Stats().Devices[1].State == isolate.LeftOut }, 10*time.Second, time.Millisecond)
	report, err := p.Scatter(within(t), 100, func(w *pool.Worker, tile pool.Tile) error {
		_, err := g.Call(w, "echo/v1", nil)
		return err
	})
	require.NoError(t, err)
	require.Len(t, report.Skipped, 1)
	assert.Equal(t, 1, report.Skipped[0].Ordinal)
	assert.ErrorIs(t, report.Skipped[0].Err, isolate.ErrGaveUp)
	for range 4 { // Do finds the other one as well
		done, err := p.Do(within(t), func(w *pool.Worker) error {
			assert.Nil(t, w.Stream())
			assert.Nil(t, w.Context())
			_, err := g.Call(w, "echo/v1", nil)
			return err
		})
		require.NoError(t, err)
		assert.Equal(t, 0, done.Device)
	}
	_, _, err = g.Do(within(t), "echo/v1", nil, isolate.WithDevices(1))
	assert.ErrorIs(t, err, isolate.ErrGaveUp)
	_, err = g.Call(nil, "echo/v1", nil)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	var none *isolate.Group
	_, err = none.Pool()
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.NoError(t, syscall.Kill(g.Stats().Devices[0].PID, 0))
}
