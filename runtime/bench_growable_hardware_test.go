package runtime_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/runtime"
)

// BenchmarkHardwareGrow gives 1 GiB of data so many MiB more: by Growable.Grow, and by an allocation and a copy, from the
// cache and without one. The time ends when work can use the new memory.
func BenchmarkHardwareGrow(b *testing.B) {
	const base, most = 1 << 30, 4 << 30
	for _, step := range []int{2 << 20, 256 << 20} {
		open := func(b *testing.B) (*runtime.Context, *runtime.Stream) {
			c := contextOf(b, openOn(b, hardware.Open(b)))
			return c, newStream(b, c)
		}
		b.Run(fmt.Sprintf("%dMiB/grow", step>>20), func(b *testing.B) {
			c, s := open(b)
			b.ResetTimer() // of what opening took
			b.StopTimer()
			var g *runtime.Growable[byte]
			for range b.N {
				if g == nil || g.Len()+step > most {
					require.NoError(b, g.Close()) // of nil it does nothing
					g = growable[byte](b, c, most)
					require.NoError(b, g.Grow(base))
				}
				n := g.Len()
				b.StartTimer()
				err := g.Grow(n + step)
				b.StopTimer()
				require.NoError(b, err)
				require.NoError(b, runtime.Fill(s, g.Ref().Slice(n, n+step), 1))
				synchronize(b, s)
			}
			require.NoError(b, g.Close())
		})
		for _, cached := range []bool{true, false} {
			b.Run(fmt.Sprintf("%dMiB/copy/cached=%v", step>>20, cached), func(b *testing.B) {
				c, s := open(b)
				b.ResetTimer()
				b.StopTimer()
				x := alloc[byte](b, s, base)
				require.NoError(b, runtime.Zero(s, x))
				require.NoError(b, alloc[byte](b, s, base+step).Close())
				for range b.N {
					if !cached {
						require.NoError(b, c.TrimMemory(0))
					}
					synchronize(b, s)
					b.StartTimer()
					y, err := runtime.Alloc[byte](s, base+step)
					if err == nil {
						err = runtime.Copy(s, y.Slice(0, base), x)
					}
					if err == nil {
						err = s.Synchronize(bg)
					}
					b.StopTimer()
					require.NoError(b, err)
					require.NoError(b, y.Close())
				}
				require.NoError(b, x.Close())
			})
		}
	}
}
