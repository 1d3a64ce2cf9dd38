package driver_test

import (
	"testing"

	"github.com/purecuda/purecuda/internal/testc"
)

// TestHeaders compares the lists with NVIDIA's headers of CUDA 12.0 and newer, where a compiler and the
// headers are.
func TestHeaders(t *testing.T) {
	testc.CheckHeader(t, "cudaTypedefs.h", "testdata/abi_check.c", "testdata/abi_entries.h", "testdata/abi_structs.h")
}
