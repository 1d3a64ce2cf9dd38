package runtime_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/runtime"
)

// Pages move by faults and by prefetches, under each advice, and no element is lost on the way.
func TestHardwareManaged(t *testing.T) {
	t.Run("simulated", func(t *testing.T) {
		rt, _ := open(t, drivertest.Config{})
		moveManaged(t, rt, 1<<14)
	})
	t.Run("hardware", func(t *testing.T) { moveManaged(t, openOn(t, hardware.Open(t)), 1<<25) })
}

func moveManaged(t *testing.T, rt *runtime.Runtime, n int) {
	c := contextOf(t, rt)
	s, add := newStream(t, c), kernel(t, c, "add")
	m := allocManaged[uint32](t, s, n)
	nothing := func() error { return nil }
	advise := func(advice driver.MemAdvice) func() error { return func() error { return m.Advise(c, advice) } }
	for _, test := range []struct {
		name          string
		before, after func() error
	}{
		{"nothing", nothing, nothing},
		{"preferred on the device", advise(driver.MemAdviseSetPreferredLocation), nothing},
		{"preferred on the host", func() error { return m.AdviseHost(driver.MemAdviseSetPreferredLocation) }, advise(driver.MemAdviseUnsetPreferredLocation)},
		{"accessed by the device", advise(driver.MemAdviseSetAccessedBy), advise(driver.MemAdviseUnsetAccessedBy)},
		{"read mostly", advise(driver.MemAdviseSetReadMostly), advise(driver.MemAdviseUnsetReadMostly)},
	} {
		for _, prefetched := range []bool{false, true} {
			move := func(to func(*runtime.Stream) error) error {
				if prefetched {
					return to(s)
				}
				return nil
			}
			data := m.Data()
			for i := range data {
				data[i] = uint32(i)
			}
			require.NoError(t, errors.Join(test.before(), move(m.Prefetch), addTo(add, s, m.Ref(), 5), move(m.PrefetchHost)), test.name)
			synchronize(t, s)
			for i, v := range data {
				if v != uint32(i)+5 {
					require.FailNow(t, "wrong element", "%s: element %d is %d", test.name, i, v)
				}
			}
			require.NoError(t, test.after(), test.name)
		}
	}
	require.NoError(t, m.Close())
}

// BenchmarkHardwareManaged measures a kernel over 256 MiB that the host has written: in managed memory as
// it is, and prefetched; beside it an upload to memory of the device. resident is the kernel alone, over
// memory that is on the device.
func BenchmarkHardwareManaged(b *testing.B) {
	const n = 64 << 20
	h := newHardwareBench(b)
	s, add := h.stream, kernel(b, h.Context, "add")
	m, x, pinned, data := allocManaged[uint32](b, s, n), alloc[uint32](b, s, n), allocHost[uint32](b, h.Context, n), make([]uint32, n)
	nothing := func() error { return nil }
	for _, bench := range []struct {
		name    string
		memory  *runtime.Ref[uint32]
		host    []uint32     // that is written before
		prepare func() error // which is not timed
		move    func() error
	}{
		{"memory=managed/pages=cold", m.Ref(), m.Data(), func() error { return m.PrefetchHost(s) }, nothing},
		{"memory=managed/pages=prefetched", m.Ref(), m.Data(), func() error { return m.PrefetchHost(s) }, func() error { return m.Prefetch(s) }},
		{"memory=managed/pages=resident", m.Ref(), nil, func() error { return m.Prefetch(s) }, nothing},
		{"memory=device/from=pageable", x, data, nothing, func() error { return runtime.Upload(bg, s, x, data) }},
		{"memory=device/from=pinned", x, pinned.Data(), nothing, func() error { return runtime.UploadHost(s, x, pinned) }},
		{"memory=device/pages=resident", x, nil, nothing, nothing},
	} {
		b.Run(bench.name+"/impl=runtime", func(b *testing.B) {
			b.SetBytes(4 * n)
			for range b.N {
				b.StopTimer()
				require.NoError(b, bench.prepare())
				require.NoError(b, s.Synchronize(context.Background()))
				for i := range bench.host {
					bench.host[i] = uint32(i)
				}
				b.StartTimer()
				if err := errors.Join(bench.move(), addTo(add, s, bench.memory, 1), s.Synchronize(context.Background())); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
