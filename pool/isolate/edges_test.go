//go:build linux && (amd64 || arm64)

package isolate_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// What the tests of this file make of the program: one that does not call isolate.Main, and one that traces a process.
const (
	noMain = "PURECUDA_TEST_NO_MAIN"
	traced = "PURECUDA_TEST_TRACED"
)

func init() {
	for name, f := range map[string]isolate.Func{
		"open/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) {
			rt, err := runtime.Open(runtime.WithDriver(drivertest.New(machine(1))))
			if err != nil {
				return nil, err
			}
			g, err := isolate.Open(rt)
			return nil, errors.Join(err, g.Close(), rt.Close())
		},
		"print/v1": func(_ *pool.Worker, r *isolate.Request) ([]byte, error) {
			n, err := strconv.Atoi(string(r.Data))
			if err == nil {
				_, err = os.Stdout.Write(bytes.Repeat([]byte("0123456789abcde\n"), n/16))
			}
			return r.Data, err
		},
		"typed-nil/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) { return nil, (*nilError)(nil) },
		"nil-driver/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) {
			return nil, (*driver.Error)(nil)
		},
		"goexit/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) { goruntime.Goexit(); return nil, nil },
		"tracer/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) { // lets any process trace this one
			const setTracer, anybody = 0x59616d61, ^uintptr(0)
			_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, setTracer, anybody, 0) // where there is no Yama it is refused, and not needed
			return fmt.Append(nil, os.Getpid()), nil
		},
		"flood/v1": flood,
		"close/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) {
			return nil, errors.Join(runtimeOfChild.Close(), errors.New("closed"))
		},
	} {
		isolate.Register(name, f)
	}
}

// nilError is an error whose methods panic for a nil pointer.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// flood sends the parent a frame in small parts, each with descriptors.
func flood(*pool.Worker, *isolate.Request) ([]byte, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	var all []int
	for range 28 {
		all = append(all, int(null.Fd()))
	}
	rights := syscall.UnixRights(all...)
	frame := append([]byte{0, 0, 1, 0}, make([]byte, 400)...)
	for i := range frame {
		if err := syscall.Sendmsg(socket(), frame[i:i+1], rights, nil, 0); err != nil {
			return nil, err
		}
	}
	time.Sleep(time.Hour)
	return nil, nil
}

// beforeMain is what the process does that is none of the usual ones.
func beforeMain() {
	if depth := os.Getenv(noMain); depth != "" {
		os.Exit(withoutMain(depth))
	}
	if seed, err := strconv.ParseUint(os.Getenv(lying), 10, 64); err == nil {
		os.Exit(lie(seed))
	}
	if pid, err := strconv.Atoi(os.Getenv(traced)); err == nil {
		os.Exit(trace(pid))
	}
}

// withoutMain is a program that opens a group without having called isolate.Main.
func withoutMain(depth string) int {
	if len(depth) > 3 {
		fmt.Fprintln(os.Stderr, "children have children")
		return 3
	}
	rt, err := runtime.Open(runtime.WithDriver(drivertest.New(machine(1))))
	if err == nil {
		var g *isolate.Group
		if g, err = isolate.Open(rt, isolate.WithEnvironment(noMain+"="+depth+"x"), isolate.WithRestarts(1, time.Hour)); err == nil {
			_, _, err = g.Do(context.Background(), "echo/v1", nil)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 4
}

// trace keeps a process from being reaped once it was killed, as one is that the system cannot kill.
func trace(pid int) int {
	goruntime.LockOSThread()
	const seize = 0x4206
	if _, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, seize, uintptr(pid), 0, 0, 0, 0); errno != 0 {
		fmt.Println(errno)
		return 1
	}
	fmt.Println("traced")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// unkillable makes the child of a group one that does not end when it is killed, until the function that it returns is called.
func unkillable(t *testing.T, g *isolate.Group) (release func()) {
	pid, _, err := g.Do(within(t), "tracer/v1", nil)
	require.NoError(t, err)
	tracer := exec.Command("/proc/self/exe")
	tracer.Env = append(os.Environ(), traced+"="+string(pid))
	hold, err := tracer.StdinPipe()
	require.NoError(t, err)
	says, err := tracer.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, tracer.Start())
	release = sync.OnceFunc(func() {
		hold.Close()
		_ = tracer.Wait() // what it says was read
	})
	t.Cleanup(release)
	line, err := bufio.NewReader(says).ReadString('\n')
	require.NoError(t, err)
	if line != "traced\n" {
		release()
		t.Skipf("no process may trace another one here: %s", line)
	}
	return release
}

// A child opens no group, whatever it has called: its children would open one as well.
func TestNoGroupInAChild(t *testing.T) {
	g := open(t, 1)
	_, _, err := g.Do(within(t), "open/v1", nil)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "cannot open a group")

	var printed locked
	g = open(t, 1, isolate.WithOutput(&printed), isolate.WithEnvironment(noMain+"=x"), isolate.WithRestarts(1, time.Hour))
	_, _, err = g.Do(within(t), "echo/v1", nil)
	assert.ErrorIs(t, err, isolate.ErrGaveUp)
	assert.ErrorContains(t, err, "isolate.Main")
	require.NoError(t, g.Close())
	assert.Contains(t, printed.String(), "has not called isolate.Main")
	assert.NotContains(t, printed.String(), "children have children")
}

