package nccl_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/libs/nccl"
	"github.com/purecuda/purecuda/runtime"
)

// BenchmarkHardwareAllReduce adds on two devices, four and eight: 256 MiB, queued behind each other, and 4 KiB that somebody waits for each
// time. All lets NCCL block in its calls, Join does not.
func BenchmarkHardwareAllReduce(b *testing.B) {
	for _, n := range []int{2, 4, 8} {
		b.Run(fmt.Sprintf("devices=%d", n), func(b *testing.B) {
			on := onHardware(b, n)
			for _, blocking := range []bool{true, false} {
				allReduce(b, on, blocking)
			}
		})
	}
}

func allReduce(b *testing.B, on bench, blocking bool) {
	id, err := nccl.UniqueID(on.api)
	require.NoError(b, err)
	var ranks []int
	for i := range on.streams {
		ranks = append(ranks, i)
	}
	c, err := nccl.Join(bg, on.api, id, len(ranks), ranks, on.streams, nccl.Options{Blocking: blocking})
	require.NoError(b, err)
	for _, size := range []struct {
		bytes int
		waits bool
	}{{256 << 20, false}, {4 << 10, true}} {
		var x []*runtime.Ref[float32]
		for _, s := range on.streams {
			r, err := runtime.Alloc[float32](s, size.bytes/4)
			require.NoError(b, err)
			require.NoError(b, runtime.Zero(s, r))
			x = append(x, r)
		}
		b.Run(fmt.Sprintf("bytes=%d/blocking=%v", size.bytes, blocking), func(b *testing.B) {
			for range 5 { // the first one connects the devices
				require.NoError(b, c.Do(bg, nccl.AllReduce(nccl.Sum, x, x)))
			}
			require.NoError(b, c.Wait(bg))
			b.SetBytes(int64(size.bytes))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				require.NoError(b, c.Do(bg, nccl.AllReduce(nccl.Sum, x, x)))
				if size.waits {
					require.NoError(b, c.Wait(bg))
				}
			}
			require.NoError(b, c.Wait(bg))
		})
		for _, r := range x {
			assert.NoError(b, r.Close())
		}
	}
	assert.NoError(b, c.Close())
}

// BenchmarkOurShare is a small AllReduce on the simulated NCCL. Where calls do not block, that goes on for two looks.
func BenchmarkOurShare(b *testing.B) {
	for _, blocking := range []bool{true, false} {
		b.Run(fmt.Sprintf("blocking=%v", blocking), func(b *testing.B) {
			on, _, _ := simulated(b, 1)
			id, err := nccl.UniqueID(on.api)
			require.NoError(b, err)
			c, err := nccl.Join(bg, on.api, id, 1, []int{0}, on.streams, nccl.Options{Blocking: blocking})
			require.NoError(b, err)
			x := upload(on, [][]float32{{1}})
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, c.Do(bg, nccl.AllReduce(nccl.Sum, x, x)))
				require.NoError(b, c.Wait(bg))
			}
			assert.NoError(b, c.Close())
		})
	}
}
