package arena

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClasses(t *testing.T) {
	last := uint64(0)
	for class := range classes {
		size := classBytes(class)
		require.Greater(t, size, last, "class %d", class)
		// The sizes above that of the class before and up to its own are in it.
		require.Equal(t, class, classOf(last+1))
		require.Equal(t, class, classOf(size))
		if size > 1024 {
			assert.LessOrEqual(t, size, last+last/steps, "class %d wastes more than an eighth", class)
		}
		if size >= 16<<20 {
			assert.Zero(t, size%(2<<20), "class %d", class)
		}
		last = size
	}
	assert.Equal(t, uint64(maxBytes), last)
}