// TestWhyAChildTookNothing has children that end before the parent has told them all: how they ended is told, and what could not be sent.
func TestWhyAChildTookNothing(t *testing.T) {
	g := open(t, 1, isolate.WithOutput(io.Discard), isolate.WithEnvironment(noMain+"=x"))
	for _, sending := range []error{syscall.EPIPE, net.ErrClosed} {
		err := isolate.EndsAfter(g, sending, true)
		assert.ErrorIs(t, err, sending)
		assert.ErrorContains(t, err, "exit status")
		assert.ErrorContains(t, err, "has not called isolate.Main")
	}
	assert.EqualError(t, isolate.EndsAfter(g, errors.New("the first reason"), false), "the first reason")
}

// locked is a buffer for several goroutines.
type locked struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// still is an output that takes nothing until it is told to.
type still struct {
	start chan struct{}
	into  locked
}

func (s *still) Write(p []byte) (int, error) {
	<-s.start
	return s.into.Write(p)
}

// An output that stands still holds up no request and no Shutdown. What it did not get is said.
func TestOutputThatStandsStill(t *testing.T) {
	out := &still{start: make(chan struct{})}
	g := open(t, 1, isolate.WithOutput(out))
	const n = 4 << 20
	for range 2 {
		_, _, err := g.Do(within(t), "print/v1", fmt.Append(nil, n))
		require.NoError(t, err)
	}
	err := g.Shutdown(within(t))
	assert.ErrorIs(t, err, driver.ErrTimeout)
	assert.ErrorContains(t, err, "WithOutput")
	close(out.start)
	require.NoError(t, g.Close(), "now it takes all")
	printed := out.into.String()
	assert.Contains(t, printed, "bytes that children printed were dropped")
	assert.Less(t, len(printed), 2<<20, "what waits is bounded")
}

// panicking is an output that panics or ends its goroutine.
type panicking struct{ calls int }

func (p *panicking) Write([]byte) (int, error) {
	if p.calls++; p.calls%2 == 0 {
		goruntime.Goexit()
	}
	panic("at the output")
}

func TestOutputThatPanics(t *testing.T) {
	g := open(t, 1, isolate.WithOutput(new(panicking)))
	for range 3 {
		_, _, err := g.Do(within(t), "print/v1", []byte("16"))
		require.NoError(t, err)
	}
}

