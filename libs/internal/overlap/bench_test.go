package overlap

import (
	"testing"

	"github.com/purecuda/purecuda/driver"
)

// BenchmarkOf compares the memory of a product whose operands are columns of one matrix.
func BenchmarkOf(b *testing.B) {
	box := func(name string, column driver.DevicePtr) Box {
		return Box{Name: name, At: 1<<20 + 4096*column, Bytes: 4096, Levels: [2]Level{{N: 4096, Step: 3 * 4096}}}
	}
	out, x, y := box("c", 0), box("a", 1), box("b", 2)
	b.ReportAllocs()
	for b.Loop() {
		if err := Of(out, x, y); err != nil {
			b.Fatal(err)
		}
	}
}
