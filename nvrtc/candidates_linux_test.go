//go:build amd64 || arm64

package nvrtc

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCandidates(t *testing.T) {
	venv, conda := t.TempDir(), t.TempDir()
	for _, dir := range []string{venv + "/lib/python3.12/site-packages", conda + "/lib/python3.13/site-packages"} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	t.Setenv(PathVariable, "")
	t.Setenv("CUDA_PATH", "/opt/cuda-path")
	t.Setenv("CUDA_HOME", "relative/is/ignored")
	t.Setenv("VIRTUAL_ENV", venv)
	t.Setenv("CONDA_PREFIX", conda)
	list := Candidates()
	target := map[string]string{"amd64": "x86_64-linux", "arm64": "sbsa-linux"}[goruntime.GOARCH]
	at := -1
	for _, want := range []string{ // in this order
		"/opt/cuda-path/lib64/libnvrtc.so.13",
		"/opt/cuda-path/lib64/libnvrtc.so.12",
		"/opt/cuda-path/lib64/libnvrtc.so.11.2",
		"/opt/cuda-path/targets/" + target + "/lib/libnvrtc.so.13",
		"libnvrtc.so.13",
		"libnvrtc.so.12",
		"libnvrtc.so.11.2",
		"/usr/local/cuda/lib64/libnvrtc.so.13",
		venv + "/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
		venv + "/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
		conda + "/lib/python3.13/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
		conda + "/lib/libnvrtc.so.13",
	} {
		next := slices.Index(list, want)
		assert.Greater(t, next, at, want)
		at = next
	}
	assert.Empty(t, filter(list, "relative"))
	unique := slices.Clone(list)
	slices.Sort(unique)
	assert.Len(t, slices.Compact(unique), len(list))

	t.Setenv(PathVariable, "/x/libnvrtc.so")
	assert.Equal(t, []string{"/x/libnvrtc.so"}, Candidates())
}

func filter(list []string, part string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !strings.Contains(s, part) })
}

// TestMappedComesFirst: an NVRTC that somebody else has loaded is found by its file.
func TestMappedComesFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "libnvrtc.so.93")
	build(t, file, "testdata/fakenvrtc.c")
	_, err := Open(file)
	require.NoError(t, err)
	if description.Mapped() != file {
		t.Skip("another NVRTC is in this process: ", description.Mapped())
	}
	t.Setenv(PathVariable, "")
	assert.Equal(t, file, Candidates()[0])
	l, err := Open(file)
	require.NoError(t, err)
	assert.True(t, l.Shared())
}
