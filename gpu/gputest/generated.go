package gputest

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/purecuda/purecuda/internal/kernelsum"
)

// Generated fails a test where a kernel has changed since gpuc compiled it: on a GPU, and in the loops on the CPU, its old
// form would run. The test that gpuc writes calls it, in the folder of the package. Each line is a sum, the name of the
// kernel, and the declarations of the package that it needs. Where the source is not there, it skips the test.
func Generated(t testing.TB, lines ...string) {
	t.Helper()
	files, err := kernelsum.Parse(".", "")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the source of the kernels is not here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) < 3 {
			t.Errorf("%q is no line of gpuc: run go generate", line)
			continue
		}
		if files.Sum(words[2:]) != words[0] {
			t.Errorf("the kernel %s, or what it calls, has changed since gpuc compiled it: run go generate", words[1])
		}
	}
}
