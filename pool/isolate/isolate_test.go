//go:build linux && (amd64 || arm64)

package isolate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/allocs"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

func TestDo(t *testing.T) {
	onDrivers(t, func(t *testing.T, g *isolate.Group) {
		for _, data := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("abc"), 10000), make([]byte, 16<<20)} {
			result, report, err := g.Do(within(t), "echo/v1", data)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(data, result))
			assert.Equal(t, pool.OnGPU, report.Where)
			assert.Equal(t, 1, report.Tries)
		}
		_, _, err := g.Do(within(t), "echo/v1", make([]byte, 16<<20+1))
		assert.Equal(t, driver.ErrInvalidArgument, kindOf(err))
		_, _, err = g.Do(within(t), "large/v1", nil)
		assert.Equal(t, driver.ErrInvalidArgument, kindOf(err))
		_, _, err = g.Do(within(t), "echo/v2", nil)
		assert.ErrorContains(t, err, "echo/v1")
	})
}

func TestErrorsOfFunctions(t *testing.T) {
	g := open(t, 1)
	_, report, err := g.Do(within(t), "fail/v1", nil)
	remote, ok := errors.AsType[*isolate.RemoteError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, "not today", remote.Text)
	assert.Equal(t, pool.Failed, report.Reason)
	_, _, err = g.Do(within(t), "panic/v1", nil)
	assert.ErrorContains(t, err, "at the function")
	_, _, err = g.Do(within(t), "argument/v1", nil)
	assert.Equal(t, driver.ErrInvalidArgument, kindOf(err))
	assert.ErrorContains(t, err, "-1 elements")
	assert.EqualValues(t, 1, g.Stats().Devices[0].Starts, "the child lives")
}

// A buffer goes to a child that was not spoken to for long.
func TestBufferAfterAPause(t *testing.T) {
	g := open(t, 1)
	first, _, err := g.Do(within(t), "pid/v1", nil)
	require.NoError(t, err)
	time.Sleep(2100 * time.Millisecond) // longer than a frame may take to be sent
	b, _ := words(t, g, 10)
	_, _, err = g.Do(within(t), "set/v1", set(0, 10), isolate.WithBuffers(b))
	require.NoError(t, err)
	second, _, err := g.Do(within(t), "pid/v1", nil)
	require.NoError(t, err)
	assert.Equal(t, first, second)
}

func TestBuffers(t *testing.T) {
	onDrivers(t, func(t *testing.T, g *isolate.Group) {
		const n = 1 << 16
		b, err := g.NewBuffer(4 * n)
		require.NoError(t, err)
		defer b.Close()
		words := unsafe.Slice((*uint32)(unsafe.Pointer(&b.Bytes()[0])), n)
		for i := range words {
			words[i] = uint32(i)
		}
		for range 3 {
			_, _, err = g.Do(within(t), "add/v1", []byte{5, 0, 0, 0}, isolate.WithBuffers(b), isolate.WithDevices(0))
			require.NoError(t, err)
		}
		for i := range words {
			require.Equal(t, uint32(i)+15, words[i])
		}
		require.NoError(t, b.Close())
		require.NoError(t, b.Close())
		_, _, err = g.Do(within(t), "add/v1", []byte{5, 0, 0, 0}, isolate.WithBuffers(b))
		assert.ErrorIs(t, err, driver.ErrClosed)
		_, _, err = g.Do(within(t), "add/v1", []byte{5, 0, 0, 0}, isolate.WithBuffers(nil))
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	})
}

