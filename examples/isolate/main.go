// Isolate serves requests in child processes, one for each GPU. One request faults and one never
// ends: they get an error, and all others their result.
package main

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

//go:embed kernels.ptx
var ptx []byte

// simulated tells a child to simulate its devices.
const simulated = "EXAMPLE_SIMULATED"

func init() {
	for _, name := range []string{"scale", "fault", "spin"} {
		isolate.Register(name+"/v1", func(w *pool.Worker, r *isolate.Request) ([]byte, error) { return nil, onGPU(w, name, r) })
	}
}

func main() {
	isolate.Main(open, module) // in a child this does not return
	simulate := flag.Bool("simulate", false, "simulate two devices")
	flag.Parse()
	if *simulate {
		os.Setenv(simulated, "1")
	}
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// open opens the runtime, in the program and in each child.
func open() (*runtime.Runtime, error) {
	if os.Getenv(simulated) == "" {
		return runtime.Open()
	}
	return runtime.Open(runtime.WithDriver(drivertest.New(drivertest.Config{Devices: drivertest.Devices(2, drivertest.T4()), MaxSteps: 1 << 50})))
}

// load loads the kernels once for each device.
var module = pool.PerDevice(func(c *runtime.Context) (*runtime.Module, error) { return c.LoadModule(runtime.Image{Code: ptx}) })

func run(out io.Writer) error {
	rt, err := open()
	if err != nil {
		return err
	}
	defer rt.Close()
	group, err := isolate.Open(rt, isolate.WithEnvironment(simulated+"="+os.Getenv(simulated)))
	if errors.Is(err, driver.ErrDriverLibraryUnavailable) {
		fmt.Fprintf(out, "not on a GPU: %v\na program does the work on its cores here (-simulate shows the rest)\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer group.Close()
	var requests sync.WaitGroup
	results := make([]string, 8)
	for i := range results {
		requests.Go(func() { results[i] = request(group, i) })
	}
	requests.Wait()
	for i, result := range results {
		fmt.Fprintf(out, "request %d: %s\n", i, result)
	}
	return nil
}

// request is one of a service. The third faults, and the sixth never ends.
func request(group *isolate.Group, i int) string {
	name, limit := "scale/v1", time.Minute
	switch i {
	case 2:
		name = "fault/v1"
	case 5:
		name, limit = "spin/v1", 3*time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	x, err := group.NewBuffer(4 << 10)
	if err != nil {
		return err.Error()
	}
	defer x.Close()
	numbers := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x.Bytes()))), 1<<10)
	for repeat := 0; ; repeat++ {
		for k := range numbers { // again after a failure: the function works in place
			numbers[k] = float32(k)
		}
		data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(i)))
		_, _, err = group.Do(ctx, name, data, isolate.WithBuffers(x))
		if !errors.Is(err, isolate.ErrChildDied) || name == "fault/v1" || repeat == 3 {
			break // its child died beside it: try again
		}
	}
	switch {
	case errors.Is(err, driver.ErrTimeout):
		return "its kernel did not end, and was killed"
	case errors.Is(err, isolate.ErrChildDied):
		return "its kernel faulted, and its child ended"
	case err != nil:
		return err.Error()
	}
	return fmt.Sprintf("1000 times %d is %v", i, numbers[1000])
}

// onGPU runs a kernel on the buffer of a request, in a child.
func onGPU(w *pool.Worker, name string, r *isolate.Request) error {
	kernel, err := module.Of(w).Kernel(name)
	if err != nil {
		return err
	}
	host, err := isolate.HostBuffer[float32](w, r.Buffers[0])
	if err != nil {
		return err
	}
	s := w.Stream()
	x, err := runtime.Alloc[float32](s, host.Len())
	if err != nil {
		return err
	}
	defer x.Close()
	if err := runtime.UploadHost(s, x, host); err != nil {
		return err
	}
	by := math.Float32frombits(binary.LittleEndian.Uint32(r.Data))
	if err := kernel.Launch(s, runtime.Shape1D(x.Len(), 256), runtime.InOut(x), runtime.Value(uint32(x.Len())), runtime.Value(by)); err != nil {
		return err
	}
	if err := runtime.DownloadHost(s, host, x); err != nil {
		return err
	}
	return s.Synchronize(w.CallContext())
}
