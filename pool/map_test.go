package pool_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
)

// tripleCPU is triple without a device.
func tripleCPU(_ context.Context, in, out []uint32) error {
	for i, x := range in {
		out[i] += 3*x + 1 // out is zero at first
	}
	return nil
}

func TestMap(t *testing.T) {
	for _, devices := range []int{1, 3} {
		p, _ := open(t, machine(devices))
		for _, n := range []int{0, 1, 63, 1000, 100_000} {
			in, out := count(n), make([]uint32, n)
			report, err := pool.Map(t.Context(), p, in, out, triple)
			require.NoError(t, err)
			assert.Equal(t, tripled(n), out)
			checkCovers(t, n, report.Tiles)
			for _, tile := range report.Tiles {
				assert.EqualValues(t, 8*tile.Len(), tile.Bytes)
				assert.Positive(t, tile.Upload+tile.Download)
			}
		}
	}
}

func TestMapInPlace(t *testing.T) {
	p, _ := open(t, machine(2))
	data := count(1000)
	_, err := pool.Map(t.Context(), p, data, data, triple)
	require.NoError(t, err)
	assert.Equal(t, tripled(1000), data)
}

// What fails leaves no trace in the output, and the fallback finds the input as it was.
func TestMapOutputAppearsOnlyOnSuccess(t *testing.T) {
	p, _ := open(t, machine(3))
	in, out := count(1000), make([]uint32, 1000)
	for i := range out {
		out[i] = math.MaxUint32
	}
	before := slices.Clone(out)
	failing := func(w *pool.Worker, in, out []uint32) error {
		if err := triple(w, in, out); err != nil || w.Index() != 2 {
			return err
		}
		return errData
	}
	_, err := pool.Map(t.Context(), p, in, out, failing)
	require.ErrorIs(t, err, errData)
	assert.Equal(t, before, out)
	assert.Equal(t, count(1000), in)

	_, err = pool.Map(t.Context(), p, in, out, failing, pool.MapOptions[uint32, uint32]{Fallback: func(context.Context, []uint32, []uint32) error {
		panic("as well")
	}})
	require.ErrorIs(t, err, errData)
	require.ErrorContains(t, err, "as well")
	assert.Equal(t, before, out)

	report, err := pool.Map(t.Context(), p, in, out, failing, pool.MapOptions[uint32, uint32]{Fallback: tripleCPU})
	require.NoError(t, err)
	assert.Equal(t, pool.OnCPU, report.Where)
	assert.ErrorIs(t, report.Err, errData)
	assert.Equal(t, tripled(1000), out)
}

// A retry finds its output zero, whatever the first try has left there.
func TestMapRetryBeginsAtZero(t *testing.T) {
	p, _ := open(t, machine(2))
	in, out := count(500), make([]uint32, 500)
	_, err := pool.Map(t.Context(), p, in, out, func(w *pool.Worker, in, out []uint32) error {
		err := tripleCPU(w.CallContext(), in, out)
		if w.Index() == 0 {
			return errData
		}
		return err
	}, pool.MapOptions[uint32, uint32]{Retry: 1})
	require.NoError(t, err)
	assert.Equal(t, tripled(500), out)
}

func TestMapWithoutCUDA(t *testing.T) {
	p := without(t)
	in, out := count(1000), make([]uint32, 1000)
	_, err := pool.Map(t.Context(), p, in, out, triple)
	require.ErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
	report, err := pool.Map(t.Context(), p, in, out, triple, pool.MapOptions[uint32, uint32]{Fallback: tripleCPU})
	require.NoError(t, err)
	assert.Equal(t, pool.OnCPU, report.Where)
	assert.Equal(t, tripled(1000), out)
}

func TestMapOfOtherTypes(t *testing.T) {
	p, _ := open(t, machine(2))
	in := make([]string, 200)
	out := make([]*string, 200)
	_, err := pool.Map(t.Context(), p, in, out, func(_ *pool.Worker, in []string, out []*string) error {
		for i := range in {
			out[i] = &in[i]
		}
		assert.Equal(t, len(in), cap(in), "no tile reaches into the next one")
		assert.Equal(t, len(out), cap(out))
		return nil
	})
	require.NoError(t, err)
	for i := range out {
		require.Same(t, &in[i], out[i])
	}
	_, err = pool.Map(t.Context(), p, make([]struct{}, 9), make([]struct{}, 9), func(*pool.Worker, []struct{}, []struct{}) error { return nil })
	assert.NoError(t, err, "elements without a size have no memory budget")
}

func TestWrongArgumentsOfMap(t *testing.T) {
	p, _ := open(t, machine(1))
	in, out := count(10), make([]uint32, 10)
	try := func(out []uint32, f func(*pool.Worker, []uint32, []uint32) error, options ...pool.MapOptions[uint32, uint32]) error {
		_, err := pool.Map(t.Context(), p, in, out, f, options...)
		return err
	}
	assert.ErrorIs(t, try(out[1:], triple), driver.ErrInvalidArgument)
	assert.ErrorIs(t, try(out, nil), driver.ErrInvalidArgument)
	assert.ErrorIs(t, try(out, triple, pool.MapOptions[uint32, uint32]{Grain: -1}), driver.ErrInvalidArgument)
	assert.ErrorIs(t, try(out, triple, pool.MapOptions[uint32, uint32]{}, pool.MapOptions[uint32, uint32]{}), driver.ErrInvalidArgument)
}
