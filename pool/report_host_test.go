package pool_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
)

func TestErrorNamesTheHost(t *testing.T) {
	cause := errors.New("cause")
	err := &pool.Error{Tiles: []pool.TileReport{
		{Tile: pool.Tile{Lo: 0, Hi: 3}, Host: "a", Device: 1, Cause: cause},
		{Tile: pool.Tile{Lo: 3, Hi: 4}, Host: "b", Device: driver.NoDevice, Cause: cause},
		{Tile: pool.Tile{Lo: 4, Hi: 5}, Device: 2, Cause: cause},
		{Tile: pool.Tile{Index: -1, Lo: 5, Hi: 9}, Device: driver.NoDevice, Cause: pool.ErrStopped},
	}}
	assert.Equal(t, "pool: not done: host a, device 1, items [0, 3): cause; host b, CPU, items [3, 4): cause; device 2, items [4, 5): cause; "+
		"no host, items [5, 9): stopped because another tile failed", err.Error())
}
