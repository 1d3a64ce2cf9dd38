package library

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatCUSOLVERAsksFor(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("makes the folders of Linux")
	}
	site := t.TempDir()
	file := func(path string) string {
		path = filepath.Join(site, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		return path
	}
	wheel := file("nvidia/cusolver/lib/libcusolver.so.11")
	assert.Empty(t, CUSOLVER.Before(wheel))
	jitlink, sparse := file("nvidia/nvjitlink/lib/libnvJitLink.so.12"), file("nvidia/cusparse/lib/libcusparse.so.12")
	blas, lt := file("nvidia/cublas/lib/libcublas.so.12"), file("nvidia/cublas/lib/libcublasLt.so.12")
	assert.Equal(t, []string{jitlink, sparse, lt, blas}, CUSOLVER.Before(wheel))

	fft := file("nvidia/cufft/lib/libcufft.so.12")
	assert.Equal(t, []string{jitlink}, CUFFT.Before(fft))

	toolkit := file("cuda/lib64/libcusolver.so.12")
	sparse, blas, lt = file("cuda/lib64/libcusparse.so.12"), file("cuda/lib64/libcublas.so.13"), file("cuda/lib64/libcublasLt.so.13")
	file("cuda/lib64/libcublasLt.so.12")
	assert.Equal(t, []string{sparse, lt, blas}, CUSOLVER.Before(toolkit), "the newest, and what is not there is left out")

	t.Chdir(filepath.Dir(toolkit))
	for _, none := range []string{"libcusolver.so.12", filepath.Join(site, "libcusolver.so.12")} {
		assert.Empty(t, CUSOLVER.Before(none), none)
	}
}
