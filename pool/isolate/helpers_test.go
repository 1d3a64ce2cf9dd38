//go:build linux && (amd64 || arm64)

package isolate_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/internal/leaks"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// simulation tells a child how many devices it has to simulate, and fate that it is to fail by chance.
const (
	simulation = "PURECUDA_TEST_ISOLATE"
	fate       = "PURECUDA_TEST_FATE"
	// unlike tells a child that its last device is an H100, and "setup" that its setup loads what only that can run.
	unlike = "PURECUDA_TEST_UNLIKE"
)

func loadHopper(c *runtime.Context) (*runtime.Module, error) {
	return c.LoadModule(runtime.Image{Code: []byte(".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n")})
}

// setUpHopper is the setup of a child, of which no other one hears.
func setUpHopper() pool.Setup {
	return pool.PerDevice(func(c *runtime.Context) (*runtime.Module, error) {
		if os.Getenv(unlike) != "setup" {
			return nil, nil
		}
		return loadHopper(c)
	})
}

// ptx has kernels that are in order, that fault and that never end.
const ptx = `.version 6.4
.target sm_75
.address_size 64
.visible .entry add(.param .u64 x, .param .u32 n, .param .u32 what) {
	.reg .pred %p; .reg .b32 %r<6>; .reg .b64 %rd<4>;
	ld.param.u64 %rd0, [x]; ld.param.u32 %r0, [n]; ld.param.u32 %r1, [what];
	mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
	mad.lo.u32 %r2, %r2, %r3, %r4;
	setp.ge.u32 %p, %r2, %r0;
	@%p ret;
	mul.wide.u32 %rd1, %r2, 4; add.u64 %rd0, %rd0, %rd1;
	ld.global.u32 %r3, [%rd0]; add.u32 %r3, %r3, %r1; st.global.u32 [%rd0], %r3;
	ret;
}
.visible .entry fault() { .reg .b64 %rd; mov.u64 %rd, 8; st.global.u32 [%rd], 1; ret; }
.visible .entry spin(.param .u64 x) {
	.reg .pred %p; .reg .b32 %r; .reg .b64 %rd;
	ld.param.u64 %rd, [x];
L:	ld.volatile.global.u32 %r, [%rd]; setp.ne.u32 %p, %r, 77; @%p bra L;
	ret;
}
.visible .entry check(.param .u64 number, .param .u64 report) {
	.reg .b64 %rd<4>; .reg .pred %p;
	ld.param.u64 %rd3, [number];
	setp.eq.u64 %p, %rd3, 0;
	@%p exit;
	ld.param.u64 %rd1, [report];
	atom.global.cas.b64 %rd2, [%rd1], 0, -1;
	setp.ne.u64 %p, %rd2, 0;
	@%p exit;
	st.global.u64 [%rd1+8], %rd3;
	membar.sys;
	atom.global.exch.b64 %rd2, [%rd1], 1;
	exit;
}`