// A child that dies fails what it had, and another one serves.
func TestDeaths(t *testing.T) {
	for _, c := range []struct {
		name, data, says string
		kind             driver.Kind
	}{
		{"fault/v1", "", "ILLEGAL_ADDRESS", driver.ErrDeviceLost},
		{"exit/v1", "", "ended by itself", isolate.ErrChildDied},
		{"kill/v1", "", "signal: killed", isolate.ErrChildDied},
		{"nonsense/v1", "\xff\xff\xff\xff\xff\xff", "a frame of 4294967295 bytes", isolate.ErrChildDied},
		{"nonsense/v1", "\x0d\x00\x00\x00\x63\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "a frame of kind 99", isolate.ErrChildDied},
		{"nonsense/v1", "\x0d\x00\x00\x00\x09\x01\x00\x00\x00\x00\x00\x00\x77\x00\x00\x00\x00", "which it does not have", isolate.ErrChildDied},
		{"nonsense/v1", "\x0d\x00\x00\x00\x07\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "ready, twice", isolate.ErrChildDied},
		{"nonsense/v1", "\x0e\x00\x00\x00\x09\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00x", "another checksum", isolate.ErrChildDied},
	} {
		t.Run(c.name+" "+strconv.Quote(c.says), func(t *testing.T) {
			onDrivers(t, func(t *testing.T, g *isolate.Group) {
				first, _, err := g.Do(within(t), "pid/v1", nil, isolate.WithDevices(0))
				require.NoError(t, err)
				_, _, err = g.Do(within(t), c.name, []byte(c.data), isolate.WithDevices(0))
				assert.ErrorIs(t, err, isolate.ErrChildDied)
				assert.ErrorIs(t, err, c.kind)
				assert.ErrorContains(t, err, c.says)
				second, _, err := g.Do(within(t), "pid/v1", nil, isolate.WithDevices(0))
				require.NoError(t, err)
				assert.NotEqual(t, first, second)
				assert.EqualValues(t, 1, g.Stats().Devices[0].Deaths)
			})
		})
	}
}

// A child that has told that it is lost does not live on.
func TestLostChildEnds(t *testing.T) {
	g := open(t, 1)
	_, _, err := g.Do(within(t), "lie/v1", nil)
	assert.ErrorIs(t, err, isolate.ErrChildDied)
	assert.ErrorIs(t, err, driver.ErrDeviceLost)
	require.NoError(t, g.Close())
	var status syscall.WaitStatus
	_, err = syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	assert.ErrorIs(t, err, syscall.ECHILD)
}

func TestRetryElsewhere(t *testing.T) {
	g := open(t, 2)
	_, report, err := g.Do(within(t), "kill/v1", nil, isolate.WithRetry(2))
	assert.ErrorIs(t, err, isolate.ErrChildDied)
	assert.Equal(t, 3, report.Tries)
	stats := g.Stats()
	assert.NotZero(t, stats.Devices[0].Requests)
	assert.NotZero(t, stats.Devices[1].Requests)
	assert.EqualValues(t, 3, stats.Died)
	assert.EqualValues(t, 2, stats.Retries)
}

// Others that a child has when it dies are repeated where they may be, or fail with its cause.
func TestDeathBesideOthers(t *testing.T) {
	onDrivers(t, func(t *testing.T, g *isolate.Group) {
		var group sync.WaitGroup
		for i := range 64 {
			group.Go(func() {
				result, _, err := g.Do(within(t), "sleep/v1", []byte("100ms"), isolate.WithRetry(5))
				assert.NoError(t, err, "request %d", i)
				assert.Equal(t, "slept", string(result))
			})
		}
		time.Sleep(50 * time.Millisecond)
		_, _, err := g.Do(within(t), "fault/v1", nil)
		assert.ErrorIs(t, err, isolate.ErrChildDied)
		group.Wait()
	})
}

// A function that returns within the grace costs no child.
func TestGrace(t *testing.T) {
	onDrivers(t, func(t *testing.T, g *isolate.Group) {
		_, _, err := g.Do(within(t), "echo/v1", nil, isolate.WithDevices(0))
		require.NoError(t, err)
		pid := g.Stats().Devices[0].PID
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, _, err = g.Do(ctx, "wait/v1", nil, isolate.WithDevices(0))
		assert.ErrorIs(t, err, driver.ErrTimeout)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		_, _, err = g.Do(within(t), "echo/v1", nil, isolate.WithDevices(0))
		require.NoError(t, err)
		assert.Equal(t, pid, g.Stats().Devices[0].PID)
		assert.Zero(t, g.Stats().Devices[0].Deaths)
	}, isolate.WithGrace(time.Minute))
}

func TestDeadline(t *testing.T) {
	onDrivers(t, func(t *testing.T, g *isolate.Group) {
		_, _, err := g.Do(within(t), "echo/v1", nil, isolate.WithDevices(0))
		require.NoError(t, err)
		pid := g.Stats().Devices[0].PID
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, _, err = g.Do(ctx, "spin/v1", nil, isolate.WithDevices(0))
		assert.ErrorIs(t, err, driver.ErrTimeout)
		assert.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, time.Minute, time.Millisecond)

		buffer, err := g.NewBuffer(1)
		require.NoError(t, err)
		defer buffer.Close()
		_, _, err = g.Do(within(t), "echo/v1", nil, isolate.WithDevices(0))
		require.NoError(t, err)
		pid = g.Stats().Devices[0].PID
		ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, _, err = g.Do(ctx, "spin/v1", nil, isolate.WithDevices(0), isolate.WithBuffers(buffer))
		assert.ErrorIs(t, err, driver.ErrTimeout)
		assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "who has a buffer is gone when Do returns")
		_, _, err = g.Do(within(t), "echo/v1", nil, isolate.WithDevices(0))
		assert.NoError(t, err)
		assert.EqualValues(t, 2, g.Stats().Devices[0].Deaths)
		assert.EqualValues(t, 2, g.Stats().Devices[0].Kills)

		stopped := errors.New("no longer wanted")
		ctx, end := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { end(stopped) })
		_, _, err = g.Do(ctx, "stop/v1", nil, isolate.WithDevices(0))
		assert.ErrorIs(t, err, stopped)
	})
}

