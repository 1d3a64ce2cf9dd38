package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const layoutOther = `package ta

type Key uint32

type In struct{ A, B uint8 }

type Q struct{ X, Y int32 }

type P struct {
	N     float32
	Of    Key
	Parts [2]In
}

type Big struct{ Than float32 }

func (b Big) Keep(p P) bool { return p.N > b.Than }

type Hidden struct {
	first, second uint32
	_             [2]inner
}

type inner struct{ A, B uint16 }

type Low struct{}

func (Low) Keep(h Hidden) bool { return h.first < h.second }
`

const layoutOwn = `package k

import (
	"example.com/k/ta"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/kernels"
)

var _ kernels.Chunk

//purecuda:instantiate kernels.Select[ta.P, ta.Big]
//purecuda:instantiate kernels.Select[ta.Hidden, ta.Low]

type Own struct {
	x, Y uint16
}

type M struct{ D []Own }

//purecuda:kernel
func Swap(t *gpu.Thread, q []ta.Q, m M) { q[0].X, q[0].Y, m.D[0].x = q[0].Y, q[0].X, 1 }
`

const layoutLoads = `package k

import (
	"testing"

	"github.com/purecuda/purecuda/gpu/gputest"
)

func TestLoad(t *testing.T) {
	rt := gputest.Runtime(t)
	b, err := rt.Probe("test")
	if err != nil {
		t.Fatal(err)
	}
	k, err := LoadSelectHiddenLow(b.Context)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
}
`

// TestLayoutChanged changes types of another package whose layout kernels that are compiled rely on: the program does not build,
// or it does not load them.
func TestLayoutChanged(t *testing.T) {
	dir := module(t, layoutOwn)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "ta"), 0o777))
	write(t, filepath.Join(dir, "ta"), "ta.go", layoutOther)
	write(t, dir, "load_test.go", layoutLoads)
	require.NoError(t, run([]string{dir}, io.Discard))
	formatted(t, read(t, dir)["kernels_gpu.go"])
	out, err := goes(t, dir, "test", ".")
	require.NoError(t, err, out)
	const build = "cannot convert runGoGenerate (variable of type *"
	for _, c := range []struct{ name, from, to, want string }{
		{"fields of one size change places", "struct{ X, Y int32 }", "struct{ Y, X int32 }", build + "ta.Q)"},
		{"a field more", "\tN     float32\n", "\tMore, N     float32\n", build + "ta.P)"},
		{"a basic type of another size", "type Key uint32", "type Key int64", build + "ta.Key)"},
		{"a basic type of the same size", "type Key uint32", "type Key int32", build + "ta.Key)"},
		{"a nested struct", "struct{ A, B uint8 }", "struct{ A, C, B uint8 }", build + "ta.In)"},
		{"an array", "[2]In", "[3]In", build + "ta.P)"},
		{"the size of an operation", "struct{ Than float32 }", "struct{ _, Than float32 }", build + "ta.Big)"},
		{"hidden fields", "first, second", "second, first", "ta.Hidden is struct{second uint32;first uint32;_ [2]struct{A uint16;B uint16;};}, and gpuc has compiled kernels for struct{first uint32;second uint32;"},
		{"a hidden type", "struct{ A, B uint16 }", "struct{ A, B int16 }", "[2]struct{A uint16;B uint16;};}: run go generate"},
		{"a method, which only gpuc sees", "p.N >", "p.N >=", ""},
		{"tags and comments", "float32\n\tOf    Key\n", "float32 `json:\"n\"` // N\n\tOf    Key\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Contains(t, layoutOther, c.from)
			write(t, filepath.Join(dir, "ta"), "ta.go", strings.Replace(layoutOther, c.from, c.to, 1))
			command := "test"
			if strings.HasPrefix(c.want, build) {
				command = "build" // which takes less time
			}
			out, err := goes(t, dir, command, ".")
			if c.want != "" {
				assert.Error(t, err)
				assert.Contains(t, out, c.want)
				return
			}
			assert.NoError(t, err, out)
			if check := run([]string{"-check", dir}, io.Discard); strings.HasPrefix(c.name, "a method") {
				assert.ErrorContains(t, check, "is not what the source gives: run gpuc")
			} else {
				assert.NoError(t, check)
			}
		})
	}
	write(t, filepath.Join(dir, "ta"), "ta.go", layoutOther)
	write(t, dir, "k.go", strings.Replace(layoutOwn, "x, Y uint16", "Y, x uint16", 1))
	out, err = goes(t, dir, "build", ".")
	require.Error(t, err)
	assert.Contains(t, out, build+"Own)")
	require.NoError(t, run([]string{dir}, io.Discard), "go generate mends it")
	out, err = goes(t, dir, "test", ".")
	require.NoError(t, err, out)
}
