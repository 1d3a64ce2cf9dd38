package compile_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/failing"
	"github.com/purecuda/purecuda/kernels"
)

// TestFailedChecksEndPrimitives lets an operation fail for one element of many: in its tile, and where tiles wait for each other. All
// launches end, the wait tells the check, no memory outside of the slices changes, and the next call is right.
func TestFailedChecksEndPrimitives(t *testing.T) {
	p := openLibrary(t, "failing")
	const n, guard = 40_000, 64
	r := rand.New(rand.NewPCG(7, 8))
	picks := failing.Picks{Kept: [4]uint32{0, 1, 0, 2}}
	all := kernelsOf(p)
	for round := range 6 {
		bad := r.IntN(n)
		small, one := make([]uint32, n), make([]uint32, n)
		for i := range small {
			small[i], one[i] = r.Uint32N(4), 1
		}
		wrong := append([]uint32(nil), small...)
		wrong[bad] = 4 + r.Uint32N(100)
		// The scan fails at an element, whose tile depends on the bound.
		most := failing.AddSmall{Most: uint32(bad)}
		enough := failing.AddSmall{Most: n}
		memory := onDevice(p, make([]uint32, 2*n+3*guard), 0)
		a, b := memory.Slice(guard, guard+n), memory.Slice(2*guard+n, 2*guard+2*n)
		offsets := onDevice(p, []uint64{0, uint64(bad / 2), uint64(bad), n}, 0)
		count := onDevice(p, []uint64{0}, 0)
		ok, ones, fails := onDevice(p, small, 0), onDevice(p, one, 0), onDevice(p, wrong, 0)
		for _, c := range []struct {
			name  string
			fails func() error
			works func() error
		}{
			{"scan", func() error { return all.scan.Inclusive(p.s, most, a, ones, nil) }, func() error { return all.scan.Inclusive(p.s, enough, a, ones, nil) }},
			{"reduce", func() error { return all.reduce.Launch(p.s, most, a.Slice(0, 1), ones, nil) }, func() error { return all.reduce.Launch(p.s, enough, a.Slice(0, 1), ones, nil) }},
			{"by key", func() error { return all.byKey.Launch(p.s, most, a, b, ones, ones, count, nil) }, func() error { return all.byKey.Launch(p.s, enough, a, b, ok, ones, count, nil) }},
			{"segments", func() error {
				return all.segments.Launch(p.s, failing.AddSmall{Most: uint32(max(bad/2, n-bad) - 1)}, a.Slice(0, 3), ones, offsets, nil)
			}, func() error { return all.segments.Launch(p.s, enough, a.Slice(0, 3), ones, offsets, nil) }},
			{"select", func() error { return all.sel.Launch(p.s, picks, a, fails, count, nil) }, func() error { return all.sel.Launch(p.s, picks, a, ok, count, nil) }},
			{"partition", func() error { return all.part.Launch(p.s, picks, a, b, fails, count, nil) }, func() error { return all.part.Launch(p.s, picks, a, b, ok, count, nil) }},
			{"sort", func() error { return all.sort.Launch(p.s, picks, a, fails, nil) }, func() error { return all.sort.Launch(p.s, picks, a, ok, nil) }},
			{"segmented sort", func() error { return all.segSort.Launch(p.s, picks, a, fails, offsets, n, nil) }, func() error { return all.segSort.Launch(p.s, picks, a, ok, offsets, n, nil) }},
		} {
			require.NoError(t, c.fails(), c.name)
			var check *launch.CheckError
			require.ErrorAs(t, p.s.Synchronize(t.Context()), &check, "%s, round %d, element %d", c.name, round, bad)
			assert.Contains(t, check.Text, "failing.go:", c.name)
			require.NoError(t, c.works(), c.name)
			require.NoError(t, p.s.Synchronize(t.Context()), "%s after a failure", c.name)
		}
		for i, v := range onHost(p, memory) {
			if i < guard || i >= guard+n && i < 2*guard+n || i >= 2*guard+2*n {
				require.Zero(t, v, "element %d outside of what the kernels write", i)
			}
		}
	}
}

type failingKernels struct {
	scan     kernels.Scan[uint32, failing.AddSmall]
	reduce   kernels.Reduce[uint32, failing.AddSmall]
	byKey    kernels.ReduceByKey[uint32, uint32, failing.AddSmall]
	segments kernels.SegmentedReduce[uint32, failing.AddSmall]
	sel      kernels.Select[uint32, failing.Picks]
	part     kernels.Partition[uint32, failing.Picks]
	sort     kernels.StableSort[uint32, failing.Picks]
	segSort  kernels.SegmentedSort[uint32, failing.Picks]
}

func kernelsOf(p *primitivesIn) (k failingKernels) {
	k.scan = k.scan.Of(p.of("ScanUint32AddSmall"))
	k.reduce = k.reduce.Of(p.of("ReduceUint32AddSmall"))
	k.byKey = k.byKey.Of(p.of("ReduceByKeyUint32Uint32AddSmall"))
	k.segments = k.segments.Of(p.of("SegmentedReduceUint32AddSmall"))
	k.sel = k.sel.Of(p.of("SelectUint32Picks"))
	k.part = k.part.Of(p.of("PartitionUint32Picks"))
	k.sort = k.sort.Of(p.of("StableSortUint32Picks"))
	k.segSort = k.segSort.Of(p.of("SegmentedSortUint32Picks"))
	return k
}

// TestOperationsThatCannotFailCostNothing compares the code of a library's kernels with checks and without.
func TestOperationsThatCannotFailCostNothing(t *testing.T) {
	l, err := libraries["primitives"]()
	require.NoError(t, err)
	checked, err := l.program.Compile(compile.Options{Arch: 75, Checks: compile.ChecksReport}, "ScanUint32AddUint32_Scan", "SelectUint32Below_Select", "SortInt32_Pass")
	require.NoError(t, err)
	require.Len(t, checked.Kernels, 3)
	for _, k := range checked.Kernels {
		assert.False(t, k.Report, k.Name)
		i := slices.IndexFunc(l.module.Kernels, func(o *compile.Kernel) bool { return o.Name == k.Name })
		assert.Equal(t, l.module.Kernels[i].Instrs, k.Instrs, k.Name)
	}
}
