package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("a line \nmodel name\t: one\nmodel name : two\n"), 0o600))
	assert.Equal(t, "a line", FirstLine(path))
	assert.Equal(t, "one", Field(path, "model name"))
	assert.Empty(t, Field(path, "flags"))
	assert.Empty(t, FirstLine(path+"s"))
	assert.Empty(t, Field(path+"s", "model name"))
	assert.NotEmpty(t, CPU(), "there is always the architecture")
}
