package cufft_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/libs/cufft"
	"github.com/purecuda/purecuda/libs/internal/beside"
)

// BenchmarkHardwareTurns is a small transform in C, by the library, and by a handle.
func BenchmarkHardwareTurns(b *testing.B) {
	bench, lib := onHardware(b)
	in, out := zeros(bench, 64), zeros(bench, 64)
	shape := cufft.Shape{N: []int{64}}
	var raw cufft.RawPlan
	h, err := bench.s.Context().NewLibraryHandle("cufftMakePlanMany64", func() (func() error, error) {
		d := cufft.Description{Type: cufft.TypeC2C, Rank: 1, Batch: 1, InStride: 1, InDistance: 64, OutStride: 1, OutDistance: 64}
		d.N[0], d.InEmbed[0], d.OutEmbed[0] = 64, 64, 64
		var status cufft.Status
		raw, _, status = lib.Plan(&d)
		require.Equal(b, cufft.StatusSuccess, status)
		require.Equal(b, cufft.StatusSuccess, lib.SetStream(raw, bench.s.Handle(), 0))
		return func() error { lib.Destroy(raw); return nil }, nil
	})
	require.NoError(b, err)
	defer h.Close()
	function, words := "cufftExecC2C", []uint64{uint64(raw), uint64(in.Core().Ptr()), uint64(out.Core().Ptr()), 1<<32 - 1}
	library := func() error {
		if status := lib.Exec(raw, cufft.TypeC2C, cufft.Forward, in.Core().Ptr(), out.Core().Ptr()); status != cufft.StatusSuccess {
			return status
		}
		return nil
	}
	sides := []beside.Side{beside.Repeat("library", library), beside.Repeat("handle", func() error { return cufft.C2C(bench.h, cufft.Forward, shape, in, out) })}
	beside.Turns(b, bench.s, lib.Path(), function, words, sides...)
}