func init() {
	for name, f := range map[string]isolate.Func{
		"echo/v1": func(_ *pool.Worker, r *isolate.Request) ([]byte, error) { return r.Data, nil },
		"add/v1":  add,
		"fault/v1": func(w *pool.Worker, _ *isolate.Request) ([]byte, error) {
			return nil, launch(w, "fault", runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 1}})
		},
		"set/v1":    fill,
		"next/v1":   next,
		"spin/v1":   spin,
		"where/v1":  func(w *pool.Worker, _ *isolate.Request) ([]byte, error) { return []byte(w.Device().UUID.String()), nil },
		"pid/v1":    func(*pool.Worker, *isolate.Request) ([]byte, error) { return fmt.Append(nil, os.Getpid()), nil },
		"tagged/v1": func(_ *pool.Worker, r *isolate.Request) ([]byte, error) { return nil, errors.New(string(r.Data)) },
		"fail/v1":   func(*pool.Worker, *isolate.Request) ([]byte, error) { return nil, errors.New("not today") },
		"panic/v1":  func(*pool.Worker, *isolate.Request) ([]byte, error) { panic("at the function") },
		"argument/v1": func(w *pool.Worker, _ *isolate.Request) ([]byte, error) {
			_, err := runtime.Alloc[byte](w.Stream(), -1)
			return nil, err
		},
		"exit/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) { os.Exit(0); return nil, nil },
		"kill/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) {
			return nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
		},
		"stop/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) {
			err := syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			time.Sleep(time.Hour)
			return nil, err
		},
		"wait/v1": func(w *pool.Worker, _ *isolate.Request) ([]byte, error) {
			<-w.CallContext().Done()
			return nil, context.Cause(w.CallContext())
		},
		"sleep/v1": func(_ *pool.Worker, r *isolate.Request) ([]byte, error) {
			d, err := time.ParseDuration(string(r.Data))
			time.Sleep(d)
			return []byte("slept"), err
		},
		"nonsense/v1": func(_ *pool.Worker, r *isolate.Request) ([]byte, error) {
			_, err := syscall.Write(socket(), r.Data)
			return nil, err
		},
		"device-memory/v1": func(w *pool.Worker, _ *isolate.Request) ([]byte, error) {
			x, err := runtime.Alloc[byte](w.Stream(), 1<<45)
			return nil, errors.Join(err, x.Close())
		},
		"host-memory/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) {
			_ = syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: 1, Max: 1})
			return make([]byte, 1<<30), nil
		},
		"descriptors/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) {
			return nil, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{})
		},
		"lie/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) { // as call 1, that the device is lost, and lives on
			content := []byte(`{"Driver":true,"Kind":"DeviceLost","Sticky":true}`)
			frame := binary.LittleEndian.AppendUint32(nil, uint32(13+len(content)))
			frame = binary.LittleEndian.AppendUint64(append(frame, 10), 1)
			frame = binary.LittleEndian.AppendUint32(frame, crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)))
			_, err := syscall.Write(socket(), append(frame, content...))
			time.Sleep(time.Hour)
			return nil, err
		},
		"large/v1":       func(_ *pool.Worker, _ *isolate.Request) ([]byte, error) { return make([]byte, 16<<20+1), nil },
		"environment/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) { return json.Marshal(os.Environ()) },
		"files/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) {
			return json.Marshal(descriptors("self"))
		},
	} {
		isolate.Register(name, f)
	}
}

// socket is the descriptor of a child's socket to its parent.
func socket() int {
	for d := 3; d < 100; d++ {
		if kind, err := syscall.GetsockoptInt(d, syscall.SOL_SOCKET, syscall.SO_TYPE); err == nil && kind == syscall.SOCK_STREAM {
			return d
		}
	}
	return -1
}

// descriptors are what the open ones of a process lead to.
func descriptors(process string) (all []string) {
	links, _ := filepath.Glob("/proc/" + process + "/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil {
			all = append(all, to)
		}
	}
	slices.Sort(all)
	return all
}

// add adds the number in the data to the words of the first buffer, or of the data behind it.
func add(w *pool.Worker, r *isolate.Request) ([]byte, error) {
	what := binary.LittleEndian.Uint32(r.Data)
	host, err := isolate.HostBuffer[uint32](w, r.Buffers[0])
	if err != nil {
		return nil, err
	}
	return nil, addTo(w, host, what)
}

// next returns the words of the data, with one added to each.
func next(w *pool.Worker, r *isolate.Request) ([]byte, error) {
	x, err := runtime.Alloc[byte](w.Stream(), len(r.Data))
	if err != nil {
		return nil, err
	}
	defer x.Close()
	if err := runtime.Upload(w.CallContext(), w.Stream(), x, r.Data); err != nil {
		return nil, err
	}
	n := len(r.Data) / 4
	if err := launch(w, "add", runtime.Shape1D(n, 256), runtime.InOut(x), runtime.Value(uint32(n)), runtime.Value(uint32(1))); err != nil {
		return nil, err
	}
	out := make([]byte, len(r.Data))
	return out, runtime.Download(w.CallContext(), w.Stream(), out, x)
}

// fill writes to each word of a range of the first buffer where it lies.
func fill(_ *pool.Worker, r *isolate.Request) ([]byte, error) {
	for i := binary.LittleEndian.Uint32(r.Data); i < binary.LittleEndian.Uint32(r.Data[4:]); i++ {
		binary.NativeEndian.PutUint32(r.Buffers[0].Bytes()[4*i:], i)
	}
	return nil, nil
}

