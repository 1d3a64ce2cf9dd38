package runtime_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// BenchmarkOverhead is what the runtime adds to the calls of the hot path: the driver
// under it does nothing.
func BenchmarkOverhead(b *testing.B) {
	c := contextOf(b, openOn(b, nothing{drivertest.ForTest(b, drivertest.Config{})}))
	for _, call := range append(hotCalls(b, c), refCalls(b, c)...) {
		b.Run(call.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := call.call(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOverheadBeside is a launch of goroutines that have a stream and a kernel each.
func BenchmarkOverheadBeside(b *testing.B) {
	c := contextOf(b, openOn(b, nothing{drivertest.ForTest(b, drivertest.Config{})}))
	b.RunParallel(func(pb *testing.PB) {
		m, err := c.LoadModule(runtime.Image{Code: []byte(threePTX)})
		require.NoError(b, err)
		k, err := m.Kernel("three")
		require.NoError(b, err)
		s, n := newStream(b, c), runtime.Value(uint64(0))
		for pb.Next() {
			if err := k.Launch(s, one, n, n, n, n); err != nil {
				b.Error(err)
			}
		}
	})
}

// threePTX is a kernel with three arrays and their length.
const threePTX = `
.version 6.4
.target sm_75
.address_size 64
.visible .entry three(
	.param .u64 three_x,
	.param .u64 three_y,
	.param .u64 three_z,
	.param .u64 three_n
)
{
	ret;
}
`

// refCalls are calls whose cost is that of memory: its check, its lease and its order.
func refCalls(t testing.TB, c *runtime.Context) []namedCall {
	t.Helper()
	m, err := c.LoadModule(runtime.Image{Code: []byte(threePTX)})
	require.NoError(t, err)
	k, err := m.Kernel("three")
	require.NoError(t, err)
	s, other := newStream(t, c), newStream(t, c)
	ref := func() *runtime.Ref[float32] { return alloc[float32](t, s, 100) }
	x, y, z, shared, reused := ref(), ref(), ref(), ref(), ref()
	n := runtime.Value(uint64(100))
	require.NoError(t, k.Launch(other, one, runtime.In(shared), runtime.In(shared), runtime.In(shared), n))
	require.NoError(t, reused.Close())
	return []namedCall{
		{"Launch with three Refs", func() error {
			return k.Launch(s, one, runtime.In(x), runtime.In(y), runtime.InOut(z), n)
		}},
		{"Launch with the same Ref", func() error {
			return k.Launch(s, one, runtime.In(z), runtime.In(z), runtime.InOut(z), n)
		}},
		{"Launch with a Ref that two streams read", func() error {
			return k.Launch(s, one, runtime.In(shared), runtime.In(y), runtime.InOut(z), n)
		}},
	}
}
