package compile_test

import (
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
)

// TestSameBytes compiles kernels on one core and on several, and one after the other: the text is the same each time.
func TestSameBytes(t *testing.T) {
	for _, folder := range []string{"kernels", "language", "suites"} {
		o := compile.Options{Arch: 90, Checks: compile.ChecksReport}
		var first *compile.Module
		for _, procs := range []int{1, 2, 7} {
			func() {
				defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(procs))
				p, err := compile.Load(compile.Config{Dir: "../testdata/" + folder, Pattern: "."})
				require.NoError(t, err)
				m, err := p.Compile(o)
				require.NoError(t, err)
				if first == nil {
					first = m
				}
				assert.True(t, first.PTX == m.PTX, "%s on %d cores", folder, procs)
				assert.Equal(t, first.Sites, m.Sites)
				if procs != 7 || folder != "kernels" {
					return
				}
				// A kernel alone has the text that it has among others, but for the numbers that count all of them.
				for _, k := range m.Kernels {
					one, err := p.Compile(o, k.Name)
					require.NoError(t, err)
					assert.Equal(t, k.Instrs, one.Kernels[0].Instrs, k.Name)
				}
			}()
		}
	}
}

// TestFirstError compiles several kernels of which some are refused: the error is that of the first.
func TestFirstError(t *testing.T) {
	var source strings.Builder
	for i := range 40 {
		body := "x[0] = i"
		if i > 20 {
			body = "x = append(x, i); x[0] = 1"
		}
		fmt.Fprintf(&source, "//purecuda:kernel\nfunc K%d(t *gpu.Thread, x []int, i int) { %s }\n", i, body)
	}
	p, err := load(t, source.String())
	require.NoError(t, err)
	for range 20 {
		_, err = p.Compile(compile.Options{Arch: 75, Checks: compile.ChecksOff})
		assert.ErrorContains(t, err, "k.go:48:")
	}
}

// TestTablesOfAll adds up the tables of all kernels.
func TestTablesOfAll(t *testing.T) {
	var source strings.Builder
	for i := range 5 {
		fmt.Fprintf(&source, "var table%d = [2000]uint64{%d, 2}\n//purecuda:kernel\nfunc K%d(t *gpu.Thread, x []uint64) { x[0] = table%d[x[1]%%2000] }\n", i, i, i, i)
	}
	p, err := load(t, source.String())
	require.NoError(t, err)
	_, err = p.Compile(compile.Options{Arch: 75, Checks: compile.ChecksOff})
	assert.ErrorContains(t, err, "k.go:19:51: with the table k.table4, those of all kernels of the package have 80000 bytes; constant memory has 65536: give it as a parameter")
	_, err = p.Compile(compile.Options{Arch: 75, Checks: compile.ChecksOff}, "K4", "K0", "K1", "K2")
	assert.NoError(t, err)
}

// TestNamesLikeLabels has names that begin like the compiler's own labels.
func TestNamesLikeLabels(t *testing.T) {
	p, err := loadFiles(t, map[string]string{"k.go": `package main

import "github.com/purecuda/purecuda/gpu"

var Lookup = [4]float32{1, 2, 3, 4}
//go:noinline
func Lerp(a, b float32) float32 {
	if a > b {
		return a
	}
	return a + (b-a)*0.5
}
//purecuda:kernel
func Load(t *gpu.Thread, x []float32) {
	if x[0] > 1 {
		x[1] = Lerp(x[0], x[2])
	}
	x[2] = Lookup[int(x[3])&3]
}

func main() {}
`})
	require.NoError(t, err)
	m, err := p.Compile(compile.Options{Arch: 75, Checks: compile.ChecksReport})
	require.NoError(t, err)
	d, err := device.Backend(t).Load(device.Of(m))
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	x := []float32{3, 0, 7, 2}
	_, err = d.Run("Load", gpu.Shape1D(1, 1), x)
	require.NoError(t, err)
	assert.Equal(t, []float32{3, 5, 3, 2}, x)
}

// TestOwnNames has kernels with the names of what gpuc declares.
func TestOwnNames(t *testing.T) {
	for source, name := range map[string]string{
		"//purecuda:kernel\nfunc text0(t *gpu.Thread, x []int) { t.Printf(\"%d\", x[0]) }\n":                               "text0",
		"//purecuda:kernel entry=vprintf\nfunc K(t *gpu.Thread, x []int) { t.Printf(\"%d\", x[0]) }\n":                     "vprintf",
		"//purecuda:kernel entry=dynamic_shared\nfunc K(t *gpu.Thread, x []int) { x[0] = gpu.DynamicShared[int](t)[0] }\n": "dynamic_shared",
		"//purecuda:kernel entry=text\nfunc K(t *gpu.Thread, x []int) { t.Printf(\"%d\", x[0]) }\n":                        "",
	} {
		p, err := load(t, source)
		require.NoError(t, err)
		_, err = p.Compile(compile.Options{Arch: 75, Checks: compile.ChecksOff})
		if name == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, "gpuc itself gives the name "+name+" in PTX: say entry=name")
		}
	}
}
