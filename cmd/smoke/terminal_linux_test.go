package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// openTerminal opens a terminal: what is written to the second file can be read from the first.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal for this test: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	var unlock, number int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Skipf("no terminal for this test: %v", errno)
		}
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal for this test: %v", err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

// screen keeps what was read from a terminal.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) read(master *os.File) {
	for b := make([]byte, 4096); ; {
		n, err := master.Read(b)
		s.mu.Lock()
		s.text.Write(b[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// A terminal on stderr gets the progress with rate and time left, and stdout the result only.
func TestProgressOnATerminal(t *testing.T) {
	input := sparse(t)
	for _, c := range []struct {
		name  string
		args  []string
		env   string
		shows bool
	}{
		{"shown", nil, "TERM=xterm", true},
		{"without colour", nil, "NO_COLOR=1", true},
		{"quiet", []string{"--quiet"}, "TERM=xterm", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			master, slave := openTerminal(t)
			var shown screen
			go shown.read(master)
			var stdout bytes.Buffer
			cmd := asProcess(t, append(c.args, "--input", input, "--policy", "off")...)
			cmd.Env = append(cmd.Env, c.env)
			cmd.Stdout, cmd.Stderr = &stdout, slave
			require.NoError(t, cmd.Start())
			const rateAndTimeLeft = `hashing +\d+% .*/64 GiB, \d+(\.\d+)? .iB/s\).* \[\d+s:\d+.*\]`
			if c.shows {
				assert.Eventually(t, func() bool { return matches(rateAndTimeLeft, shown.String()) }, time.Minute, 50*time.Millisecond)
			} else {
				time.Sleep(700 * time.Millisecond)
			}
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			assert.Error(t, cmd.Wait())
			t.Logf("%.600q", shown.String())
			assert.NotRegexp(t, controlCode, stdout.String())
			if !c.shows {
				assert.Eventually(t, func() bool { return matches(`^smoke: Canceled: .*\n$`, shown.String()) }, time.Minute, 10*time.Millisecond)
			}
			if c.env == "NO_COLOR=1" {
				assert.NotContains(t, shown.String(), "\x1b[3", "no colours")
			}
		})
	}
}
