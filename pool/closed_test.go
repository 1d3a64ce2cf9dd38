package pool_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// A function that closes the stream of its Worker has an error, and the next one has a stream.
func TestAFunctionClosesItsStream(t *testing.T) {
	mine := errors.New("mine")
	p, _ := open(t, machine(1), pool.Options{Streams: 1})
	for _, result := range []error{nil, mine} {
		_, err := p.Do(t.Context(), func(w *pool.Worker) error {
			require.NoError(t, w.Stream().Close())
			return result
		})
		if result == nil {
			result = driver.ErrClosed
		}
		assert.ErrorIs(t, err, result)
		_, err = p.Do(t.Context(), func(w *pool.Worker) error {
			x, err := runtime.Alloc[byte](w.Stream(), 1)
			return errors.Join(err, x.Close())
		})
		assert.NoError(t, err)
	}
}
