package runtime_test

// Simulated devices share memory on Linux only: see package drivertest.

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/runtime"
)

// ipcVariable tells a process that a test has started it to share memory, and with which driver.
const ipcVariable = "PURECUDA_RUNTIME_TEST_IPC"

// ipcCall is what one process asks of another.
type ipcCall struct {
	Do     string // alloc, open, read, add or close
	At     int    // of the Refs that the other process has
	N      int
	Value  uint32
	Handle []byte
}

// ipcAnswer is what became of it.
type ipcAnswer struct {
	Err    string
	At, N  int
	Handle []byte
	Data   []uint32
}

// ipcProcess is another process, which does what it is asked.
type ipcProcess struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     io.WriteCloser
	to     *json.Encoder
	from   *json.Decoder
	out    io.Reader
	ending sync.Once
}

// TestIPCProcess starts another process that shares nothing. In that process it serves the test that has
// started it.
func TestIPCProcess(t *testing.T) {
	kind := os.Getenv(ipcVariable)
	if kind == "" {
		startIPC(t, "simulated").end()
		return
	}
	var api driver.API = drivertest.ForTest(t, drivertest.Config{})
	if kind == "hardware" {
		api = hardware.Open(t)
	}
	rt := openOn(t, api)
	serveIPC(t, newStream(t, contextOf(t, rt)))
}

func serveIPC(t *testing.T, s *runtime.Stream) {
	k := kernel(t, s.Context(), "add")
	var refs []*runtime.Ref[uint32]
	do := func(call ipcCall) (answer ipcAnswer, err error) {
		switch call.Do {
		case "alloc":
			x, err := runtime.AllocIPC[uint32](s, call.N)
			if err != nil {
				return answer, err
			}
			refs = append(refs, x)
			if err := runtime.Upload(bg, s, x, count(call.Value, call.N)); err != nil {
				return answer, err
			}
			h, err := runtime.ExportIPC(bg, s, x)
			return ipcAnswer{At: len(refs) - 1, Handle: h[:]}, err
		case "open":
			x, err := runtime.OpenIPC[uint32](s, runtime.IPCHandle(call.Handle))
			refs = append(refs, x)
			return ipcAnswer{At: len(refs) - 1, N: x.Len()}, err
		case "read":
			answer.Data = make([]uint32, refs[call.At].Len())
			return answer, runtime.Download(bg, s, answer.Data, refs[call.At])
		case "add":
			return answer, errors.Join(addTo(k, s, refs[call.At], call.Value), s.Synchronize(bg))
		case "close":
			return answer, refs[call.At].Close()
		}
		return answer, errors.New("unknown call")
	}
	from, to := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var call ipcCall
		if err := from.Decode(&call); err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
		answer, err := do(call)
		if err != nil {
			answer.Err = err.Error()
		}
		require.NoError(t, to.Encode(answer))
	}
	for _, x := range refs {
		assert.NoError(t, x.Close())
	}
}

// startIPC starts a process on a simulated driver or on that of this machine. It ends with the test.
func startIPC(t testing.TB, kind string) *ipcProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestIPCProcess$", "-test.count=1")
	cmd.Env = append(os.Environ(), ipcVariable+"="+kind)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &ipcProcess{t: t, cmd: cmd, in: in, to: json.NewEncoder(in), from: json.NewDecoder(out), out: out}
	t.Cleanup(p.end)
	return p
}

// end lets the process end, which then must have left nothing behind.
func (p *ipcProcess) end() {
	p.ending.Do(func() {
		assert.NoError(p.t, p.in.Close())
		rest, err := io.ReadAll(io.MultiReader(p.from.Buffered(), p.out))
		assert.NoError(p.t, err)
		assert.NoError(p.t, p.cmd.Wait(), "the other process failed: %s", rest)
	})
}

// kill ends the process where it is.
func (p *ipcProcess) kill() {
	p.ending.Do(func() {
		require.NoError(p.t, p.cmd.Process.Kill())
		var killed *exec.ExitError
		require.ErrorAs(p.t, p.cmd.Wait(), &killed)
	})
}

// call asks the process for something, which may fail there.
func (p *ipcProcess) call(c ipcCall) ipcAnswer {
	p.t.Helper()
	require.NoError(p.t, p.to.Encode(c))
	var a ipcAnswer
	require.NoError(p.t, p.from.Decode(&a), "the other process is gone")
	return a
}

// must is call of what must not fail.
func (p *ipcProcess) must(c ipcCall) ipcAnswer {
	p.t.Helper()
	a := p.call(c)
	require.Empty(p.t, a.Err)
	return a
}

// alloc makes the process allocate n numbers that begin with value.
func (p *ipcProcess) alloc(n int, value uint32) (at int, h runtime.IPCHandle) {
	p.t.Helper()
	a := p.must(ipcCall{Do: "alloc", N: n, Value: value})
	return a.At, runtime.IPCHandle(a.Handle)
}
