package kernelsum_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/kernelsum"
)

const source = `package k

// Scale scales.
//
//purecuda:kernel equal=x,y
func Scale(t *T, x, y []int) {
	// one by one
	for i := range x { x[i] = y[i] * factor }
}

const factor = 3

type M[E any] struct{ e E }

func (m *M[E]) At(i int) E { return m.e }

func other() {}
`

func TestSum(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) { require.NoError(t, os.WriteFile(filepath.Join(dir, "k.go"), []byte(text), 0o666)) }
	_, err := kernelsum.Parse(dir, "")
	require.ErrorIs(t, err, fs.ErrNotExist)
	write("package k\n\nfunc {")
	_, err = kernelsum.Parse(dir, "")
	require.Error(t, err)
	names := []string{"Scale", "factor", "M", "M.At"}
	sum := func() string {
		f, err := kernelsum.Parse(dir, "")
		require.NoError(t, err)
		return f.Sum(names)
	}
	write(source)
	first := sum()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "k_gpu.go"), []byte(kernelsum.Generated+"\n\npackage k\n\nfunc Scale() {}\n"), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "k_test.go"), []byte("package k\n\nfunc Scale() {}\n"), 0o666))
	for _, c := range []struct {
		from, to string
		same     bool
	}{
		{"package k\n", "package k\n\nvar above = 1\n", true},
		{"\n", "\r\n", true},
		{"one by one", "all of them", true},
		{"{ x[i] = y[i] * factor }", "{\n\t\tx[i] = y[i] * factor\n\t}", true},
		{"func other() {}", "func other() int { return 1 }", true},
		{"y[i] * factor", "y[i] + factor", false},
		{"factor = 3", "factor = 4", false},
		{"equal=x,y", "noalias", false},
		{"E { return m.e }", "E { return m.f }", false},
		{"struct{ e E }", "struct{ e, f E }", false},
	} {
		require.Contains(t, source, c.from)
		write(strings.ReplaceAll(source, c.from, c.to))
		assert.Equal(t, c.same, sum() == first, "%s for %s", c.to, c.from)
	}
}
