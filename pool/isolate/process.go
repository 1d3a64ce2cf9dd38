package isolate

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/purecuda/purecuda/driver"
)

// process is a child, as the parent sees it.
type process struct {
	of   *slot
	cmd  *exec.Cmd
	link *link
	tail *tail
	// stopped says that the group ends it, and no fault of its own. The group's lock guards it.
	stopped bool

	introducing sync.Mutex      // of buffers, so that each is sent once and before its first call
	known       map[uint64]bool // the buffers that were sent

	mu    sync.Mutex
	calls map[uint64]chan answer
	why   error // it was killed, has told a fatal error, or has ended: it gets no requests any more
	cause error // why it has ended; set before gone is closed
	ready chan error
	told  bool          // that it is ready or cannot be; of the goroutine that receives
	dying chan struct{} // closed when there is a why
	gone  chan struct{} // closed when the process has ended and all its answers were delivered
}

// answer is what a child says to a call.
type answer struct {
	result []byte
	err    error
}

// fork starts a process, which opens its device.
func (g *Group) fork(s *slot) (*process, error) {
	p := &process{of: s, known: map[uint64]bool{}, calls: map[uint64]chan answer{},
		ready: make(chan error, 1), dying: make(chan struct{}), gone: make(chan struct{}), tail: &tail{out: g.output, read: make(chan struct{})}}
	p.cmd = exec.Command("/proc/self/exe") // also if the file was replaced
	p.cmd.Args = os.Args[:1]
	p.cmd.Env = g.environment(s)
	printed, printing, err := os.Pipe()
	if err == nil {
		p.cmd.Stdout, p.cmd.Stderr = printing, printing
		p.link, err = g.starter.start(p.cmd)
		printing.Close()
	}
	if err != nil {
		printed.Close()
		return nil, driver.Errorf(ErrChildDied, "no child process for device %d could be started: %w", s.device.Ordinal, err)
	}
	g.mu.Lock()
	g.processes[p] = true
	if g.ending {
		p.kill(errClosed())
	}
	g.mu.Unlock()
	go p.tail.listen(printed)
	go p.receive(printed)
	greeting, err := json.Marshal(hello{Device: s.device.UUID, Ordinal: s.device.Ordinal, Streams: g.config.streams, StateBytes: g.config.stateBytes})
	if err == nil {
		err = p.link.send(helloFrame, 0, greeting)
	}
	if err != nil {
		p.unsent(err)
	}
	return p, nil
}

// mainHint is for the error of a child that did not say that it is one.
const mainHint = "is isolate.Main called first in main, and first in TestMain?"

// spawn makes a child of the process that stands by, or of a new one, and returns when it is ready.
func (g *Group) spawn(s *slot) (*process, error) {
	g.mu.Lock()
	p := s.standby
	s.standby = nil
	g.mu.Unlock()
	if p == nil || p.reason() != nil {
		var err error
		if p, err = g.fork(s); err != nil {
			return nil, err
		}
	}
	var err error
	limit := time.NewTimer(g.config.ready)
	defer limit.Stop()
	select {
	case err = <-p.ready:
	case <-limit.C:
		err = driver.Errorf(driver.ErrTimeout, "it was not ready after %v%s: %s", g.config.ready, p.tail.last(), mainHint)
	case <-p.gone:
		err = p.cause
	}
	if err != nil {
		p.kill(err)
		g.lives.Go(func() { <-p.gone })
		return nil, err
	}
	return p, nil
}

// standBy starts the process that replaces the child, and waits for its end.
func (g *Group) standBy(s *slot) {
	p, err := g.fork(s)
	if err != nil {
		return // the next child starts a process of its own
	}
	g.mu.Lock()
	last := s.standby
	s.standby = p
	g.mu.Unlock()
	if last != nil {
		last.kill(errClosed())
	}
	<-p.gone
}

