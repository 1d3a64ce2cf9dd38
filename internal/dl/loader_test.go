package dl

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/dlhost"
)

// The test binary was started in the ordinary way; package dlhost tests the other ones.
func TestLoaderIsThere(t *testing.T) {
	assert.NoError(t, noLoader())
}

// An unknown word is a mistake of whoever set it, and no absence.
func TestUnknownWordOfTheLoader(t *testing.T) {
	for word, known := range map[string]bool{"": true, "auto": true, "host": true, "static": true, "AUTO": true, "bogus": false, " auto": false, "host,static": false} {
		t.Setenv(dlhost.Variable, word)
		_, attempts, err := Open("purecuda-is-not-there.so")
		require.Error(t, err)
		if known {
			assert.ErrorIs(t, err, ErrNotFound)
			continue
		}
		assert.NotErrorIs(t, err, ErrNotFound)
		assert.ErrorContains(t, err, `PURECUDA_LOADER is "`+word+`": want auto, host or static`)
		assert.Empty(t, attempts)
	}
}

func TestLoaderlessIsAbsence(t *testing.T) {
	err := error(&loaderless{"so it is"})
	assert.ErrorIs(t, err, ErrNotFound)
	assert.NotErrorIs(t, err, ErrNoLoader)
	assert.EqualError(t, err, "this process runs without a dynamic loader: so it is")
}
