package isolate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/stack"
	"github.com/purecuda/purecuda/internal/traceparent"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// childVariable is the environment variable that tells a process that it is a child. Its value is the version of
// what the two say to each other.
const (
	childVariable = "PURECUDA_ISOLATE_CHILD"
	childVersion  = "3"
)

// inChild says that this process is a child that has called [Main].
var inChild atomic.Bool

// notInChild is why a child opens no group: its children would open one each as well.
func notInChild() error {
	switch {
	case inChild.Load():
		return driver.Errorf(driver.ErrInvalidArgument, "a function that runs in a child of a group cannot open a group: open it in the program itself")
	case os.Getenv(childVariable) != "":
		return driver.Errorf(driver.ErrInvalidArgument, "this process is a child of a group and has not called isolate.Main: call that first in main, and first "+
			"in TestMain, before a group is opened, and open none in an init function")
	}
	return nil
}

// Main serves requests and ends the process if it is a child, and does nothing otherwise. Call it first in main, before
// flags are parsed and files are opened, and first in TestMain.
//
// open opens the runtime in the child; nil is runtime.Open without options. The setup is that of the pool that the
// functions get their workers from.
func Main(open func() (*runtime.Runtime, error), setup ...pool.Setup) {
	version := os.Getenv(childVariable)
	if version == "" {
		return
	}
	inChild.Store(true)
	_ = os.Unsetenv(childVariable) // for programs that a function starts
	if open == nil {
		open = func() (*runtime.Runtime, error) { return runtime.Open() }
	}
	err := fmt.Errorf("%s is %q, and this program has version %q", childVariable, version, childVersion)
	if version == childVersion {
		err = serve(open, setup)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "purecuda/isolate:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// hello is what a child is to be.
type hello struct {
	Device  driver.UUID
	Ordinal int // in the parent, for errors and for a device without a UUID
	Streams int
	// StateBytes limits what the states of keys take.
	StateBytes int64
}

// child is the process, in itself.
type child struct {
	link   *link
	pool   *pool.Pool
	closed func() bool // a function has closed the runtime
	states states

	mu      sync.Mutex
	buffers map[uint64]*Buffer
	cancels map[uint64]context.CancelFunc // of the calls that run
	running sync.WaitGroup
}

// serve is the life of a child. It returns when the parent says so; when the parent is gone the process ends.
func serve(open func() (*runtime.Runtime, error), setup []pool.Setup) error {
	l, err := parentLink()
	if err != nil {
		return fmt.Errorf("no socket to the parent: %w", err)
	}
	c := &child{link: l, buffers: map[uint64]*Buffer{}, cancels: map[uint64]context.CancelFunc{}}
	greeting, ready := make(chan hello, 1), make(chan error, 1)
	var rt *runtime.Runtime
	go func() { // the parent may go meanwhile
		var err error
		if rt, err = openIn(open); err == nil {
			err = c.prepare(rt, <-greeting, setup)
		}
		if err != nil {
			_ = l.send(failedFrame, 0, EncodeError(err))
		} else {
			err = l.send(readyFrame, 0)
		}
		ready <- err
		if err != nil {
			os.Exit(1)
		}
	}()
	kind, _, content, err := l.receive()
	var h hello
	if err == nil && kind == helloFrame {
		err = json.Unmarshal(content, &h)
	}
	if err != nil || kind != helloFrame {
		return fmt.Errorf("no greeting of the parent: %w", err)
	}
	c.states.limit = h.StateBytes
	greeting <- h
	for {
		kind, number, content, err := l.receive()
		if err != nil {
			os.Exit(1) // the parent is gone
		}
		switch kind {
		case callFrame:
			<-ready // the parent waits for it as well
			ready <- nil
			c.begin(number, content)
		case cancelFrame:
			c.cancel(number)
		case bufferFrame:
			c.addBuffer(number, content)
		case dropFrame:
			c.drop(number)
		case stopFrame:
			<-ready
			c.running.Wait()
			return errors.Join(c.states.close(), c.pool.Close(), rt.Close())
		case forgetFrame:
			key := string(content)
			state := c.states.take(key) // before the next request with the key
			c.running.Go(func() {       // closing it may wait for the device
				if err := closeState(state); err != nil {
					fmt.Fprintf(os.Stderr, "purecuda/isolate: closing the state of the key %.40q: %v\n", key, err)
				}
			})
		}
	}
}

// openIn opens the runtime of a child.
func openIn(open func() (*runtime.Runtime, error)) (*runtime.Runtime, error) {
	rt, err := open()
	if err == nil && rt == nil {
		err = driver.Errorf(driver.ErrInvalidArgument, "the function that isolate.Main was given returned no runtime")
	}
	if err == nil {
		err = rt.Err()
	}
	return rt, err
}

// prepare opens the device and a worker, so that the first request finds all ready.
func (c *child) prepare(rt *runtime.Runtime, h hello, setup []pool.Setup) error {
	device, err := find(rt.Devices(), h)
	if err != nil {
		return err
	}
	c.closed = func() bool {
		_, err := rt.Context(device.Ordinal)
		return errors.Is(err, driver.ErrClosed)
	}
	o := pool.Options{Setup: setup, Devices: []int{device.Ordinal}, Streams: h.Streams, Queue: math.MaxInt}
	if c.pool, err = pool.Open(rt, o); err != nil {
		return err
	}
	_, err = c.pool.Do(context.Background(), func(*pool.Worker) error { return nil })
	return err
}

// find finds the device that a child is for: by its UUID, since CUDA_VISIBLE_DEVICES changes ordinals.
func find(devices []runtime.Device, h hello) (runtime.Device, error) {
	for _, d := range devices {
		if d.UUID == h.Device && (h.Device != driver.UUID{} || d.Ordinal == h.Ordinal) {
			return d, nil
		}
	}
	return runtime.Device{}, driver.Errorf(driver.ErrDriverCallFailed, "device GPU-%v of the parent is not among the %d of the child", h.Device, len(devices))
}

// begin runs a function on a goroutine of its own.
func (c *child) begin(number uint64, content []byte) {
	name, key, trace, numbers, data, ok := parseCall(content)
	if !ok {
		return // the parent does not send that
	}
	r := &Request{Data: append([]byte(nil), data...)}
	ctx, cancel := context.WithCancel(traceparent.With(c.states.with(context.Background(), key), trace))
	c.mu.Lock()
	c.cancels[number] = cancel
	for _, n := range numbers {
		r.Buffers = append(r.Buffers, c.buffers[n])
	}
	c.mu.Unlock()
	c.running.Go(func() {
		stack.Grow()
		defer cancel()
		var result []byte
		contain.Call(func() (err error) {
			result, err = c.run(ctx, name, r)
			return err
		}, func(err error) { // also of a function that ends its goroutine
			c.mu.Lock()
			delete(c.cancels, number)
			c.mu.Unlock()
			c.answer(number, result, err)
		})
	})
}

// run runs a function, and waits for what it has put on the stream: the parent's deadline holds for that as well.
func (c *child) run(ctx context.Context, name string, r *Request) (result []byte, err error) {
	for i, b := range r.Buffers {
		if b == nil {
			return nil, driver.Errorf(driver.ErrOutOfMemory, "buffer %d could not be mapped in the child", i)
		}
	}
	_, err = c.pool.Do(ctx, func(w *pool.Worker) error {
		result, err = call(w, name, r)
		return err
	})
	return result, err
}

// answer sends what a function has returned. A child that can use CUDA no more ends after it has told that, and the parent starts
// another one.
func (c *child) answer(number uint64, result []byte, err error) {
	if err == nil {
		err = tooLarge(result)
	}
	if err == nil {
		err = c.link.send(resultFrame, number, result)
	} else {
		poison := poisoned(err) || c.closed()
		if err = c.link.send(errorFrame, number, EncodeError(err)); err == nil && poison {
			os.Exit(1)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "purecuda/isolate: the parent does not take answers:", err) // it may be gone
		os.Exit(1)
	}
}

func (c *child) cancel(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.cancels[number]; cancel != nil {
		cancel()
	}
}

// addBuffer maps a buffer. One that cannot be mapped is an error of the calls that use it.
func (c *child) addBuffer(number uint64, content []byte) {
	descriptor := c.link.descriptor()
	if descriptor < 0 || len(content) != 8 {
		return
	}
	defer closeDescriptor(descriptor)
	data, err := mapShared(descriptor, int(sizeIn(content)))
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buffers[number] = &Buffer{number: number, data: data}
}

// drop forgets a buffer. The parent does that when no call uses it.
func (c *child) drop(number uint64) {
	c.mu.Lock()
	b := c.buffers[number]
	delete(c.buffers, number)
	c.mu.Unlock()
	if b == nil {
		return
	}
	c.running.Go(func() { // ending the registration waits for the device
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.host == nil || b.host.Close() == nil {
			unmap(b.data)
		}
	})
}