func TestGiveUp(t *testing.T) {
	g := open(t, 1, isolate.WithRestarts(2, 2*time.Second))
	for range 3 {
		_, _, err := g.Do(within(t), "kill/v1", nil)
		assert.ErrorIs(t, err, isolate.ErrChildDied)
	}
	_, _, err := g.Do(within(t), "echo/v1", nil)
	require.ErrorIs(t, err, isolate.ErrGaveUp)
	assert.ErrorContains(t, err, "killed", "the cause is behind it")
	assert.Equal(t, isolate.LeftOut, g.Stats().Devices[0].State)
	assert.Eventually(t, func() bool {
		_, _, err := g.Do(within(t), "echo/v1", nil)
		return err == nil
	}, time.Minute, 10*time.Millisecond, "it is tried again")
}

// Requests that kill their children do not hold up those that come after them.
func TestDeathsOfGoodChildrenDoNotPause(t *testing.T) {
	g := open(t, 1, isolate.WithRestarts(1000, time.Hour))
	for deaths := range uint64(6) {
		_, _, err := g.Do(within(t), "kill/v1", nil)
		assert.ErrorIs(t, err, isolate.ErrChildDied)
		require.Eventually(t, func() bool { return g.Stats().Devices[0].Deaths == deaths+1 }, time.Minute, 100*time.Microsecond)
		assert.NotEqual(t, isolate.Pausing, g.Stats().Devices[0].State)
	}
}

func TestQueueFull(t *testing.T) {
	g := open(t, 1, isolate.WithStreams(2), isolate.WithQueue(3))
	_, _, err := g.Do(within(t), "echo/v1", nil)
	require.NoError(t, err)
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			_, _, err := g.Do(within(t), "sleep/v1", []byte("300ms"))
			assert.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool { return g.Stats().Queue == 3 }, time.Minute, time.Millisecond)
	_, _, err = g.Do(within(t), "echo/v1", nil)
	assert.ErrorIs(t, err, pool.ErrQueueFull)
	_, _, err = g.Do(within(t), "echo/v1", nil, isolate.WithQueueWait())
	assert.NoError(t, err)
	group.Wait()
}

// Requests go to the device that has the least to do.
func TestAllDevicesServe(t *testing.T) {
	g := open(t, 3)
	for i := range 3 {
		_, _, err := g.Do(within(t), "echo/v1", nil, isolate.WithDevices(i))
		require.NoError(t, err)
	}
	var group sync.WaitGroup
	for range 30 {
		group.Go(func() {
			_, _, err := g.Do(within(t), "sleep/v1", []byte("200ms"))
			assert.NoError(t, err)
		})
	}
	group.Wait()
	for _, d := range g.Stats().Devices {
		assert.EqualValues(t, 11, d.Requests, "device %d", d.Device)
		result, _, err := g.Do(within(t), "where/v1", nil, isolate.WithDevices(d.Device))
		require.NoError(t, err)
		assert.True(t, strings.HasSuffix(string(result), fmt.Sprintf("%02x", d.Device)), "%s on device %d", result, d.Device)
	}
}

