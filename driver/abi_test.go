package driver_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeaders compares the lists with NVIDIA's headers of CUDA 12.0 and newer, where a compiler and the
// headers are.
func TestHeaders(t *testing.T) {
	folder := os.Getenv("PURECUDA_CUDA_INCLUDE")
	if folder == "" {
		folder = "/usr/local/cuda/include"
	}
	if _, err := os.Stat(filepath.Join(folder, "cudaTypedefs.h")); err != nil {
		t.Skipf("no cuda.h: set PURECUDA_CUDA_INCLUDE to the folder that has it (%v)", err)
	}
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("no compiler: %v", err)
	}
	for _, file := range []string{"abi_check.c", "abi_entries.h", "abi_structs.h"} {
		_, err := os.ReadFile(filepath.Join("testdata", file)) // so that go test knows of a change
		require.NoError(t, err)
	}
	out, err := exec.Command(compiler, "-std=c11", "-fsyntax-only", "-I"+folder, filepath.Join("testdata", "abi_check.c")).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
