package kernels

import "github.com/purecuda/purecuda/driver/drivertest"

// simulated is the machine of the tests: its kernels are the references.
var simulated = drivertest.Config{Kernels: map[string]drivertest.KernelFunc{
	"vector_add": func(k *drivertest.Launch) error {
		n := k.Uint64(3)
		a, errA := drivertest.Slice[float32](k, k.Ptr(0), n)
		b, errB := drivertest.Slice[float32](k, k.Ptr(1), n)
		c, errC := drivertest.Slice[float32](k, k.Ptr(2), n)
		return first(errA, errB, errC, func() error { return VectorAddCPU(a, b, c) })
	},
	"saxpy": func(k *drivertest.Launch) error {
		n := k.Uint64(3)
		x, errX := drivertest.Slice[float32](k, k.Ptr(1), n)
		y, errY := drivertest.Slice[float32](k, k.Ptr(2), n)
		return first(errX, errY, nil, func() error { return SaxpyCPU(k.Float32(0), x, y) })
	},
	"sum": func(k *drivertest.Launch) error {
		x, errX := drivertest.Slice[float32](k, k.Ptr(0), k.Uint64(1))
		partials, errP := drivertest.Slice[float64](k, k.Ptr(2), uint64(k.Grid.X))
		return first(errX, errP, nil, func() error { SumPartialsCPU(x, partials); return nil })
	},
	"histogram256": func(k *drivertest.Launch) error {
		data, errD := k.Memory(k.Ptr(0), k.Uint64(1))
		counts, errC := drivertest.Slice[uint64](k, k.Ptr(2), 256)
		return first(errD, errC, nil, func() error { Histogram256CPU(data, (*[256]uint64)(counts)); return nil })
	},
	"sha256_chunks": func(k *drivertest.Launch) error {
		n := uint64(k.Uint32(2))
		chunks, errC := drivertest.Slice[Chunk](k, k.Ptr(1), n)
		digests, errD := drivertest.Slice[Digest](k, k.Ptr(4), n)
		return first(errC, errD, nil, func() error {
			size := uint64(0)
			for _, c := range chunks {
				size = max(size, c.Offset+uint64(c.Length))
			}
			data, err := k.Memory(k.Ptr(0), size)
			if err != nil {
				return err
			}
			return SHA256ChunksCPU(data, chunks, k.Uint32(3), digests)
		})
	},
}}

// first returns the first error, or what f does.
func first(a, b, c error, f func() error) error {
	for _, err := range []error{a, b, c} {
		if err != nil {
			return err
		}
	}
	return f()
}