func TestShutdown(t *testing.T) {
	g := open(t, 2)
	ended := make(chan error)
	for _, name := range []string{"sleep/v1", "wait/v1"} {
		go func() {
			_, _, err := g.Do(context.Background(), name, []byte("200ms"))
			ended <- err
		}()
	}
	require.Eventually(t, func() bool { return g.Stats().Devices[0].Busy+g.Stats().Devices[1].Busy == 2 }, time.Minute, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err := g.Shutdown(ctx)
	assert.ErrorIs(t, err, driver.ErrTimeout)
	assert.ErrorContains(t, err, "1 requests")
	failed := 0
	for range 2 {
		if err := <-ended; err != nil {
			assert.ErrorIs(t, err, isolate.ErrChildDied)
			failed++
		}
	}
	assert.Equal(t, 1, failed)
	_, _, err = g.Do(t.Context(), "echo/v1", nil)
	assert.ErrorIs(t, err, driver.ErrClosed)
	for _, d := range g.Stats().Devices {
		assert.Equal(t, isolate.Ended, d.State)
	}
}

func TestChildrenGetWhatTheyNeedOnly(t *testing.T) {
	t.Setenv("AWS_SECRET", "not for children")
	t.Setenv("CUDA_MODULE_LOADING", "LAZY")
	secret, err := os.Open("/etc/hostname")
	require.NoError(t, err)
	defer secret.Close()
	g := open(t, 1)
	result, _, err := g.Do(within(t), "environment/v1", nil)
	require.NoError(t, err)
	var all []string
	require.NoError(t, json.Unmarshal(result, &all))
	assert.Contains(t, all, "CUDA_MODULE_LOADING=LAZY")
	assert.NotContains(t, strings.Join(all, " "), "AWS_SECRET")
	assert.NotContains(t, strings.Join(all, " "), "PURECUDA_ISOLATE_CHILD", "programs of the child are no children")
	assert.Contains(t, strings.Join(all, " "), "CUDA_VISIBLE_DEVICES=GPU-")
	result, _, err = g.Do(within(t), "files/v1", nil)
	require.NoError(t, err)
	assert.NotContains(t, string(result), "hostname")
}

// What a terminal or systemd sends to all processes of a service ends no child: the parent finishes its requests.
func TestSignalsOfTheService(t *testing.T) {
	g := open(t, 1)
	first, _, err := g.Do(within(t), "pid/v1", nil)
	require.NoError(t, err)
	pid, err := strconv.Atoi(string(first))
	require.NoError(t, err)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		require.NoError(t, syscall.Kill(pid, signal))
		again, _, err := g.Do(within(t), "pid/v1", nil)
		require.NoError(t, err)
		assert.Equal(t, first, again)
	}
}

// Without descriptors no child starts, and nothing is left of the try. With them one does.
func TestOutOfDescriptors(t *testing.T) {
	g := open(t, 1, isolate.WithRestarts(1000, time.Hour))
	_, _, err := g.Do(within(t), "echo/v1", nil)
	require.NoError(t, err)
	before := len(descriptors("self"))
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: limit.Max}))
	_, bufferErr := g.NewBuffer(1)
	_, _, killed := g.Do(within(t), "kill/v1", nil)
	failed := g.Stats().Devices[0].Deaths
	require.Eventually(t, func() bool { return g.Stats().Devices[0].Deaths > failed+1 }, 10*time.Second, time.Millisecond)
	cause := g.Stats().Devices[0].Err
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	assert.ErrorIs(t, bufferErr, syscall.EMFILE)
	assert.ErrorIs(t, killed, isolate.ErrChildDied)
	assert.ErrorIs(t, cause, syscall.EMFILE)
	_, _, err = g.Do(within(t), "echo/v1", nil)
	require.NoError(t, err)
	assert.InDelta(t, before, len(descriptors("self")), 1)
}

// A child without descriptors cannot take a buffer, and says so.
func TestChildOutOfDescriptors(t *testing.T) {
	g := open(t, 1)
	_, _, err := g.Do(within(t), "descriptors/v1", nil)
	require.NoError(t, err)
	b, _ := words(t, g, 10)
	_, _, err = g.Do(within(t), "set/v1", set(0, 10), isolate.WithBuffers(b))
	assert.ErrorIs(t, err, driver.ErrOutOfMemory)
	_, _, err = g.Do(within(t), "echo/v1", nil)
	assert.NoError(t, err)
}