// A child that cannot be killed holds up neither Do nor Shutdown, and nobody gets its buffers meanwhile.
func TestChildThatCannotBeKilled(t *testing.T) {
	t.Cleanup(isolate.SetGonePatience(500 * time.Millisecond)) // after the group is closed
	g := open(t, 1)
	release := unkillable(t, g)
	b, _ := words(t, g, 10)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err := g.Do(ctx, "sleep/v1", []byte("1h"), isolate.WithBuffers(b), isolate.WithFallback(cpu))
	assert.ErrorIs(t, err, isolate.ErrChildDied)
	assert.ErrorContains(t, err, "its buffers are lost")
	_, _, err = g.Do(within(t), "set/v1", set(0, 10), isolate.WithBuffers(b))
	assert.ErrorIs(t, err, isolate.ErrChildDied)
	assert.ErrorContains(t, err, "may still write to the buffer")
	_, _, err = g.Do(within(t), "echo/v1", nil)
	assert.NoError(t, err, "another child serves")
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = g.Shutdown(ctx)
	assert.ErrorIs(t, err, driver.ErrTimeout)
	assert.ErrorContains(t, err, "of device 0")
	release()
	require.NoError(t, g.Close(), "it has ended")
	assert.Eventually(t, func() bool {
		_, _, err := g.Do(within(t), "set/v1", set(0, 10), isolate.WithBuffers(b))
		return errors.Is(err, driver.ErrClosed) // and not that the buffer is lost
	}, time.Minute, time.Millisecond)
}

// An error whose methods panic, and a function that ends its goroutine, are the error of their request and cost no child.
func TestErrorsOfUsers(t *testing.T) {
	g := open(t, 1)
	for name, says := range map[string]string{"typed-nil/v1": "nilError", "nil-driver/v1": "*driver.Error that is nil", "goexit/v1": "Goexit"} {
		_, _, err := g.Do(within(t), name, nil)
		assert.ErrorContains(t, err, says)
	}
	_, _, err := g.Do(within(t), "echo/v1", nil)
	require.NoError(t, err)
	assert.EqualValues(t, 1, g.Stats().Devices[0].Starts, "the child lives")
	for _, err := range []error{nil, (*nilError)(nil), &goexitError{}} {
		assert.ErrorContains(t, isolate.DecodeError(isolate.EncodeError(err), 0), "whose methods")
	}
	assert.ErrorIs(t, isolate.DecodeError(bytes.Repeat([]byte{' '}, 16<<20), 0), isolate.ErrChildDied)
}

// goexitError ends the goroutine that asks for its text.
type goexitError struct{}

func (*goexitError) Error() string { goruntime.Goexit(); return "" }

// Children get no secret whose name begins as that of a setting does, and no descriptor that the program has inherited itself.
func TestNothingOfTheParent(t *testing.T) {
	secrets := []string{"PURECUDA_CLUSTER_TOKEN", "GOOGLE_API_KEY", "NVIDIA_API_KEY", "CUDA_TOKEN", "LD_SECRET", "XDG_SECRET"}
	for _, name := range secrets {
		t.Setenv(name, "not for children")
	}
	t.Setenv("PURECUDA_CACHE_DIR", t.TempDir())
	t.Setenv("LC_ALL", "C")
	path := filepath.Join(t.TempDir(), "inherited")
	inherited, err := syscall.Open(path, syscall.O_CREAT|syscall.O_RDWR, 0o600) // without O_CLOEXEC
	require.NoError(t, err)
	defer syscall.Close(inherited)
	g := open(t, 1)
	environment, _, err := g.Do(within(t), "environment/v1", nil)
	require.NoError(t, err)
	for _, name := range secrets {
		assert.NotContains(t, string(environment), name)
	}
	assert.Contains(t, string(environment), "PURECUDA_CACHE_DIR=")
	assert.Contains(t, string(environment), "LC_ALL=")
	files, _, err := g.Do(within(t), "files/v1", nil)
	require.NoError(t, err)
	assert.NotContains(t, string(files), path)
}

// A child that sends descriptors fills no table of the parent.
func TestDescriptorsOfAChild(t *testing.T) {
	g := open(t, 1)
	_, _, err := g.Do(within(t), "echo/v1", nil)
	require.NoError(t, err)
	before, most := len(descriptors("self")), 0
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				most = max(most, len(descriptors("self")))
			}
		}
	}()
	_, _, err = g.Do(within(t), "flood/v1", nil)
	close(stop)
	<-stopped
	assert.ErrorIs(t, err, isolate.ErrChildDied)
	assert.ErrorContains(t, err, "a descriptor")
	assert.Less(t, most, before+28)
}

// cpu is what echo and fail do, on the CPU.
func cpu(_ context.Context, _ string, r *isolate.Request) ([]byte, error) {
	return append([]byte("cpu "), r.Data...), nil
}

