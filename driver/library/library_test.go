package library

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

const variable = "PURECUDA_TEST_LIBRARY_PATH"

var none = Description{
	Name: "NONE", Purpose: "do nothing", Without: "do nothing", Install: "pip install none", Variable: variable,
	Linux:   Names{Files: []string{"libpurecuda-none.so.2", "libpurecuda-none.so.1"}, Wheels: []string{"nvidia/none/lib"}},
	Windows: Names{Files: []string{"purecuda_none2.dll", "purecuda_none1.dll"}, Wheels: []string{`nvidia\none\bin`}},
}

func TestNobodyHasIt(t *testing.T) {
	t.Setenv(variable, "")
	_, err := none.Open()
	if len(none.names().Files) == 0 {
		assert.EqualError(t, err, "LibraryUnavailable: NVIDIA has no NONE for this platform: do nothing")
		return
	}
	require.ErrorIs(t, err, driver.ErrLibraryUnavailable)
	assert.ErrorIs(t, err, driver.ErrUnsupported, "which was the kind before")
	assert.ErrorContains(t, err, "LibraryUnavailable: no NONE to do nothing with: install it (pip install none), or name the file in "+variable+"; tried ")
	for _, c := range none.Candidates() {
		assert.ErrorContains(t, err, c, "every place is named")
	}
	var known *driver.Error
	require.ErrorAs(t, err, &known)
	require.Len(t, known.Attempts, len(none.Candidates()))
	for _, a := range known.Attempts {
		assert.NotEmpty(t, a.Reason)
	}
}

func TestVariableReplacesAll(t *testing.T) {
	t.Setenv(variable, "/x/none")
	assert.Equal(t, []string{"/x/none"}, none.Candidates())
	_, err := none.Open()
	assert.ErrorIs(t, err, driver.ErrLibraryUnavailable)
}

func TestAFileThatDoesNotDoIsNoAbsence(t *testing.T) {
	if len(none.names().Files) == 0 {
		t.Skip("no loader on " + goruntime.GOOS)
	}
	file := filepath.Join(t.TempDir(), none.names().Files[0])
	require.NoError(t, os.WriteFile(file, []byte("no library"), 0o700))
	_, err := none.Open(filepath.Join(t.TempDir(), "nothing"), file)
	var known *driver.Error
	require.ErrorAs(t, err, &known)
	assert.Equal(t, driver.ErrDriverLibraryLoadFailed, known.Kind)
	assert.ErrorContains(t, err, "NONE is there and cannot be used")
	assert.Len(t, known.Attempts, 2)
}

// A library that is refused is an attempt, and the next one is tried.
func TestARefusedLibraryIsAnAttempt(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("opens libc.so.6 and libm.so.6, which are of Linux")
	}
	d := none
	d.Functions, d.Oldest = []string{"purecuda_none", "cosf"}, Since{2, 0}
	candidates := []string{"libpurecuda-none.so.7", "libc.so.6", "libm.so.6"}
	_, err := d.Open(candidates...)
	var known *driver.Error
	require.ErrorAs(t, err, &known)
	assert.Equal(t, driver.ErrDriverLibraryLoadFailed, known.Kind)
	require.Len(t, known.Attempts, 3)
	assert.ErrorContains(t, err, "NONE is there and cannot be used: libc.so.6: lacks purecuda_none, cosf: not NONE, or one older than 2.0")
	assert.Equal(t, "lacks purecuda_none: not NONE, or one older than 2.0", known.Attempts[2].Reason)

	d.Functions = []string{"cosf"}
	l, err := d.Open(candidates...)
	require.NoError(t, err)
	assert.Equal(t, "libm.so.6", l.Path())
	assert.Equal(t, known.Attempts[0], l.Attempts()[0])
	assert.Equal(t, driver.Attempt{Name: "libc.so.6", Reason: "lacks cosf: not NONE, or one older than 2.0"}, l.Attempts()[1])

	d.OfDriver = true
	_, err = d.Open("libc.so.6")
	assert.ErrorContains(t, err, "or one older than CUDA 2.0")
}

func TestLibrariesOfTheDriverLieBesideIt(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("looks at the folders of Linux")
	}
	t.Setenv(variable, "")
	t.Setenv(driver.PathVariable, "")
	t.Setenv("CUDA_HOME", "/opt/cuda")
	d := none
	d.OfDriver = true
	list := d.Candidates()
	assert.Equal(t, "libpurecuda-none.so.2", list[0])
	assert.Equal(t, "libpurecuda-none.so.1", list[len(list)-1])
	assert.Contains(t, list, "/usr/lib/wsl/lib/libpurecuda-none.so.2")
	assert.Len(t, driver.Candidates(), len(list))
	assert.Equal(t, "libcuda.so", slices.Clone(driver.Candidates())[len(list)-1])
	assert.NotContains(t, list, "/opt/cuda/lib64/libpurecuda-none.so.2")
}

func TestVersions(t *testing.T) {
	assert.Equal(t, "12.4.5", Version{12, 4, 5}.String())
	assert.Equal(t, "of an unknown version", Version{}.String())
	assert.True(t, Version{11, 3, 9}.Before(Since{11, 4}))
	assert.True(t, Version{10, 9, 0}.Before(Since{11, 4}))
	assert.False(t, Version{11, 4, 0}.Before(Since{11, 4}))
	assert.False(t, Version{12, 0, 0}.Before(Since{11, 4}))
	assert.False(t, Version{}.Before(Since{11, 4}), "nobody knows")
	for _, c := range []struct {
		d    Description
		v    Version
		cuda int
	}{
		{CUBLAS, Version{12, 4, 5}, 12}, {cuBLASLt, Version{13, 0, 0}, 13}, {CUFFT, Version{11, 2, 1}, 12}, {CUFFT, Version{12, 0, 0}, 13},
		{CURAND, Version{10, 2, 9}, 11}, {CURAND, Version{10, 3, 5}, 12}, {CURAND, Version{10, 4, 0}, 13},
		{CUSOLVER, Version{11, 6, 1}, 11}, {CUSOLVER, Version{12, 0, 0}, 13},
	} {
		assert.Equal(t, c.cuda, c.d.CUDA(c.v), "%s %v", c.d.Name, c.v)
	}
}

func TestDescriptions(t *testing.T) {
	variables := map[string]bool{}
	for _, d := range Further {
		assert.NotEmpty(t, d.Install, d.Name)
		assert.False(t, variables[d.Variable], d.Variable)
		variables[d.Variable] = true
		t.Setenv(d.Variable, "")
		for _, file := range d.names().Files {
			assert.Contains(t, d.Candidates(), file)
		}
	}
	assert.Equal(t, filepath.Join("a", "libcublasLt.so.12"), cublasLtBeside(filepath.Join("a", "libcublas.so.12")))
	assert.Equal(t, "cublasLt64_12.dll", cublasLtBeside("cublas64_12.dll"))
}

// What a library asks for is loaded before it.
func TestBefore(t *testing.T) {
	d := none
	var asked []string
	d.Before = func(candidate string) []string {
		asked = append(asked, candidate)
		return []string{candidate + ".before"}
	}
	_, err := d.Open("/none/a", "/none/b")
	require.Error(t, err)
	assert.Equal(t, []string{"/none/a", "/none/b"}, asked)
}
