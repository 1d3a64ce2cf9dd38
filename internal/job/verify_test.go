package job

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseVerify(t *testing.T) {
	good := map[string]Verify{
		"auto": {}, " ALL ": {mode: verifyAll}, "none": {mode: verifyNone},
		"5%": {mode: verifySample, fraction: 0.05}, "0.25": {mode: verifySample, fraction: 0.25},
		"100%": {mode: verifySample, fraction: 1}, "1": {mode: verifySample, fraction: 1}, "0.5 %": {mode: verifySample, fraction: 0.005},
	}
	for text, want := range good {
		got, err := ParseVerify(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "some", "0", "0%", "-1", "2", "101%", "NaN", "Inf", "%", "1/2"} {
		_, err := ParseVerify(text)
		require.ErrorIs(t, err, InvalidArgument, text)
	}
}

func TestVerifyResolve(t *testing.T) {
	tests := []struct {
		name          string
		v             Verify
		bytes, chunks int64
		mode          string
		fraction      float64
	}{
		{"auto, small", Verify{}, 64 << 20, 16384, "all", 1},
		{"auto, above the limit", Verify{}, 64<<20 + 1, 16385, "sample", 4096.0 / 16385},
		{"auto, large", Verify{}, 100 << 30, 26214400, "sample", 1.0 / 64},
		{"auto, few chunks", Verify{}, 100 << 30, 100, "all", 1},
		{"all of it as a share", Verify{mode: verifySample, fraction: 1}, 1, 1, "all", 1},
		{"none", Verify{mode: verifyNone}, 1, 1, "none", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := tt.v.resolve(tt.bytes, tt.chunks)
			assert.Equal(t, tt.mode, v.modeName())
			assert.InDelta(t, tt.fraction, v.fraction, 1e-12)
		})
	}
}

func TestVerifySample(t *testing.T) {
	in := mustList(t, writeTree(t, map[string]string{"a": strings.Repeat("a", 1<<20)}))
	verified := func(fraction float64, seed uint64, workers int) int64 {
		result, err := Run(context.Background(), in, NewCPU(1), Options{
			ChunkBytes: 64, Workers: workers, BatchBytes: 64 << 10, Verify: Verify{mode: verifySample, fraction: fraction, Seed: seed},
		})
		require.NoError(t, err)
		return result.Verified
	}
	const chunks = 1 << 14
	quarter := verified(0.25, 7, 1)
	assert.InDelta(t, chunks/4, quarter, chunks/40)
	assert.Equal(t, quarter, verified(0.25, 7, 1), "the same seed, the same sample")
	assert.NotEqual(t, quarter, verified(0.25, 8, 1))
	assert.GreaterOrEqual(t, verified(1e-12, 1, 1), int64(1), "never nothing")
}

func TestVerifyNoneLetsAWrongDigestPass(t *testing.T) {
	in := mustList(t, writeTree(t, map[string]string{"a": "x"}))
	engine := &fakeEngine{hash: func(_ context.Context, _ int, digests []Digest) error {
		digests[0][0] ^= 1
		return nil
	}}
	result, err := Run(context.Background(), in, engine, Options{ChunkBytes: 64, Verify: Verify{mode: verifyNone}})
	require.NoError(t, err)
	assert.Zero(t, result.Verified)
}
