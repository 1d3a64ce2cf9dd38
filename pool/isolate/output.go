package isolate

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/purecuda/purecuda/internal/contain"
)

// output passes on what the children of a group print. What takes it may stand still, panic or never return: it is called on
// a goroutine of its own, and nobody waits for it but [output.flush].
type output struct {
	to io.Writer

	mu      sync.Mutex
	pending []byte
	passing int           // bytes that a call of Write has now
	dropped int           // bytes that found no room since the last that did
	idle    chan struct{} // closed when all was taken; nil if nothing is on its way
}

// outputBytes bounds what waits for the output of a group.
const outputBytes = 1 << 20

// write takes a part of what a child prints. It does not wait.
func (o *output) write(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending)+len(p) > outputBytes {
		o.dropped += len(p)
		return
	}
	o.pending = append(o.pending, p...)
	if o.idle == nil {
		o.idle = make(chan struct{})
		go o.pass()
	}
}

// pass hands on what is pending, until nothing is.
func (o *output) pass() {
	for {
		o.mu.Lock()
		text := o.pending
		if o.dropped > 0 {
			text = fmt.Appendf(text, "\npurecuda/isolate: %d bytes that children printed were dropped here, because the output takes them too slowly\n", o.dropped)
		}
		o.pending, o.dropped, o.passing = nil, 0, len(text)
		if len(text) == 0 {
			close(o.idle)
			o.idle = nil
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		_ = contain.Hook(func() { _, _ = o.to.Write(text) }) // the children are not to suffer from it
	}
}

// flush waits until all was taken, and returns how many bytes were not in time.
func (o *output) flush(patience time.Duration) int {
	o.mu.Lock()
	idle := o.idle
	o.mu.Unlock()
	if idle == nil {
		return 0
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-idle:
		return 0
	case <-limit.C:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pending) + o.passing + o.dropped
}

// tail reads what a child prints, and keeps the end of it.
type tail struct {
	out  *output
	read chan struct{} // closed when nothing comes any more

	mu   sync.Mutex
	text []byte
}

const (
	tailBytes = 4 << 10
	// outputPatience is how long a process that a child has started may keep the output of the ended child open. The output
	// may take as long for the last that the children of a group have printed.
	outputPatience = time.Second
)

// listen reads until the other end is closed.
func (t *tail) listen(from *os.File) {
	defer close(t.read)
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			t.keep(buffer[:n])
			t.out.write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

func (t *tail) keep(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-tailBytes):]...)
	t.text = append(t.text[:0], t.text[max(0, len(t.text)-tailBytes):]...)
}

// last is the last line, for an error.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	for _, line := range lines { // what Go prints of a fatal error stands above the stacks
		if strings.HasPrefix(line, "fatal error:") || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "SIG") {
			return ": " + line
		}
	}
	if line := lines[len(lines)-1]; line != "" {
		return ": " + line
	}
	return ""
}
