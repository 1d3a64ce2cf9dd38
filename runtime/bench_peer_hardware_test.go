package runtime_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/runtime"
)

// BenchmarkHardwarePeerCopy copies between the devices of each pair, in both directions, over the link that there is: 256 MiB, and
// 4 KiB for what a copy costs by itself.
// scripts/baseline/baseline.c does the same with memory of cuMemAlloc.
func BenchmarkHardwarePeerCopy(b *testing.B) {
	rt := openOn(b, hardware.Open(b))
	devices := rt.Devices()
	if len(devices) < 2 {
		b.Skipf("needs 2 devices, and there is %d", len(devices))
	}
	for one := range devices {
		for other := range devices {
			if one == other {
				continue
			}
			from, to := contextAt(b, rt, one), contextAt(b, rt, other)
			onFrom, onTo := newStream(b, from), newStream(b, to)
			for _, size := range copySizes {
				src, dst := alloc[byte](b, onFrom, size.bytes), alloc[byte](b, onTo, size.bytes)
				require.NoError(b, runtime.Zero(onFrom, src))
				name := fmt.Sprintf("from=%d/to=%d/size=%s/impl=runtime", from.Device().Ordinal, to.Device().Ordinal, size.name)
				b.Run(name, func(b *testing.B) {
					b.SetBytes(int64(size.bytes))
					benchLoop(b, func() error {
						if err := runtime.Copy(onTo, dst, src); err != nil {
							return err
						}
						return onTo.Synchronize(context.Background())
					})
				})
				require.NoError(b, src.Close())
				require.NoError(b, dst.Close())
			}
		}
	}
}
