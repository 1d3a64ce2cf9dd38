//go:build amd64 || arm64

package isolate

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	goruntime "runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// supported is why there is no isolation on this system, or nil.
func supported() error { return nil }

// starter starts processes on one thread, because Linux kills a child with PDEATHSIG when the thread ends that
// has started it. The thread ends with the goroutine.
type starter struct {
	requests chan func()
	closed   chan struct{}
}

func newStarter() *starter {
	s := &starter{requests: make(chan func()), closed: make(chan struct{})}
	go func() {
		goruntime.LockOSThread() // and never unlocked, so that the thread ends
		for {
			select {
			case f := <-s.requests:
				f()
			case <-s.closed:
				return
			}
		}
	}()
	return s
}

// start starts a child, which has one end of a socket as descriptor 3 and ends when this process does.
func (s *starter) start(cmd *exec.Cmd) (*link, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "child"), os.NewFile(uintptr(pair[1]), "parent")
	defer theirs.Close()
	l, err := newLink(ours)
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	select {
	case s.requests <- func() { started <- cmd.Start() }:
		err = <-started
	case <-s.closed:
		err = errClosed()
	}
	if err != nil {
		l.conn.Close()
		return nil, err
	}
	return l, nil
}

func (s *starter) close() { close(s.closed) }

// newLink makes a link of a socket, and closes the file.
func newLink(file *os.File) (*link, error) {
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, errors.New("the descriptor is no Unix socket")
	}
	return &link{conn: unix}, nil
}

// parentLink is the link of a child to its parent, which alone decides when the child ends: a terminal and
// systemd send these signals to all processes of a service.
func parentLink() (*link, error) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	syscall.CloseOnExec(3)
	if err := closeInherited(); err != nil {
		return nil, err
	}
	l, err := newLink(os.NewFile(3, "parent"))
	if err == nil {
		l.oob = make([]byte, 128)
	}
	return l, err
}

// closeInherited closes what the parent itself had inherited: all that is open over exec and is not the socket. What this
// process has opened closes on exec, as everything that Go opens.
func closeInherited() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("what the process has inherited cannot be listed: %w", err)
	}
	for _, entry := range open {
		descriptor, err := strconv.Atoi(entry.Name())
		if err != nil || descriptor <= 3 {
			continue
		}
		if flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(descriptor), syscall.F_GETFD, 0); errno == 0 && flags&syscall.FD_CLOEXEC == 0 {
			closeDescriptor(descriptor)
		}
	}
	return nil
}

// sendDescriptor sends a frame that comes with a descriptor.
func (l *link) sendDescriptor(frame []byte, descriptor int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit()
	_, _, err := l.conn.WriteMsgUnix(frame, syscall.UnixRights(descriptor), nil)
	return l.sent(err)
}

// spinning is how long the socket is asked for the next bytes before the goroutine parks: to wake it takes longer than a
// small request. A machine with fewer processors has none to spare for it.
const (
	spinning        = 50 * time.Microsecond
	leastProcessors = 4
)

// read reads what is there, or waits for it.
func (l *link) read(into []byte) (n, oob int, err error) {
	spun := goruntime.GOMAXPROCS(0) < leastProcessors
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var failed error
	err = raw.Read(func(descriptor uintptr) bool {
		for start := time.Now(); ; goruntime.Gosched() {
			var flags int
			n, oob, flags, _, failed = syscall.Recvmsg(int(descriptor), into, l.oob, syscall.MSG_CMSG_CLOEXEC)
			switch {
			case failed == syscall.EINTR:
			case failed == nil && len(l.oob) == 0 && flags&syscall.MSG_CTRUNC != 0:
				failed = errDescriptors
				return true
			case failed != syscall.EAGAIN:
				return true
			case spun || time.Since(start) > spinning:
				spun = true
				return false // called again when there is something
			}
		}
	})
	return n, oob, errors.Join(err, failed)
}

// descriptorsIn are those that came with a message.
func descriptorsIn(oob []byte) (all []int) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		if found, err := syscall.ParseUnixRights(&messages[i]); err == nil {
			all = append(all, found...)
		}
	}
	return all
}

// share makes memory that other processes can map by a descriptor. Its size is sealed: a child that could cut it
// would end every process that touches the rest.
func share(bytes int) (data []byte, descriptor int, err error) {
	const cloexec, allowSealing = 1, 2
	const addSeals, sealSeal, sealShrink, sealGrow = 1033, 1, 2, 4
	name, _ := syscall.BytePtrFromString("purecuda")
	d, _, errno := syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(name)), cloexec|allowSealing, 0)
	if errno != 0 {
		return nil, -1, driver.Errorf(driver.ErrUnsupported, "no shared memory (memfd_create): %w", errno)
	}
	descriptor = int(d)
	if err = syscall.Ftruncate(descriptor, int64(bytes)); err == nil {
		if _, _, errno = syscall.Syscall(syscall.SYS_FCNTL, d, addSeals, sealSeal|sealShrink|sealGrow); errno != 0 {
			err = errno
		}
	}
	if err == nil {
		data, err = mapShared(descriptor, bytes)
	}
	if err != nil {
		closeDescriptor(descriptor)
		return nil, -1, driver.Errorf(driver.ErrOutOfMemory, "%d bytes of shared memory: %w", bytes, err)
	}
	return data, descriptor, nil
}

func mapShared(descriptor, bytes int) ([]byte, error) {
	return syscall.Mmap(descriptor, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

func unmap(data []byte) { _ = syscall.Munmap(data) } // of what was mapped

func closeDescriptor(descriptor int) { _ = syscall.Close(descriptor) }
