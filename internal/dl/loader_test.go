package dl

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The test binary was started in the ordinary way; package dlhost tests the other ones.
func TestLoaderIsThere(t *testing.T) {
	assert.NoError(t, noLoader())
}

func TestLoaderlessIsAbsence(t *testing.T) {
	err := error(&loaderless{"so it is"})
	assert.ErrorIs(t, err, ErrNotFound)
	assert.NotErrorIs(t, err, ErrNoLoader)
	assert.EqualError(t, err, "this process runs without a dynamic loader: so it is")
}
