package compile_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpuc/internal/compile"
)

// TestRefusedInstances has types that a library has no kernel for: the error is one of the author's line.
func TestRefusedInstances(t *testing.T) {
	p, err := loadFiles(t, map[string]string{"k.go": `package k

import "github.com/purecuda/purecuda/kernels"

var _ kernels.Chunk

type last[T any] struct{}

func (last[T]) Zero() (z T)        { return }
func (last[T]) Combine(a, b T) T   { return b }

type table struct{ of []int32 }

func (table) Zero() int32                { return 0 }
func (t table) Combine(a, b int32) int32 { return t.of[a] + b }

type wrong struct{ last[int32] }

func (wrong) Combine(a, b int32) int32 { return append([]int32{a}, b)[0] }

//purecuda:instantiate kernels.Scan[complex64, last[complex64]]
//purecuda:instantiate kernels.Reduce[struct{}, last[struct{}]]
//purecuda:instantiate kernels.Unique[[0]int32]
//purecuda:instantiate kernels.Reduce[int32, table]
//purecuda:instantiate kernels.Reduce[int32, wrong]
`})
	require.NoError(t, err)
	for kernel, want := range map[string][]string{
		"ScanComplex64LastComplex64_Scan": {"k.go:21: gpuc cannot make kernels.Scan[complex64, last[complex64]]: ", "no slice of complex64: its elements are numbers, bools, or structs and arrays of them\n\tin the library at "},
		"ReduceStructLastStruct_Reduce":   {"k.go:22: ", "struct{} has no bytes: take a type with at least one"},
		"UniqueArray0Int32_Unique":        {"k.go:23: ", "[0]int32 has no bytes"},
		"ReduceInt32Table_Reduce":         {"k.go:24: ", "table holds a slice, and a launch of it takes numbers"},
		"ReduceInt32Wrong_Reduce":         {"k.go:19:", "a kernel cannot call append"},
	} {
		_, err := p.Compile(compile.Options{Arch: 75, Checks: compile.ChecksReport}, kernel)
		if assert.Error(t, err, kernel) {
			first, _, _ := strings.Cut(err.Error(), "\n")
			assert.Contains(t, first, want[0], kernel)
			assert.Contains(t, err.Error(), want[1], kernel)
		}
	}
}

// TestNamesOfInstances has lines whose types give one name, from which the later one gets a longer one.
func TestNamesOfInstances(t *testing.T) {
	files := map[string]string{"ta/ta.go": "package ta\n\ntype AB int32\n", "k.go": `package k

import (
	"k/ta"

	"github.com/purecuda/purecuda/kernels"
)

var _ kernels.Chunk

type A int32

type AB int32

type last[T any] struct{}

func (last[T]) Zero() (z T)      { return }
func (last[T]) Combine(a, b T) T { return b }

type BC struct{ last[A] }

type C struct{ last[AB] }

type D struct{ last[ta.AB] }

//purecuda:instantiate kernels.Scan[A, BC]
//purecuda:instantiate kernels.Scan[AB, C]
//purecuda:instantiate kernels.Unique[AB]
//purecuda:instantiate kernels.Unique[ta.AB]
//purecuda:instantiate kernels.Reduce[AB, last[AB]]
//purecuda:instantiate kernels.Reduce[ta.AB, last[ta.AB]]
`}
	p, err := loadFiles(t, files)
	require.NoError(t, err)
	var names []string
	for _, in := range p.Instances {
		names = append(names, in.Name)
	}
	assert.Equal(t, []string{"ScanABC", "Scan_AB_C", "UniqueAB", "Unique_TaAB", "ReduceABLastAB", "Reduce_TaAB_Last_TaAB"}, names)
	files["k.go"] += "//purecuda:instantiate kernels.Unique[AB]\n"
	_, err = loadFiles(t, files)
	assert.ErrorContains(t, err, "k.go:32: kernels.Unique[AB] is at k.go:28 already: delete one of the lines")
}

// TestLargestElements has types of the largest size that a library has room for, and larger ones. The documents of the types say the sizes.
func TestLargestElements(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	source := `package k

import "github.com/purecuda/purecuda/kernels"

var _ kernels.Chunk

type last[T any] struct{}

func (last[T]) Zero() (z T)      { return }
func (last[T]) Combine(a, b T) T { return b }
`
	limits := []struct {
		of, kernel string
		most       int
	}{
		{"Scan[T, last[T]]", "Scan", 1488}, {"ScanAcross[T, last[T]]", "Scan", 1488}, {"Reduce[T, last[T]]", "Reduce", 1536},
		{"SegmentedReduce[T, last[T]]", "Reduce", 768}, {"ReduceByKey[int32, T, last[T]]", "Reduce", 1480},
	}
	for _, l := range limits {
		for size := l.most; size <= l.most+520; size += 520 {
			of := fmt.Sprintf("T%d", size)
			if !strings.Contains(source, "type "+of+" ") {
				source += fmt.Sprintf("\ntype %s [%d]uint64\n\n", of, size/8)
			}
			source += "//purecuda:instantiate kernels." + regexp.MustCompile(`\bT\b`).ReplaceAllString(l.of, of) + "\n"
		}
	}
	p, err := loadFiles(t, map[string]string{"k.go": source})
	require.NoError(t, err)
	for i, l := range limits {
		for j, in := range p.Instances[2*i:][:2] {
			_, err := p.Compile(compile.Options{Arch: 75, Checks: compile.ChecksOff}, in.Name+"_"+l.kernel)
			if j == 0 {
				assert.NoError(t, err, in.Name)
				continue
			}
			assert.ErrorContains(t, err, fmt.Sprintf("T%d has %d bytes, and a block has room for at most %d each: take a smaller type, such as the index of one", l.most+520, l.most+520, l.most))
		}
	}
}