// Where the devices have not done a request the fallback does it, and the report says why.
func TestFallback(t *testing.T) {
	g := open(t, 1, isolate.WithRestarts(1, time.Hour), isolate.WithFallback(cpu))
	result, report, err := g.Do(within(t), "echo/v1", []byte("x"))
	require.NoError(t, err)
	assert.Equal(t, "x", string(result))
	assert.Equal(t, pool.OnGPU, report.Where)

	data := []byte("x")
	for name, reason := range map[string]pool.Reason{"fail/v1": pool.Failed, "panic/v1": pool.Failed} {
		result, report, err = g.Do(within(t), name, data)
		require.NoError(t, err)
		assert.Equal(t, "cpu x", string(result))
		assert.Equal(t, pool.OnCPU, report.Where)
		assert.Equal(t, reason, report.Reason)
		assert.Equal(t, driver.NoDevice, report.Device)
		assert.Error(t, report.Err)
	}
	for name, f := range map[string]isolate.Fallback{
		"at the fallback": func(context.Context, string, *isolate.Request) ([]byte, error) { panic("at the fallback") },
		"of the fallback": func(context.Context, string, *isolate.Request) ([]byte, error) {
			return nil, errors.New("of the fallback")
		},
		"nilError":     func(context.Context, string, *isolate.Request) ([]byte, error) { return nil, (*nilError)(nil) },
		"want at most": func(context.Context, string, *isolate.Request) ([]byte, error) { return make([]byte, 16<<20+1), nil },
	} {
		_, _, err = g.Do(within(t), "fail/v1", nil, isolate.WithFallback(f))
		assert.ErrorContains(t, err, name)
		assert.ErrorContains(t, err, "not today", "and why it was needed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = g.Do(ctx, "fail/v1", nil)
	assert.ErrorIs(t, err, context.Canceled, "not after the end of the context")

	_, _, err = g.Do(within(t), "fail/v1", nil, isolate.WithFallback(nil))
	assert.ErrorContains(t, err, "not today")
	_, err = openPool(t, g).Do(within(t), func(w *pool.Worker) error {
		_, err := g.Call(w, "fail/v1", nil)
		return err
	})
	assert.ErrorContains(t, err, "not today", "the pool's own call decides")

	for range 2 {
		_, _, _ = g.Do(within(t), "kill/v1", nil, isolate.WithFallback(nil))
	}
	result, report, err = g.Do(within(t), "echo/v1", data)
	require.NoError(t, err)
	assert.Equal(t, "cpu x", string(result))
	assert.Equal(t, pool.Quarantined, report.Reason)
	assert.ErrorIs(t, report.Err, isolate.ErrGaveUp)
}

// Where CUDA is absent a group with a fallback works, unless the policy forbids it.
func TestFallbackWithoutCUDA(t *testing.T) {
	for _, c := range []struct {
		policy runtime.Policy
		reason pool.Reason
	}{{runtime.PolicyAuto, pool.Absent}, {runtime.PolicyOff, pool.PolicyOff}} {
		rt, err := runtime.Open(runtime.WithPolicy(c.policy), runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{InitResult: driver.ResultNoDevice})))
		require.NoError(t, err)
		_, err = isolate.Open(rt)
		assert.ErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
		g, err := isolate.Open(rt, isolate.WithFallback(cpu), isolate.WithDevices(3))
		require.NoError(t, err)
		result, report, err := g.Do(within(t), "echo/v1", []byte("x"))
		require.NoError(t, err)
		assert.Equal(t, "cpu x", string(result))
		assert.Equal(t, c.reason, report.Reason)
		assert.ErrorIs(t, report.Err, driver.ErrDriverLibraryUnavailable)
		assert.NoError(t, g.Close())
		_, _, err = g.Do(within(t), "echo/v1", nil)
		assert.ErrorIs(t, err, driver.ErrClosed)
		assert.NoError(t, rt.Close())
	}
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(drivertest.ForTest(t, machine(1))))
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close()) }()
	g, err := isolate.Open(rt, isolate.WithFallback(cpu), isolate.WithEnvironment(simulation+"=1"), isolate.WithOutput(lines{t}))
	require.NoError(t, err)
	defer func() { assert.NoError(t, g.Close()) }()
	_, _, err = g.Do(within(t), "fail/v1", nil)
	assert.ErrorIs(t, err, driver.ErrRequired)
	assert.ErrorContains(t, err, "not today")
}

