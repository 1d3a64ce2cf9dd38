package runtime_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// priorities is a driver that notes which priorities it is asked for.
type priorities struct {
	driver.API
	asked []int32
}

func (p *priorities) StreamCreateWithPriority(flags uint32, priority int32) (driver.Stream, driver.Result) {
	p.asked = append(p.asked, priority)
	return p.API.StreamCreateWithPriority(flags, priority)
}

// A number is brought into the range of what the driver takes, and keeps its meaning.
func TestPriorityIsNotCut(t *testing.T) {
	api := &priorities{API: drivertest.ForTest(t, twoDevices())}
	rt := openOn(t, api)
	c := contextOf(t, rt)
	api.asked = nil
	for _, priority := range []int{math.MaxInt, math.MinInt, 1<<32 - 1, -1 << 32, 3, -3} {
		s, err := c.NewStreamWithPriority(priority)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	assert.Equal(t, []int32{math.MaxInt32, math.MinInt32, math.MaxInt32, math.MinInt32, 3, -3}, api.asked)
}

// Numbers that are none of a block's are refused, and those of the device's limits are its own.
func TestOccupancyIsNotCut(t *testing.T) {
	rt, _ := open(t, twoDevices())
	m, err := contextOf(t, rt).LoadModule(runtime.Image{Code: kernelsPTX})
	require.NoError(t, err)
	k, err := m.Kernel("add")
	require.NoError(t, err)
	for _, c := range []struct {
		threads, shared int
		says            string
	}{
		{0, 0, "a block of 0 threads: want 1 to 1024"},
		{-1, 0, "a block of -1 threads"},
		{1<<60 + 1, 0, "a block of 1152921504606846977 threads"},
		{256, -1, "-1 bytes of dynamic shared memory: want 0 or more"},
		{256, math.MinInt, "-9223372036854775808 bytes"},
	} {
		_, err := k.MaxActiveBlocks(c.threads, c.shared)
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, c.says)
	}
	_, _, err = k.MaxPotentialBlockSize(-1)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, _, err = k.MaxPotentialBlockSize(math.MaxInt)
	require.Error(t, err)
	n, err := k.MaxActiveBlocks(256, 0)
	require.NoError(t, err)
	assert.Equal(t, 8, n)
}