func addTo(w *pool.Worker, host *runtime.HostBuffer[uint32], what uint32) error {
	x, err := runtime.Alloc[uint32](w.Stream(), host.Len())
	if err != nil {
		return err
	}
	defer x.Close()
	if err := runtime.UploadHost(w.Stream(), x, host); err != nil {
		return err
	}
	if err := launch(w, "add", runtime.Shape1D(host.Len(), 256), runtime.InOut(x), runtime.Value(uint32(host.Len())), runtime.Value(what)); err != nil {
		return err
	}
	if err := runtime.DownloadHost(w.Stream(), host, x); err != nil {
		return err
	}
	return w.Stream().Synchronize(w.CallContext())
}

func spin(w *pool.Worker, _ *isolate.Request) ([]byte, error) {
	x, err := runtime.Alloc[uint32](w.Stream(), 1)
	if err == nil {
		err = runtime.Zero(w.Stream(), x)
	}
	if err == nil {
		err = launch(w, "spin", runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 1}}, runtime.InOut(x))
	}
	return nil, err
}

// launch launches a kernel and waits for it.
func launch(w *pool.Worker, name string, shape runtime.Shape, args ...runtime.Arg) error {
	m, err := w.Context().CachedModule(runtime.Image{Code: []byte(ptx)})
	if err != nil {
		return err
	}
	defer m.Close()
	k, err := m.Kernel(name)
	if err == nil {
		err = k.Launch(w.Stream(), shape, args...)
	}
	if err == nil {
		err = w.Stream().Synchronize(w.CallContext())
	}
	return err
}

func TestMain(m *testing.M) {
	beforeMain()
	isolate.Main(func() (rt *runtime.Runtime, err error) {
		defer func() { runtimeOfChild = rt }()
		n, _ := strconv.Atoi(os.Getenv(simulation))
		if n == 0 {
			return runtime.Open()
		}
		config := machine(n)
		if os.Getenv(unlike) != "" {
			config.Devices[n-1] = drivertest.H100()
		}
		if os.Getenv(fate) != "" {
			meet(&config)
		}
		return runtime.Open(runtime.WithDriver(drivertest.New(config)))
	}, setUpHopper())
	leaks.Main(m, 0)
}

// runtimeOfChild is what isolate.Main was given in a child.
var runtimeOfChild *runtime.Runtime

// meet is what a child of the campaign meets while it starts, or later.
func meet(config *drivertest.Config) {
	soon := time.Duration(rand.IntN(100)) * time.Millisecond
	switch rand.IntN(12) {
	case 0:
		time.Sleep(soon)
	case 1:
		time.AfterFunc(soon, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	case 2:
		time.AfterFunc(soon, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) })
	case 3:
		os.Exit(rand.IntN(3))
	case 4:
		_, _ = syscall.Write(socket(), bytes.Repeat([]byte{byte(rand.Uint32())}, 30))
	case 5:
		config.InitResult = driver.ResultNoDevice
	case 6:
		config.Chaos = &drivertest.Chaos{Seed: rand.Uint64(), Failures: 0.02, Sticky: 0.3, SlowWork: 0.1, MaxDelay: time.Millisecond}
	case 7:
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 8, Max: 8})
	}
}

// lines sends what the children print to a test.
type lines struct{ t testing.TB }

func (l lines) Write(p []byte) (int, error) {
	l.t.Logf("child: %s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// machine is a simulated one, on which kernels may take for ever.
func machine(n int) drivertest.Config {
	return drivertest.Config{Devices: drivertest.Devices(n, drivertest.T4()), MaxSteps: 1 << 50}
}

// open opens a group on n simulated devices, and closes it at the end of the test.
func open(t testing.TB, n int, options ...isolate.Option) *isolate.Group {
	t.Helper()
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(drivertest.ForTest(t, machine(n))))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	g, err := isolate.Open(rt, append([]isolate.Option{isolate.WithOutput(lines{t}), isolate.WithEnvironment(fmt.Sprint(simulation, "=", n))}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

// onDrivers runs a test on two simulated devices, and on those of this machine.
func onDrivers(t *testing.T, f func(t *testing.T, g *isolate.Group), options ...isolate.Option) {
	t.Run("simulated", func(t *testing.T) { f(t, open(t, 2, options...)) })
	t.Run("hardware", func(t *testing.T) {
		rt, err := runtime.Open(runtime.WithDriver(hardware.Open(t)))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, rt.Close()) })
		g, err := isolate.Open(rt, append([]isolate.Option{isolate.WithOutput(lines{t})}, options...)...)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, g.Close()) })
		f(t, g)
	})
}

// within returns a context that ends with the test, or after a time that no test should take.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func kindOf(err error) driver.Kind {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Kind
	}
	return ""
}
