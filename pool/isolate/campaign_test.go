//go:build linux && (amd64 || arm64)

package isolate_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// TestCampaign kills and stops children at random points while requests of all kinds run, beside outputs that stand still, other
// groups of the same runtime, buffers that several requests have and that are closed meanwhile, groups and runtimes that are closed in any
// order, and the CPU. Each request gets one answer, which is right or an error that says why, and nothing is left.
func TestCampaign(t *testing.T) {
	before := len(descriptors("self"))
	seeds.Run(t, 12, func(seed uint64) *campaign { return &campaign{t: t, seed: seed} })
	var status syscall.WaitStatus
	_, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	assert.ErrorIs(t, err, syscall.ECHILD, "no process is left")
	assert.InDelta(t, before, len(descriptors("self")), 2, "descriptors")
}

type campaign struct {
	t    *testing.T
	seed uint64
	fate bool // children fail by chance
	cpu  bool // does what they do not

	dropped atomic.Int64 // keys, by anybody

	mu    sync.Mutex
	trace []string
}

// Describe implements seeds.Program.
func (c *campaign) Describe() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.trace)
}

func (c *campaign) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trace = append(c.trace, fmt.Sprintf(format, args...))
}

// Run implements seeds.Program.
func (c *campaign) Run() (err error) {
	chance := rand.New(rand.NewPCG(c.seed, 1))
	devices := 1 + chance.IntN(3)
	gpu := drivertest.New(machine(devices))
	rt, err := runtime.Open(runtime.WithDriver(gpu), runtime.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	environment := []string{fmt.Sprint(simulation, "=", devices)}
	if c.fate = chance.IntN(2) == 0; c.fate {
		environment = append(environment, fate+"=1")
	}
	var standby isolate.Option
	if chance.IntN(2) == 0 {
		standby = isolate.WithStandby()
	}
	var output io.Writer
	var stands *still
	if chance.IntN(3) == 0 {
		stands = &still{start: make(chan struct{})}
		output = stands
	}
	var fallback isolate.Option
	if c.cpu = chance.IntN(3) == 0; c.cpu {
		fallback = isolate.WithFallback(onCPU)
	}
	if chance.IntN(3) == 0 { // one that lives before the other, or beside it
		beside, err := isolate.Open(rt, isolate.WithOutput(nil), isolate.WithEnvironment(environment...))
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // nobody kills a child that stops itself
		err = c.request(ctx, beside, chance)
		cancel()
		if err != nil {
			return errors.Join(err, beside.Close())
		}
		if chance.IntN(2) == 0 {
			if err := beside.Close(); err != nil {
				return err
			}
		} else {
			defer func() {
				if closed := beside.Close(); err == nil {
					err = closed
				}
			}()
		}
	}
	g, err := isolate.Open(rt, standby, fallback, isolate.WithOutput(output), isolate.WithEnvironment(environment...), isolate.WithReady(time.Duration(1+chance.IntN(2)*9)*200*time.Millisecond),
		isolate.WithStreams(1+chance.IntN(4)), isolate.WithQueue(chance.IntN(40)), isolate.WithRestarts(1+chance.IntN(30), 300*time.Millisecond))
	if err != nil {
		return err
	}
	var workers, killer sync.WaitGroup
	errs := make(chan error, 100)
	for worker := range 2 + chance.IntN(10) {
		own := rand.New(rand.NewPCG(c.seed, uint64(worker)+2))
		workers.Go(func() {
			for range 1 + own.IntN(6) {
				if err := c.request(context.Background(), g, own); err != nil { // also one that has no end: children are killed until it has its answer
					errs <- err
					return
				}
			}
		})
	}
	stop := make(chan struct{})
	killer.Go(func() {
		chance := rand.New(rand.NewPCG(c.seed, 0))
		kills := 0 // each makes the next one later, so that a child becomes ready on a machine that is too busy for the first pace
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(chance.IntN(30+kills)) * time.Millisecond):
			}
			if d := g.Stats().Devices[chance.IntN(devices)]; d.PID != 0 && chance.IntN(3) == 0 {
				kills++
				c.note("kill %d", d.PID)
				_ = syscall.Kill(d.PID, syscall.SIGKILL)
			} else if d.PID != 0 && chance.IntN(6) == 0 {
				c.note("stop %d", d.PID)
				_ = syscall.Kill(d.PID, syscall.SIGSTOP)
				time.AfterFunc(time.Duration(chance.IntN(40))*time.Millisecond, func() { _ = syscall.Kill(d.PID, syscall.SIGCONT) })
			}
		}
	})
	early := chance.IntN(4) == 0
	if !early {
		workers.Wait()
	}
	rtFirst := chance.IntN(4) == 0
	if rtFirst {
		err = rt.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+chance.IntN(1000))*time.Millisecond)
	shutdown := g.Shutdown(ctx)
	cancel()
	workers.Wait()
	if stands != nil { // what it did not get was said
		if shutdown != nil && strings.Contains(shutdown.Error(), "WithOutput") {
			shutdown = nil
		}
		close(stands.start)
		if closed := g.Close(); closed != nil {
			return fmt.Errorf("Close after the output takes all: %w", closed)
		}
	}
	err = errors.Join(err, shutdown)
	close(stop)
	killer.Wait()
	close(errs)
	for err := range errs {
		return err
	}
	if err != nil && !(early && errors.Is(err, driver.ErrTimeout)) {
		return fmt.Errorf("Shutdown: %w", err)
	}
	stats := g.Stats()
	for _, d := range stats.Devices {
		if d.PID != 0 || d.Busy != 0 || d.State != isolate.Ended && d.State != isolate.Idle && d.State != isolate.Pausing && d.State != isolate.LeftOut {
			return fmt.Errorf("left behind: %+v", d)
		}
		if d.PID != 0 && syscall.Kill(d.PID, 0) == nil {
			return fmt.Errorf("process %d lives", d.PID)
		}
	}
	if stats.Queue != 0 {
		return fmt.Errorf("%d requests wait", stats.Queue)
	}
	return errors.Join(rt.Close(), gpu.Close())
}

