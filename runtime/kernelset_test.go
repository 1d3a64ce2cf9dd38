package runtime_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/allocs"
	"github.com/purecuda/purecuda/runtime"
)

// storePTX has kernels that store a number of each type.
const storePTX = `.version 6.4
.target sm_75
.address_size 64
.visible .entry Store32(.param .u64 Store32_out, .param .u32 n)
{
	.reg .b32 %r; .reg .b64 %p;
	ld.param.u64 %p, [Store32_out]; ld.param.u32 %r, [n];
	st.global.u32 [%p], %r; ret;
}
.visible .entry store_64(.param .u64 store_64_out, .param .u64 n)
{
	.reg .b64 %r; .reg .b64 %p;
	ld.param.u64 %p, [store_64_out]; ld.param.u64 %r, [n];
	st.global.u64 [%p], %r; ret;
}
.visible .entry StoreF(.param .u64 StoreF_out, .param .f32 x)
{
	.reg .f32 %r; .reg .b64 %p;
	ld.param.u64 %p, [StoreF_out]; ld.param.f32 %r, [x];
	st.global.f32 [%p], %r; ret;
}
`

func TestKernelsOfAStructure(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	m, err := c.LoadModule(runtime.Image{Code: []byte(storePTX)})
	require.NoError(t, err)
	var k struct {
		Store32 *runtime.Kernel
		Store64 *runtime.Kernel `cuda:"store_64"`
		Other   int
	}
	require.NoError(t, m.Kernels(&k))
	assert.Equal(t, [2]string{"Store32", "store_64"}, [2]string{k.Store32.Name(), k.Store64.Name()})
	same, err := m.Kernel("Store32")
	require.NoError(t, err)
	assert.Same(t, same, k.Store32)

	missing := struct{ Store32, Missing, Other *runtime.Kernel }{}
	err = m.Kernels(&missing)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, `field Missing: `)
	assert.ErrorContains(t, err, `the module has no kernel "Other"`)
	assert.Nil(t, missing.Store32, "all or none")
	hidden := struct{ store *runtime.Kernel }{}
	assert.ErrorContains(t, m.Kernels(&hidden), "field store cannot be set")
	assert.Nil(t, hidden.store)
	for _, wrong := range []any{nil, k, &m, (*struct{ Store32 *runtime.Kernel })(nil), 3} {
		assert.ErrorContains(t, m.Kernels(wrong), "want a pointer to a structure")
	}
	assert.ErrorContains(t, m.Kernels(&struct{ N int }{}), "has no field of type *runtime.Kernel")
	require.NoError(t, m.Close())
	assert.ErrorIs(t, m.Kernels(&k), driver.ErrClosed)
	assert.ErrorIs(t, (*runtime.Module)(nil).Kernels(&k), driver.ErrInvalidArgument)
	assert.ErrorIs(t, new(runtime.Module).Kernels(&k), driver.ErrInvalidArgument)
}

// An Int has the width of its parameter, and what does not fit is an error.
func TestInt(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		m, err := c.LoadModule(runtime.Image{Code: []byte(storePTX)})
		require.NoError(t, err)
		var k struct {
			Store32, StoreF *runtime.Kernel
			Store64         *runtime.Kernel `cuda:"store_64"`
		}
		require.NoError(t, m.Kernels(&k))
		one := runtime.Shape1D(1, 1)
		x := alloc[int64](t, s, 1)
		launch := func(k *runtime.Kernel, v int) (int64, error) {
			require.NoError(t, runtime.Zero(s, x))
			err := k.Launch(s, one, runtime.InOut(x), runtime.Int(v))
			return download(t, s, x)[0], err
		}
		for _, v := range []int{0, 7, -1, math.MaxInt32, math.MinInt32} {
			got, err := launch(k.Store32, v)
			require.NoError(t, err)
			assert.Equal(t, int32(v), int32(got))
			assert.Zero(t, got>>32, "4 bytes were stored")
			got, err = launch(k.Store64, v)
			require.NoError(t, err)
			assert.EqualValues(t, v, got)
		}
		if math.MaxInt > math.MaxInt32 {
			large := int(int64(1) << 40)
			got, err := launch(k.Store64, large)
			require.NoError(t, err)
			assert.EqualValues(t, large, got)
			for _, v := range []int{large, math.MaxInt32 + 1, math.MinInt32 - 1} {
				_, err = launch(k.Store32, v)
				require.ErrorIs(t, err, driver.ErrInvalidArgument)
				assert.ErrorContains(t, err, "parameter 1 of kernel Store32 has 4 bytes: want -2147483648 to 2147483647")
			}
		}
		_, err = launch(k.StoreF, 1)
		assert.ErrorContains(t, err, "argument 1 is an int, and parameter x of kernel StoreF is a .f32: want a float32")
		err = k.Store32.Launch(s, one, runtime.InOut(x), runtime.Value(int64(1)))
		assert.ErrorContains(t, err, "takes 2 arguments of (8, 4) bytes", "a Value has the width of its type")
	})
}

func TestIntDoesNotAllocate(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	k, x := kernel(t, c, "add"), alloc[uint32](t, s, 8)
	synchronize(t, s)
	allocs.AtMost(t, 0, 50, func() {
		if k.Launch(s, runtime.Shape1D(0, 32), runtime.InOut(x), runtime.Int(8), runtime.Int(1)) != nil {
			t.Error("a launch failed")
		}
	})
}
