package runtime_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// BenchmarkLeaseHost is a lease and its return, and the same around a copy that is waited for.
func BenchmarkLeaseHost(b *testing.B) {
	rt, _ := open(b, drivertest.Config{})
	c := contextOf(b, rt)
	s := newStream(b, c)
	x, err := runtime.Alloc[byte](s, 4096)
	require.NoError(b, err)
	b.Run("unused", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h, err := runtime.LeaseHost[byte](c, 4096)
			if err != nil || h.Close() != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("uploaded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h, err := runtime.LeaseHost[byte](c, 4096)
			if err != nil || runtime.UploadHost(s, x, h) != nil || s.Synchronize(b.Context()) != nil || h.Close() != nil {
				b.Fatal(err)
			}
		}
	})
}
