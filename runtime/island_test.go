package runtime_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

func ordinalsOf(devices []runtime.Device) (ordinals []int) {
	for _, d := range devices {
		ordinals = append(ordinals, d.Ordinal)
	}
	return ordinals
}

func TestLinks(t *testing.T) {
	config := drivertest.Config{Devices: drivertest.Devices(5, drivertest.H100())}
	for i := range config.Devices {
		config.Devices[i].Island = i % 2
	}
	config.Devices[4].NoPeers = true
	rt, gpu := open(t, config)
	links := map[int][]int{}
	for _, d := range rt.Devices() {
		links[d.Ordinal] = d.Links
	}
	assert.Equal(t, map[int][]int{0: {2}, 1: {3}, 2: {0}, 3: {1}, 4: nil}, links)
	var islands [][]int
	for _, island := range runtime.Islands(rt.Devices()) {
		islands = append(islands, ordinalsOf(island))
	}
	assert.Equal(t, [][]int{{0, 2}, {1, 3}, {4}}, islands)
	assert.Zero(t, gpu.Calls("cuDevicePrimaryCtxRetain"), "no context is needed")
}

// A driver that does not tell, or tells it of one direction only, has no links.
func TestLinksThatTheDriverDoesNotTell(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100()), Missing: []string{"cuDeviceCanAccessPeer"}})
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer rt.Close()
	for _, d := range rt.Devices() {
		assert.Empty(t, d.Links)
	}
	assert.Len(t, runtime.Islands(rt.Devices()), 2)
}

func TestIslands(t *testing.T) {
	d := func(ordinal int, score float64, links ...int) runtime.Device {
		return runtime.Device{Ordinal: ordinal, Score: score, Links: links}
	}
	broken := d(9, 100, 1)
	broken.Err = driver.Errorf(driver.ErrDeviceLost, "gone")
	resting := d(8, 100, 1)
	resting.Quarantine = broken.Err
	for name, c := range map[string]struct {
		devices []runtime.Device
		want    [][]int
	}{
		"none":                  {nil, nil},
		"alone":                 {[]runtime.Device{d(3, 1)}, [][]int{{3}}},
		"a chain is two":        {[]runtime.Device{d(0, 3, 1), d(1, 2, 0, 2), d(2, 1, 1)}, [][]int{{0, 1}, {2}}},
		"the larger sum first":  {[]runtime.Device{d(0, 3), d(1, 2, 2), d(2, 2, 1)}, [][]int{{1, 2}, {0}}},
		"those that fail apart": {[]runtime.Device{broken, resting, d(1, 1, 8, 9)}, [][]int{{1}}},
		"one direction is none": {[]runtime.Device{d(0, 1, 1), d(1, 1)}, [][]int{{0}, {1}}},
	} {
		var got [][]int
		for _, island := range runtime.Islands(c.devices) {
			got = append(got, ordinalsOf(island))
		}
		assert.Equal(t, c.want, got, name)
	}
	assert.True(t, (*runtime.Runtime)(nil).OneIsland()(d(1, 1)))
}
