package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ebitengine/purego"

	"github.com/purecuda/purecuda/internal/dlhost"
)

// emulator is the command that programs of this processor are started with, if it is
// not the processor of the machine.
var emulator = strings.Fields(os.Getenv("PROBE_EMULATOR"))

// stress runs all parts, most of them at once, and the one that changes the user last.
func stress(path string) error {
	debug.SetGCPercent(5)
	if len(emulator) == 0 { // qemu-user 7.2 hangs now and then with so many timers
		if err := pprof.StartCPUProfile(io.Discard); err != nil { // SIGPROF, on every thread
			return err
		}
		defer pprof.StopCPUProfile()
	}
	parts := map[string]func() error{
		"collect": collect, "threads": threads, "signals": signals, "faults": faults,
		"children": children, "names": names, "environment": environment, "sockets": sockets,
		"callbacks": func() error { return callbacks(path) },
	}
	failures := make(chan error, len(parts))
	for name, part := range parts {
		go func() {
			err := part()
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			failures <- err
		}()
	}
	var all error
	for range parts {
		all = errors.Join(all, <-failures)
	}
	if err := identities(); err != nil {
		all = errors.Join(all, fmt.Errorf("identities: %w", err))
	}
	if all == nil {
		fmt.Println("done", dlhost.Current().Mode)
	}
	return all
}

// each runs f on n goroutines.
func each(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	failed := make([]error, n)
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			failed[i] = f(i)
		}()
	}
	wg.Wait()
	return errors.Join(failed...)
}

// grow moves the stack.
func grow(n int) int {
	var pad [256]byte
	if n == 0 {
		return int(pad[0])
	}
	return grow(n-1) + int(pad[n%256])
}

func collect() error {
	return each(200, func(i int) error {
		kept := map[int][]byte{}
		for j := range 200 {
			kept[j%10] = bytes.Repeat([]byte{byte(j)}, 1000+i)
			grow(j % 100)
		}
		if kept[9][0] != 199 {
			return fmt.Errorf("lost memory: %d", kept[9][0])
		}
		return nil
	})
}

// threads ends threads, by ending goroutines that are locked to them.
func threads() error {
	return each(60, func(int) error {
		runtime.LockOSThread()
		grow(50)
		time.Sleep(time.Millisecond)
		return nil
	})
}

func signals() error {
	const sent = 300
	got := make(chan os.Signal, sent)
	signal.Notify(got, syscall.SIGUSR1)
	defer signal.Stop(got)
	for i := range sent {
		if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
			return err
		}
		select {
		case <-got:
		case <-time.After(30 * time.Second):
			return fmt.Errorf("signal %d did not arrive", i)
		}
	}
	return nil
}

// faults turns SIGSEGV into panics.
func faults() error {
	return each(20, func(int) error {
		for range 20 {
			if err := fault(); err == nil {
				return errors.New("no panic")
			}
		}
		return nil
	})
}

func fault() (err any) {
	defer func() { err = recover() }()
	var p *[1 << 20]byte
	return p[4000]
}

// children starts this program again.
func children() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := append(emulator, self, "status")
	return each(6, func(int) error {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if !strings.HasPrefix(string(out), dlhost.Current().Mode.String()) {
			return fmt.Errorf("this process is %v, its child %s", dlhost.Current().Mode, out)
		}
		return nil
	})
}

// names asks a name server of ours for addresses, and the system for its own name.
func names() error {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer server.Close()
	go serveNames(server)
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	return each(20, func(i int) error {
		addresses, err := resolver.LookupIP(context.Background(), "ip4", fmt.Sprintf("host%d.example.", i))
		if err != nil {
			return err
		}
		if len(addresses) != 1 || !addresses[0].Equal(net.IPv4(192, 0, 2, 1)) {
			return fmt.Errorf("resolved to %v", addresses)
		}
		if _, err := net.LookupHost("127.0.0.1"); err != nil {
			return err
		}
		_, err = net.LookupHost("localhost")
		return err
	})
}

// serveNames answers every question with 192.0.2.1.
func serveNames(server net.PacketConn) {
	buffer := make([]byte, 512)
	for {
		n, from, err := server.ReadFrom(buffer)
		if err != nil {
			return
		}
		question := buffer[12:n]
		end := bytes.IndexByte(question, 0) + 5
		answer := append([]byte{buffer[0], buffer[1], 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}, question[:end]...)
		answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1)
		_, _ = server.WriteTo(answer, from)
	}
}

func environment() error {
	return each(20, func(i int) error {
		name := fmt.Sprintf("PROBE_%d", i)
		for range 50 {
			if err := os.Setenv(name, "x"); err != nil {
				return err
			}
			if os.Getenv(name) != "x" {
				return errors.New("not set")
			}
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
		return nil
	})
}

func sockets() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return each(20, func(int) error {
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		var echo [5]byte
		for range 20 {
			if _, err := c.Write([]byte("hello")); err != nil {
				return err
			}
			if _, err := io.ReadFull(c, echo[:]); err != nil {
				return err
			}
		}
		return nil
	})
}

// callbacks calls C and lets C call back, where there is a loader and a library. A
// callback can be made without a loader as well.
func callbacks(path string) error {
	var called atomic.Int64
	callback := purego.NewCallback(func(uintptr) uintptr {
		grow(30)
		called.Add(1)
		return 0
	})
	if !dlhost.HasLoader() || path == "" {
		return nil
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return err
	}
	fn, err := purego.Dlsym(handle, "call_from_threads")
	if err != nil {
		return err
	}
	const callers, started, times = 8, 4, 50
	err = each(callers, func(int) error {
		if n, _, _ := purego.SyscallN(fn, callback, 0, started, times); int32(n) != started {
			return fmt.Errorf("C started %d threads", int32(n))
		}
		return library(path)
	})
	if err == nil && called.Load() != callers*started*times {
		err = fmt.Errorf("%d callbacks arrived", called.Load())
	}
	return err
}

// identities changes user and group of the process, in all nine ways, and looks whether
// every thread has followed.
func identities() error {
	id, group := os.Getuid(), os.Getgid()
	root := id == 0
	if root {
		id, group = 65534, 65534
	}
	steps := []func() error{
		func() error { return syscall.Setregid(-1, group) },
		func() error { return syscall.Setegid(group) },
		func() error { return syscall.Setresgid(group, group, group) },
		func() error { return syscall.Setgid(group) },
		func() error { return syscall.Setreuid(-1, os.Geteuid()) },
		func() error { return syscall.Seteuid(os.Geteuid()) },
		func() error { return syscall.Setresuid(id, id, id) },
		func() error { return syscall.Setuid(id) },
	}
	if root {
		steps = append([]func() error{func() error { return syscall.Setgroups([]int{group}) }}, steps...)
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil // no /proc here
	}
	want := fmt.Sprintf("Uid:\t%d\t%[1]d\t%[1]d\t%[1]d\nGid:\t%d\t%[2]d\t%[2]d\t%[2]d\n", id, group)
	foreign := min(len(emulator), 1) // an emulator has a thread of its own
	for _, task := range tasks {
		status, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if err == nil && !strings.Contains(string(status), want) {
			if foreign--; foreign < 0 {
				return fmt.Errorf("of %d threads, %s has not followed: %s", len(tasks), task.Name(), status)
			}
		}
	}
	return nil
}
