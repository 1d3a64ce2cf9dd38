package kernels_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// A vector is added on a device, which is simulated here so that the example runs
// anywhere, and on the CPU. Both give the same bits.
func ExampleVectorAdd() {
	a, b := []float32{1, 2, 3}, []float32{10, 20, 30}
	onGPU, onCPU := make([]float32, len(a)), make([]float32, len(a))
	if err := add(a, b, onGPU); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(onGPU)
	fmt.Println(kernels.VectorAddCPU(a, b, onCPU), onCPU)
	// Output:
	// [11 22 33]
	// <nil> [11 22 33]
}

func add(a, b, c []float32) error {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(drivertest.New(drivertest.Config{})))
	if err != nil {
		return err
	}
	defer rt.Close()
	backend, err := rt.Probe("add")
	if err != nil {
		return err
	}
	ctx, s := context.Background(), backend.Stream
	vectorAdd, err := kernels.Load[kernels.VectorAdd](backend.Context)
	if err != nil {
		return err
	}
	defer vectorAdd.Close()
	da, errA := runtime.Alloc[float32](s, len(a))
	db, errB := runtime.Alloc[float32](s, len(b))
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	defer da.Close()
	defer db.Close()
	return errors.Join(runtime.Upload(ctx, s, da, a), runtime.Upload(ctx, s, db, b),
		vectorAdd.Launch(s, da, db, da), runtime.Download(ctx, s, c, da))
}

func ExampleSHA256ChunksCPU() {
	data := []byte("a chunk of text.another")
	chunks := []kernels.Chunk{{Offset: 0, Length: 16}, {Offset: 16, Length: 7}}
	digests := make([]kernels.Digest, len(chunks))
	if err := kernels.SHA256ChunksCPU(data, chunks, 0, digests); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%x\n%x\n", digests[0][:4], digests[1][:4])
	// Output:
	// f3498fc3
	// ae448ac8
}

// A sum takes two steps: the device adds blocks, whose sums are added on the host in a fixed order.
func ExampleSum() {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(drivertest.New(drivertest.Config{})))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	total, err := sum(rt, []float32{1, 2, 3, 4.5})
	fmt.Println(total, err)
	// Output: 10.5 <nil>
}

func sum(rt *runtime.Runtime, x []float32) (float64, error) {
	backend, err := rt.Probe("sum")
	if err != nil {
		return 0, err
	}
	ctx, s := context.Background(), backend.Stream
	k, err := kernels.Load[kernels.Sum](backend.Context)
	if err != nil {
		return 0, err
	}
	defer k.Close()
	data, err := runtime.UploadNew(ctx, s, x)
	if err != nil {
		return 0, err
	}
	defer data.Close()
	partials, err := runtime.Alloc[float64](s, k.Blocks(len(x)))
	if err != nil {
		return 0, err
	}
	defer partials.Close()
	if err := k.Launch(s, data, partials); err != nil {
		return 0, err
	}
	sums, err := runtime.DownloadNew(ctx, s, partials)
	return kernels.AddPartials(sums), err
}
