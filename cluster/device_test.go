package cluster_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

// slotsBecome waits until a host tells that it has so many slots, and returns what it tells.
func slotsBecome(t *testing.T, c *cluster.Cluster, name string, slots int) (h cluster.Host) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, h = range c.Hosts() {
			if h.Name == name && h.Slots == slots {
				return true
			}
		}
		return false
	}, patience, 10*time.Millisecond, "%s has not %d slots", name, slots)
	return h
}

// TestDeviceVanishes has a device fall off the bus while pieces run on it. It takes its slots away, and neither the worker nor a
// result; when it is back, so are they.
func TestDeviceVanishes(t *testing.T) {
	for _, c := range []struct {
		name                string
		devices, others     int // of the host, and hosts besides
		before, after, dead int // slots, and the ordinal of the device
	}{
		{"one of two", 2, 0, 8, 4, 1},
		{"the only one, beside another host", 1, 1, 4, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, embedded.Config{})
			gpu := drivertest.ForTest(t, simulated(c.devices))
			const streams = 4 // as many as slots: then no device can do all
			serve(t, connect(t, s), poolOf(t, gpu, pool.Options{Streams: streams}), "host", cluster.WithSlots(streams))
			for range c.others {
				serve(t, connect(t, s), openPool(t, 1), "other")
			}
			all := open(t, connect(t, s), cluster.WithPatience(patience))
			require.Eventually(t, func() bool { return len(all.Hosts()) == 1+c.others }, patience, 10*time.Millisecond)
			first := slotsBecome(t, all, "host", c.before)

			vanish, vanished := once(func() { gpu.Vanish(c.dead) })
			report := squares(t, all, "touch/v1", 200, at(t, 20, vanish))
			vanished()
			failed := 0
			for _, tile := range report.Tiles {
				if failed += tile.Retries; tile.Retries > 0 {
					assert.ErrorIs(t, tile.Cause, driver.ErrDeviceLost)
				}
			}
			assert.Positive(t, failed, "no piece ran on the device")
			assert.Less(t, failed, 50, "a device that fails at once took pieces that others could do")
			lost := slotsBecome(t, all, "host", c.after)
			assert.Equal(t, first.ID, lost.ID)
			assert.NotEmpty(t, lost.Devices[c.dead].Err)
			for _, tile := range squares(t, all, "touch/v1", 50).Tiles {
				assert.False(t, tile.Host == "host" && tile.Device == c.dead, "a piece on a lost device")
				assert.Zero(t, tile.Retries)
			}

			gpu.Return(c.dead)
			back := slotsBecome(t, all, "host", c.before)
			assert.Equal(t, first.ID, back.ID)
			assert.Empty(t, back.Devices[c.dead].Err)
			served := false
			for _, tile := range squares(t, all, "touch/v1", 200).Tiles {
				served = served || tile.Host == "host" && tile.Device == c.dead
				assert.Zero(t, tile.Retries)
			}
			assert.True(t, served, "no piece on the device that is back")
		})
	}
}

// TestDeviceLeftOut has the children of a device die too often.
func TestDeviceLeftOut(t *testing.T) {
	const devices = 2
	group := group(t, devices, isolate.WithRestarts(1, time.Hour))
	s := start(t, embedded.Config{})
	serve(t, connect(t, s), group, "host")
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	first := slotsBecome(t, c, "host", 4)

	dead := -1
	require.Eventually(t, func() bool {
		pid, report, err := cluster.Do(within(t), c, "pid/v1", cluster.Piece{})
		if !assert.NoError(t, err) {
			return true
		}
		if dead < 0 {
			dead = report.Device
		}
		if report.Device == dead {
			n, err := strconv.Atoi(string(pid))
			assert.NoError(t, err)
			child, err := os.FindProcess(n)
			assert.NoError(t, err)
			_ = child.Kill() // it may be gone
		}
		return group.Stats().Devices[dead].State == isolate.LeftOut
	}, patience, time.Millisecond)
	lost := slotsBecome(t, c, "host", 2)
	assert.Equal(t, first.ID, lost.ID)
	assert.NotEmpty(t, lost.Devices[dead].Err)
	for _, tile := range squares(t, c, "slow/v1", 50).Tiles {
		assert.NotEqual(t, dead, tile.Device)
	}
}
