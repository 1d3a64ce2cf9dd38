package runtime_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// symbolsPTX has variables in constant and in global memory, and a kernel that adds them:
// total += table[thread] * factor.
const symbolsPTX = `
.version 6.4
.target sm_75
.address_size 64
.visible .const .align 4 .b8 table[16];
.visible .const .align 4 .u32 factor = 3;
.visible .global .align 8 .u64 total = 5;

.visible .entry sum()
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<7>;
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd1, %r1, 4;
	mov.u64 %rd2, table;
	add.s64 %rd3, %rd2, %rd1;
	ld.const.u32 %r2, [%rd3];
	ld.const.u32 %r3, [factor];
	mul.lo.u32 %r4, %r2, %r3;
	cvt.u64.u32 %rd4, %r4;
	mov.u64 %rd5, total;
	atom.global.add.u64 %rd6, [%rd5], %rd4;
	ret;
}
`

// read downloads a variable.
func read[T any](t *testing.T, s *runtime.Stream, v *runtime.Variable[T]) []T {
	t.Helper()
	data := make([]T, v.Len())
	require.NoError(t, v.Download(bg, s, data))
	return data
}

func TestSymbols(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		m, err := c.LoadModule(runtime.Image{Code: []byte(symbolsPTX)})
		require.NoError(t, err)
		sum, err := m.Kernel("sum")
		require.NoError(t, err)
		table, err := runtime.FindVariable[uint32](m, "table")
		require.NoError(t, err)
		factor, err := runtime.FindVariable[uint32](m, "factor")
		require.NoError(t, err)
		total, err := runtime.FindVariable[uint64](m, "total")
		require.NoError(t, err)
		assert.Equal(t, []int{4, 1, 1}, []int{table.Len(), factor.Len(), total.Len()})
		assert.Equal(t, []uint32{3}, read(t, s, factor))
		assert.Equal(t, make([]uint32, 4), read(t, s, table))

		run := func() error { return sum.Launch(s, runtime.Shape1D(4, 4)) }
		require.NoError(t, errors.Join(table.Upload(bg, s, []uint32{1, 2, 3, 4}), run()))
		assert.Equal(t, []uint64{5 + 3*10}, read(t, s, total))
		require.NoError(t, errors.Join(factor.Upload(bg, s, []uint32{10}), table.Upload(bg, s, []uint32{0, 0, 3, 4}), total.Zero(s), run()))
		assert.Equal(t, []uint64{10 * 7}, read(t, s, total))
		pinned := allocHost[uint32](t, c, 4)
		copy(pinned.Data(), []uint32{10, 20, 30, 40})
		require.NoError(t, errors.Join(table.UploadHost(s, pinned), run()))
		assert.Equal(t, []uint64{10*7 + 10*100}, read(t, s, total))

		wide, err := runtime.FindVariable[[4]uint32](m, "table")
		require.NoError(t, err)
		assert.Equal(t, [][4]uint32{{10, 20, 30, 40}}, read(t, s, wide))

		g := capture(t, s, func(s *runtime.Stream) error { return errors.Join(total.Zero(s), run()) })
		graph := instantiate(t, g)
		require.NoError(t, m.Close())
		require.NoError(t, graph.Launch(s))
		synchronize(t, s)
		assert.ErrorIs(t, total.Zero(s), driver.ErrClosed)
		assert.ErrorIs(t, table.Upload(bg, s, make([]uint32, 4)), driver.ErrClosed)
		assert.ErrorIs(t, total.Download(bg, s, make([]uint64, 1)), driver.ErrClosed)
		assert.ErrorIs(t, table.UploadHost(s, pinned), driver.ErrClosed)
		_, err = runtime.FindVariable[uint32](m, "factor")
		assert.ErrorIs(t, err, driver.ErrClosed)
	})
}

func TestSymbolsThatDoNotFit(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		m := loadKernels(t, contextOf(t, rt))
		_, err := runtime.FindVariable[uint32](m, "question")
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, `the module has no variable "question"`)
		_, err = runtime.FindVariable[uint64](m, "answer")
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, `the variable "answer" has 4 bytes, which are not whole elements of uint64 with 8`)
		_, err = runtime.FindVariable[*uint32](m, "answer")
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, "holds pointers")
		half, err := runtime.FindVariable[uint16](m, "answer")
		require.NoError(t, err)
		assert.Equal(t, 2, half.Len())
	})
}