// receive takes what the child says until it ends.
func (p *process) receive(printed *os.File) {
	for {
		kind, number, content, err := p.link.receive()
		if err == nil {
			err = p.hear(kind, number, content)
		}
		if err == io.EOF {
			break
		} else if err != nil { // nothing that it says is believed any more
			p.kill(driver.Errorf(ErrChildDied, "it sent nonsense, and was killed: %w", err))
			break
		}
	}
	_ = p.cmd.Process.Kill() // it has closed the socket, and may not end for that
	err := p.cmd.Wait()
	p.link.conn.Close()
	limit := time.AfterFunc(outputPatience, func() { _ = printed.SetReadDeadline(time.Unix(1, 0)) })
	<-p.tail.read
	limit.Stop()
	p.mu.Lock()
	if err == nil {
		err = errors.New("it ended by itself")
	}
	if p.cause = p.why; p.why == nil || errors.Is(p.why, errUnsent) {
		p.cause = fmt.Errorf("%w%s", err, p.tail.last())
		if p.why != nil {
			p.cause = fmt.Errorf("%w (%w)", p.cause, p.why)
		}
		if !p.told {
			p.cause = fmt.Errorf("%w: %s", p.cause, mainHint)
		}
	}
	p.doom(p.cause)
	p.mu.Unlock()
	g := p.of.group
	g.mu.Lock()
	delete(g.processes, p)
	g.mu.Unlock()
	close(p.gone)
}

// hear takes a frame. An error says that a child in order would not send it.
func (p *process) hear(kind byte, number uint64, content []byte) error {
	device := p.of.device.Ordinal
	switch kind {
	case readyFrame:
		return p.tellReady(nil)
	case failedFrame:
		return p.tellReady(DecodeError(content, device))
	case resultFrame:
		return p.deliver(number, answer{result: append([]byte(nil), content...)})
	case errorFrame:
		return p.deliver(number, answer{err: DecodeError(content, device)})
	}
	return fmt.Errorf("a frame of kind %d", kind)
}

func (p *process) tellReady(err error) error {
	if p.told {
		return errors.New("that it is ready, twice")
	}
	p.told = true
	p.ready <- err // has room
	return nil
}

// deliver gives an answer to the call that waits for it.
func (p *process) deliver(number uint64, a answer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	call := p.calls[number]
	if call == nil {
		return fmt.Errorf("an answer to call %d, which it does not have", number)
	}
	delete(p.calls, number)
	if poisoned(a.err) {
		p.doom(a.err)
		_ = p.cmd.Process.Kill() // it ends by itself, unless that hangs
	}
	call <- a // has room
	return nil
}

// doom notes that the child gets no requests any more, for the first reason. p.mu is held.
func (p *process) doom(why error) (first bool) {
	if p.why != nil {
		return false
	}
	p.why = why
	close(p.dying)
	return true
}

// reason is why the child gets no requests any more, or nil.
func (p *process) reason() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// kill ends a child, and tells whether this is why. What it had said before is delivered.
func (p *process) kill(why error) (first bool) {
	p.mu.Lock()
	first = p.doom(why)
	p.mu.Unlock()
	_ = p.cmd.Process.Kill() // it may have ended just now
	p.link.breakOff()        // who sends does not wait for one that cannot be killed
	return first
}

// errUnsent is the first reason of a child that could not be told something. Most have ended by then, and how says more.
var errUnsent = errors.New("it does not take requests")

// unsent ends a child that could not be told something.
func (p *process) unsent(err error) { p.kill(driver.Errorf(ErrChildDied, "%w: %w", errUnsent, err)) }

// begin sends a call, with the buffers that the child does not know.
func (p *process) begin(number uint64, name, key, trace string, data []byte, buffers []*Buffer) (chan answer, error) {
	call := make(chan answer, 1)
	p.mu.Lock()
	p.calls[number] = call
	p.mu.Unlock()
	if err := p.introduce(buffers); err != nil {
		return call, err
	}
	return call, p.link.send(callFrame, number, callOf(name, key, trace, buffers), data)
}

func (p *process) introduce(buffers []*Buffer) error {
	if len(buffers) == 0 {
		return nil
	}
	p.introducing.Lock()
	defer p.introducing.Unlock()
	for _, b := range buffers {
		if p.known[b.number] {
			continue
		}
		size := binary.LittleEndian.AppendUint64(nil, uint64(len(b.data)))
		if err := p.link.sendDescriptor(append(frame(bufferFrame, b.number, size), size...), b.file); err != nil {
			return err
		}
		p.known[b.number] = true
	}
	return nil
}

// drop tells the child that a buffer is closed.
func (p *process) drop(b *Buffer) {
	p.introducing.Lock()
	known := p.known[b.number]
	delete(p.known, b.number)
	p.introducing.Unlock()
	if known {
		_ = p.link.send(dropFrame, b.number) // a child that is gone has dropped it
	}
}
