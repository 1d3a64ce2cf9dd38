package curand_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/libs/curand"
	"github.com/purecuda/purecuda/libs/internal/beside"
	"github.com/purecuda/purecuda/runtime"
)

// BenchmarkHardwareTurns is a small call of cuRAND in C, by the library, and by a generator.
func BenchmarkHardwareTurns(b *testing.B) {
	bench := real(b)
	lib := bench.api.(*curand.Library)
	g := bench.generator(curand.Options{Seed: 1234})
	few, err := runtime.Alloc[float32](bench.s, 1024)
	require.NoError(b, err)
	defer few.Close()
	var raw curand.RawGenerator
	h, err := bench.s.Context().NewLibraryHandle("curandCreateGenerator", func() (func() error, error) {
		var status [4]curand.Status
		raw, status[0] = lib.Create(curand.Philox)
		status[1], status[2], status[3] = lib.SetStream(raw, bench.s.Handle()), lib.SetSeed(raw, 1234), lib.GenerateSeeds(raw)
		require.Equal(b, [4]curand.Status{}, status)
		return func() error { lib.Destroy(raw); return nil }, nil
	})
	require.NoError(b, err)
	defer h.Close()
	call := curand.Call{Distribution: curand.Uniform, To: few.Core().Ptr(), N: 1024}
	function, words := "curandGenerateUniform", []uint64{uint64(raw), uint64(few.Core().Ptr()), 1024}
	library := func() error {
		if status := lib.Generate(raw, &call); status != curand.StatusSuccess {
			return status
		}
		return nil
	}
	sides := []beside.Side{beside.Repeat("library", library), beside.Repeat("generator", func() error { return g.Uniform(few) })}
	beside.Turns(b, bench.s, lib.Path(), function, words, sides...)
}
