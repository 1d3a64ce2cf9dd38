package runtime_test

import (
	"testing"

	"github.com/purecuda/purecuda/driver/drivertest"
)

// BenchmarkOverhead is what the runtime adds to the calls of the hot path: the driver
// under it does nothing.
func BenchmarkOverhead(b *testing.B) {
	rt := openOn(b, nothing{drivertest.ForTest(b, drivertest.Config{})})
	for _, call := range hotCalls(b, contextOf(b, rt)) {
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
