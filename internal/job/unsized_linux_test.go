package job

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Files of /proc are 0 bytes long and have content.
func TestFilesThatTellNoSize(t *testing.T) {
	const file = "/proc/version"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Skipf("no /proc: %v", err)
	}
	folder := writeTree(t, map[string]string{"a": "first", "z": "last", "empty": ""})
	require.NoError(t, os.Symlink(file, filepath.Join(folder, "link")))
	for path, want := range map[string]string{file: string(data), folder: "first" + string(data) + "last"} {
		in := mustList(t, path)
		assert.EqualValues(t, len(want), in.Bytes, path)
		result, err := Run(context.Background(), in, NewCPU(2), Options{ChunkBytes: 1 << 10})
		require.NoError(t, err)
		var parts [][]byte
		if path == folder {
			parts = [][]byte{[]byte("first"), data, []byte("last")}
		} else {
			parts = [][]byte{data}
		}
		root := sha256.New()
		for _, part := range parts {
			digest := sha256.Sum256(part)
			root.Write(digest[:])
		}
		assert.Equal(t, root.Sum(nil), result.Root[:], path)
	}
}
