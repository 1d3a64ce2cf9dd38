package pool

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestReaders(t *testing.T) {
	for _, c := range []struct{ cores, devices, readers, perDevice int }{
		{2, 1, 2, 4}, {16, 1, 12, 24}, {64, 1, 12, 24}, {32, 2, 16, 16}, {64, 4, 16, 16}, {16, 4, 16, 8},
		{128, 8, 16, 16}, {8, 8, 8, 2}, {4, 8, 8, 2}, {1, 1, 1, 2}, {1024, 32, 32, 16},
	} {
		readers, perDevice := readersFor(c.devices, c.cores)
		assert.Equal(t, []int{c.readers, c.perDevice}, []int{readers, perDevice}, "%d cores, %d devices", c.cores, c.devices)
	}
}