// The process that stands by becomes the child, and another one stands by then. One that was killed is not missed.
func TestStandby(t *testing.T) {
	onDrivers(t, func(t *testing.T, g *isolate.Group) {
		pid := func() int {
			result, _, err := g.Do(within(t), "pid/v1", nil)
			require.NoError(t, err)
			pid, err := strconv.Atoi(string(result))
			require.NoError(t, err)
			return pid
		}
		standby := func(not int) (pid int) {
			require.Eventually(t, func() bool { pid = g.Stats().Devices[0].Standby; return pid != 0 && pid != not }, 20*time.Second, time.Millisecond)
			return pid
		}
		first := pid()
		second := standby(first)
		_, _, err := g.Do(within(t), "kill/v1", nil)
		assert.ErrorIs(t, err, isolate.ErrChildDied)
		assert.Equal(t, second, pid())
		third := standby(second)
		require.NoError(t, syscall.Kill(third, syscall.SIGKILL))
		require.Eventually(t, func() bool { return g.Stats().Devices[0].Standby == 0 }, 20*time.Second, time.Millisecond)
		_, _, err = g.Do(within(t), "kill/v1", nil)
		assert.ErrorIs(t, err, isolate.ErrChildDied)
		fourth := pid()
		assert.NotEqual(t, third, fourth)
		fifth := standby(fourth)
		require.NoError(t, g.Close())
		assert.ErrorIs(t, syscall.Kill(fifth, 0), syscall.ESRCH)
	}, isolate.WithStandby(), isolate.WithDevices(0))
}

// Many deaths leave neither descriptors nor processes behind.
func TestNothingIsLeft(t *testing.T) {
	g := open(t, 1, isolate.WithRestarts(1000, time.Hour))
	b, err := g.NewBuffer(1 << 16)
	require.NoError(t, err)
	defer b.Close()
	do := func(name string) error {
		_, _, err := g.Do(within(t), name, []byte{1, 0, 0, 0}, isolate.WithBuffers(b))
		return err
	}
	require.NoError(t, do("add/v1"))
	before := len(descriptors("self"))
	for range 5 {
		assert.Error(t, do("fault/v1"))
		require.NoError(t, do("add/v1"))
	}
	assert.InDelta(t, before, len(descriptors("self")), 1)
	require.NoError(t, g.Close())
	var status syscall.WaitStatus
	_, err = syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	assert.ErrorIs(t, err, syscall.ECHILD, "no zombie is left")
}

func TestOpenRefuses(t *testing.T) {
	_, err := isolate.Open(nil)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	var none *isolate.Group
	_, _, err = none.Do(t.Context(), "echo/v1", nil)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, err = none.NewBuffer(1)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.NoError(t, none.Close())
	assert.Empty(t, none.Stats())
	g := open(t, 1)
	_, err = g.NewBuffer(0)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, _, err = g.Do(t.Context(), "echo/v1", nil, isolate.WithStreams(3))
	assert.ErrorContains(t, err, "WithStreams is an option of Open")
	_, _, err = g.Do(t.Context(), "echo/v1", nil, isolate.WithDevices(7))
	assert.ErrorContains(t, err, "no device 7")
	_, err = isolate.HostBuffer[byte](nil, nil)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
}

// Children end when their parent is killed, even if they are busy with a kernel that never ends.
func TestParentIsKilled(t *testing.T) {
	if os.Getenv("TEST_PARENT") != "" {
		g := open(t, 1)
		pid, _, err := g.Do(t.Context(), "pid/v1", nil)
		require.NoError(t, err)
		fmt.Printf("child %s\n", pid)
		_, _, _ = g.Do(t.Context(), "spin/v1", nil)
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	parent := exec.Command(self, "-test.run=^TestParentIsKilled$")
	parent.Env = append(os.Environ(), "TEST_PARENT=1")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	var pid int
	_, err = fmt.Fscanf(out, "child %d\n", &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0))
	require.NoError(t, parent.Process.Kill())
	assert.Error(t, parent.Wait())
	assert.Eventually(t, func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || bytes.Contains(status, []byte(") Z ")) // whoever inherits it may be slow to ask
	}, time.Minute, 10*time.Millisecond)
}

func TestDoAllocatesLittle(t *testing.T) {
	g := open(t, 1)
	b, err := g.NewBuffer(1 << 10)
	require.NoError(t, err)
	defer b.Close()
	for _, c := range []struct {
		name    string
		ctx     context.Context
		most    float64
		options []isolate.Option
	}{
		{"nothing", context.Background(), 6, nil},
		{"a buffer", context.Background(), 9, []isolate.Option{isolate.WithBuffers(b)}},
		{"a ctx that can end", t.Context(), 11, nil},
	} {
		allocs.AtMost(t, c.most, 100, func() {
			_, _, err := g.Do(c.ctx, "echo/v1", nil, c.options...)
			require.NoError(t, err)
		}, c.name)
	}
}