// request makes one request, and checks the answer.
func (c *campaign) request(ctx context.Context, g *isolate.Group, chance *rand.Rand) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	switch chance.IntN(6) {
	case 0:
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, time.Duration(chance.IntN(100))*time.Millisecond)
		defer end()
	case 1:
		time.AfterFunc(time.Duration(chance.IntN(100))*time.Millisecond, cancel)
	}
	options := []isolate.Option{isolate.WithRetry(chance.IntN(3)), isolate.WithGrace(time.Duration(chance.IntN(20)) * time.Millisecond)}
	if chance.IntN(2) == 0 {
		options = append(options, isolate.WithQueueWait())
	}
	if chance.IntN(8) == 0 {
		return c.scatter(ctx, g, chance)
	}
	if chance.IntN(8) == 0 {
		return c.keyed(ctx, g, chance)
	}
	data := bytes.Repeat([]byte{byte(chance.Uint32())}, chance.IntN(1<<uint(chance.IntN(20))))
	switch chance.IntN(20) {
	case 0:
		data = nil
	case 1:
		data = make([]byte, 16<<20)
	}
	var want []byte
	var words []uint32
	if chance.IntN(8) == 0 {
		return c.share(ctx, g, chance)
	}
	name := []string{"print/v1", "typed-nil/v1", "goexit/v1", "open/v1", "echo/v1", "echo/v1", "echo/v1", "echo/v1", "echo/v1", "add/v1", "add/v1", "add/v1", "sleep/v1", "fault/v1", "spin/v1", "wait/v1", "stop/v1",
		"exit/v1", "fail/v1", "nonsense/v1", "device-memory/v1", "host-memory/v1", "descriptors/v1"}[chance.IntN(23)]
	switch name {
	case "echo/v1":
		want = data
	case "add/v1":
		b, err := g.NewBuffer(4 * (1 + chance.IntN(5000)))
		if err != nil {
			return err
		}
		defer b.Close()
		words = unsafe.Slice((*uint32)(unsafe.Pointer(&b.Bytes()[0])), len(b.Bytes())/4)
		options = append(options, isolate.WithBuffers(b), isolate.WithRetry(0)) // adding twice is another result
		data = []byte{7, 0, 0, 0}
	case "sleep/v1":
		data, want = fmt.Append(nil, time.Duration(chance.IntN(30))*time.Millisecond), []byte("slept")
	case "spin/v1", "wait/v1", "stop/v1": // end by their context only
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, time.Duration(chance.IntN(50))*time.Millisecond)
		defer end()
	case "print/v1":
		data = fmt.Append(nil, chance.IntN(3<<20))
		want = data
	case "nonsense/v1":
		data = append(data[:min(len(data), 3)], "\xff\xff\xff\xff\xff\xff\xff\xff\xff"...)
	}
	c.note("%s", name)
	result, report, err := g.Do(ctx, name, data, options...)
	if err == nil && report.Where == pool.OnCPU {
		if !c.cpu || report.Reason == "" || report.Err == nil || string(result) != "the CPU" {
			return fmt.Errorf("%s: on the CPU with %q: %+v", name, result, report)
		}
		return nil
	}
	if err == nil {
		for i, w := range words {
			if w != 7 {
				return fmt.Errorf("%s: word %d is %d", name, i, w)
			}
		}
		if want != nil && !bytes.Equal(result, want) {
			return fmt.Errorf("%s: %d bytes came back, %d are right", name, len(result), len(want))
		}
		if slices.Contains([]string{"spin/v1", "wait/v1", "stop/v1", "exit/v1", "fault/v1", "fail/v1", "device-memory/v1", "host-memory/v1", "typed-nil/v1", "goexit/v1", "open/v1"}, name) {
			return fmt.Errorf("%s: no error: %+v", name, report)
		}
		return nil
	}
	if _, ok := errors.AsType[*isolate.RemoteError](err); ok && slices.Contains([]string{"fail/v1", "nonsense/v1", "typed-nil/v1", "goexit/v1"}, name) { // a full socket refuses to be written
		return nil
	}
	if name == "open/v1" && errors.Is(err, driver.ErrInvalidArgument) {
		return nil
	}
	return c.unexpected(name, err)
}

