package kernels

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/runtime"
)

// BenchmarkHardwareRounds hashes digests 128 times, by sha256_rounds and by sha256_chunks, as many at once as a batch of
// the job has, as 16 batches have, and as keep the device busy.
func BenchmarkHardwareRounds(b *testing.B) {
	rt, err := runtime.Open(runtime.WithDriver(hardware.Open(b)))
	require.NoError(b, err)
	defer rt.Close()
	on, err := rt.Probe("bench")
	require.NoError(b, err)
	rounds, err := Load[SHA256Rounds](on.Context)
	require.NoError(b, err)
	chunks, err := Load[SHA256Chunks](on.Context)
	require.NoError(b, err)
	const again = 128
	s, enough := on.Stream, SHA256RoundsEnough(on.Device().Multiprocessors)
	for _, n := range []int{1 << 10, 1 << 14, enough / 4, enough / 2, enough, 4 * enough} {
		places := make([]Chunk, n)
		for i := range places {
			places[i] = Chunk{Offset: uint64(32 * i), Length: 32}
		}
		digests, err := runtime.UploadNew(context.Background(), s, make([]Digest, n))
		require.NoError(b, err)
		where, err := runtime.UploadNew(context.Background(), s, places)
		require.NoError(b, err)
		data, err := runtime.Alloc[byte](s, 32*n)
		require.NoError(b, err)
		require.NoError(b, runtime.Zero(s, data))
		for _, bench := range []struct {
			kernel string
			launch func() error
		}{
			{"sha256_rounds", func() error { return rounds.Launch(s, digests, again) }},
			{"sha256_chunks", func() error { return chunks.Launch(s, data, where, again-1, digests) }},
		} {
			b.Run(fmt.Sprintf("kernel=%s/digests=%d", bench.kernel, n), func(b *testing.B) {
				for b.Loop() {
					require.NoError(b, bench.launch())
					require.NoError(b, s.Synchronize(context.Background()))
				}
				b.ReportMetric(float64(n)*again*float64(b.N)/b.Elapsed().Seconds()/1e9, "Ghashes/s")
			})
		}
		require.NoError(b, digests.Close())
		require.NoError(b, where.Close())
		require.NoError(b, data.Close())
	}
}