// No more requests run on the CPU than there are cores, and no more wait than WithQueue says.
func TestFallbackIsBounded(t *testing.T) {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff))
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close()) }()
	cores := goruntime.GOMAXPROCS(0)
	running, most := 0, 0
	var mu sync.Mutex
	hold := make(chan struct{})
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		running += n
		most = max(most, running)
	}
	g, err := isolate.Open(rt, isolate.WithQueue(5), isolate.WithFallback(func(_ context.Context, _ string, r *isolate.Request) ([]byte, error) {
		count(1)
		defer count(-1)
		<-hold
		return r.Data, nil
	}))
	require.NoError(t, err)
	errs := make(chan error, 40+cores)
	var all sync.WaitGroup
	for range cap(errs) {
		all.Go(func() {
			_, _, err := g.Do(within(t), "echo/v1", nil)
			errs <- err
		})
	}
	refused := 0
	for range cap(errs) - cores - 5 {
		assert.ErrorIs(t, <-errs, pool.ErrQueueFull)
		refused++
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, _, err = g.Do(ctx, "echo/v1", nil, isolate.WithQueueWait())
	assert.ErrorIs(t, err, driver.ErrTimeout)
	close(hold)
	all.Wait()
	for range cores + 5 {
		assert.NoError(t, <-errs)
	}
	assert.Equal(t, cores, most)
	assert.EqualValues(t, refused, g.Stats().Refused)
	assert.EqualValues(t, cores+5, g.Stats().Fallbacks)
	assert.NoError(t, g.Close())
}

// A function that closes the runtime of its child costs the child, not the requests after it.
func TestChildWithoutItsRuntime(t *testing.T) {
	g := open(t, 1)
	_, _, err := g.Do(within(t), "close/v1", nil)
	assert.ErrorContains(t, err, "closed")
	assert.Eventually(t, func() bool {
		result, _, err := g.Do(within(t), "echo/v1", []byte("x"))
		return err == nil && string(result) == "x"
	}, time.Minute, 10*time.Millisecond)
}

// A child that has stopped, with its socket full of what others sent, holds nobody.
func TestStoppedChild(t *testing.T) {
	g := open(t, 1, isolate.WithStreams(4))
	pid, _, err := g.Do(within(t), "pid/v1", nil)
	require.NoError(t, err)
	process, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(process, syscall.SIGSTOP))
	b, _ := words(t, g, 10)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			var options []isolate.Option
			if i == 0 {
				options = append(options, isolate.WithBuffers(b))
			}
			_, _, err := g.Do(ctx, "echo/v1", make([]byte, 16<<20), options...)
			assert.Error(t, err)
		})
	}
	all.Wait()
	assert.Eventually(t, func() bool { // on a busy machine none of the four may have come as far as to the child
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := g.Do(ctx, "echo/v1", nil)
		return err == nil
	}, time.Minute, 10*time.Millisecond, "another child serves")
}

// Who reads slowly gets a long frame, and who does not read at all holds nobody up.
func TestSendToOneThatReadsSlowly(t *testing.T) {
	for _, c := range []struct {
		name string
		each time.Duration // how long 64 KiB of 16 MiB take to read
		want error
	}{{"slowly", 10 * time.Millisecond, nil}, {"not at all", time.Hour, os.ErrDeadlineExceeded}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			var ends [2]net.Conn
			for i, d := range pair {
				file := os.NewFile(uintptr(d), "")
				ends[i], err = net.FileConn(file)
				require.NoError(t, err)
				require.NoError(t, file.Close())
				defer ends[i].Close()
			}
			over := make(chan struct{})
			defer close(over)
			go func() {
				into := make([]byte, 64<<10)
				for {
					select {
					case <-over:
						return
					case <-time.After(c.each):
					}
					if _, err := io.ReadFull(ends[1], into); err != nil {
						return
					}
				}
			}()
			assert.ErrorIs(t, isolate.Send(ends[0].(*net.UnixConn), 16<<20), c.want)
		})
	}
}