// onCPU does all requests of the campaign.
func onCPU(context.Context, string, *isolate.Request) ([]byte, error) { return []byte("the CPU"), nil }

// share gives one buffer to several requests, and closes it while they run.
func (c *campaign) share(ctx context.Context, g *isolate.Group, chance *rand.Rand) error {
	n := 1 + chance.IntN(5000)
	b, err := g.NewBuffer(4 * n)
	if err != nil {
		return err
	}
	c.note("share %d", n)
	errs := make(chan error, 3)
	for part := range cap(errs) {
		go func() {
			_, _, err := g.Do(ctx, "set/v1", set(n*part/3, n*(part+1)/3), isolate.WithBuffers(b, b), isolate.WithQueueWait())
			errs <- err
		}()
	}
	early := chance.IntN(2) == 0
	if early {
		if err := b.Close(); err != nil {
			return err
		}
	}
	done := 0
	for range cap(errs) {
		if err := <-errs; err == nil {
			done++
		} else if err := c.unexpected("share", err); err != nil {
			return err
		}
	}
	if done == cap(errs) && !early && !c.cpu {
		for i := range n {
			if word := binary.NativeEndian.Uint32(b.Bytes()[4*i:]); word != uint32(i) {
				return fmt.Errorf("share: word %d is %d", i, word)
			}
		}
	}
	return b.Close()
}

// keyed counts on a key that others count on as well, and drops it where its state is gone.
func (c *campaign) keyed(ctx context.Context, g *isolate.Group, chance *rand.Rand) error {
	key, before := fmt.Sprint(chance.IntN(3)), 0
	c.note("key %s", key)
	for range 1 + chance.IntN(5) {
		result, report, err := g.Do(ctx, "count/v1", nil, isolate.WithKey(key), isolate.WithRetry(chance.IntN(2)), isolate.WithQueueWait())
		switch {
		case err == nil && report.Where == pool.OnCPU:
			return fmt.Errorf("key: on the CPU, which has no state: %+v", report)
		case err == nil:
			n, process, closed := 0, 0, 0
			if _, err := fmt.Sscan(string(result), &n, &process, &closed); err != nil || n < 1 {
				return fmt.Errorf("key: %q: %w", result, err)
			}
			if c.dropped.Load() == 0 && n <= before {
				return fmt.Errorf("key: request %d of a state after request %d, and nobody has dropped it", n, before)
			}
			before = n
		case errors.Is(err, isolate.ErrStateGone) || chance.IntN(8) == 0:
			c.dropped.Add(1)
			if err := g.Drop(ctx, key); err != nil {
				return c.unexpected("drop", err)
			}
		default:
			if err := c.unexpected("key", err); err != nil {
				return err
			}
		}
	}
	return nil
}

// unexpected is an error that nothing of what the campaign does explains, or nil.
func (c *campaign) unexpected(name string, err error) error {
	if strings.Contains(err.Error(), "%!") { // such as a child that has died of nothing
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, expected := range []error{isolate.ErrChildDied, isolate.ErrGaveUp, isolate.ErrStateGone, driver.ErrTimeout, driver.ErrClosed, pool.ErrQueueFull, context.Canceled, context.DeadlineExceeded,
		driver.ErrOutOfMemory} {
		if errors.Is(err, expected) {
			return nil
		}
	}
	if c.fate && kindOf(err) != "" { // a call of the driver that fails by chance makes errors of any kind
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// scatter spreads work over the children.
func (c *campaign) scatter(ctx context.Context, g *isolate.Group, chance *rand.Rand) error {
	p, err := g.Pool()
	if err != nil {
		return err
	}
	n := 1 + chance.IntN(5000)
	b, err := g.NewBuffer(4 * n)
	if err != nil {
		return err
	}
	defer b.Close()
	c.note("scatter %d", n)
	report, err := p.Scatter(ctx, n, func(w *pool.Worker, t pool.Tile) error {
		_, err := g.Call(w, "set/v1", set(t.Lo, t.Hi), isolate.WithBuffers(b), isolate.WithQueueWait())
		return err
	}, pool.ScatterOptions{Retry: chance.IntN(3)})
	if closeErr := p.Close(); closeErr != nil {
		return closeErr
	}
	if err != nil {
		return c.unexpected("scatter", err)
	}
	for i := range n {
		if word := binary.NativeEndian.Uint32(b.Bytes()[4*i:]); word != uint32(i) {
			return fmt.Errorf("scatter: word %d is %d: %+v", i, word, report.Tiles)
		}
	}
	return nil
}
