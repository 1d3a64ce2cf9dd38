package isolate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A frame is the length of what follows, a kind, a number, a checksum (CRC-32C), and content. The number is that of
// a call or of a buffer. The checksum finds what something else in the child has written to the socket in between.
const (
	helloFrame  = iota + 1 // to the child: what it is to be
	callFrame              // to the child: run a function
	cancelFrame            // to the child: the context of a call has ended
	bufferFrame            // to the child: a buffer, with its descriptor
	dropFrame              // to the child: a buffer is closed
	stopFrame              // to the child: finish
	readyFrame             // from the child: it serves
	failedFrame            // from the child: it cannot serve, with the error
	resultFrame            // from the child: what a function has returned
	errorFrame             // from the child: the error of a function
	forgetFrame            // to the child: the state of a key ends
)

const (
	headBytes = 4 + 1 + 8 + 4
	// maxData limits a request and a result, and so what a child that is poisoned can make the parent allocate.
	maxData    = 16 << 20
	maxContent = maxData + 1<<20
	// sendPatience is how long, and twice as long at most, the other side may take to read a part of a frame.
	sendPatience = time.Second
	// partBytes is more than a socket holds: a busy machine may need longer than the patience for a whole frame.
	partBytes = 256 << 10
)

// link is one end of the socket between a program and its child.
type link struct {
	conn *net.UnixConn

	mu       sync.Mutex  // of sending
	deadline time.Time   // of sending
	broken   atomic.Bool // nothing can be sent any more

	// Of the goroutine that receives:
	pending     []byte // was read and belongs to no frame yet
	descriptors []int
	oob         []byte // room for descriptors; a parent has none, so that the kernel keeps those that a child sends
}

// send sends a frame. It may be called on several goroutines. An error says that the child does not read, or is gone.
func (l *link) send(kind byte, number uint64, content ...[]byte) error {
	head := frame(kind, number, content...)
	bytes := binary.LittleEndian.Uint32(head)
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes < 4096 { // one write is faster than a list
		for _, c := range content {
			head = append(head, c...)
		}
		l.limit()
		_, err := l.conn.Write(head)
		return l.sent(err)
	}
	last := len(content) - 1
	for _, c := range content[:last] { // what is before the data is short
		head = append(head, c...)
	}
	var err error
	for data := content[last]; err == nil && (head != nil || len(data) > 0); head = nil {
		part := net.Buffers{head, data[:min(len(data), partBytes)]}
		data = data[len(part[1]):]
		l.limit()
		_, err = part.WriteTo(l.conn)
	}
	return l.sent(err)
}

// sent returns the error of sending, after which a part of a frame may be on its way, and no other one is sent.
func (l *link) sent(err error) error {
	if err != nil {
		l.breakOff()
	}
	return err
}

// breakOff ends all sending, also that which waits.
func (l *link) breakOff() {
	l.broken.Store(true)
	_ = l.conn.SetWriteDeadline(time.Unix(1, 0))
}

// limit keeps a frame from being sent for ever. l.mu is held.
func (l *link) limit() {
	if now := time.Now(); l.deadline.Sub(now) < sendPatience { // setting it costs more than sending
		l.deadline = now.Add(2 * sendPatience)
		_ = l.conn.SetWriteDeadline(l.deadline)
		if l.broken.Load() { // it may have been broken off just now
			l.breakOff()
		}
	}
}

// frame is the head of a frame.
func frame(kind byte, number uint64, content ...[]byte) []byte {
	bytes, sum := headBytes-4, uint32(0)
	for _, c := range content {
		bytes += len(c)
		sum = crc32.Update(sum, castagnoli, c)
	}
	head := binary.LittleEndian.AppendUint32(make([]byte, 0, 256), uint32(bytes))
	head = append(head, kind)
	head = binary.LittleEndian.AppendUint64(head, number)
	return binary.LittleEndian.AppendUint32(head, sum)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// receive returns the next frame. Its content is valid until the next call.
func (l *link) receive() (kind byte, number uint64, content []byte, err error) {
	if err := l.fill(headBytes); err != nil {
		return 0, 0, nil, err
	}
	bytes := int(binary.LittleEndian.Uint32(l.pending))
	if bytes < headBytes-4 || bytes > headBytes-4+maxContent {
		return 0, 0, nil, fmt.Errorf("a frame of %d bytes: want %d to %d", bytes, headBytes-4, headBytes-4+maxContent)
	}
	if err := l.fill(4 + bytes); err != nil {
		return 0, 0, nil, err
	}
	frame := l.pending[:4+bytes]
	l.pending = l.pending[4+bytes:]
	content = frame[headBytes:]
	if crc32.Checksum(content, castagnoli) != binary.LittleEndian.Uint32(frame[13:]) {
		return 0, 0, nil, errors.New("a frame with another checksum")
	}
	return frame[4], binary.LittleEndian.Uint64(frame[5:]), content, nil
}

// errDescriptors is why nothing more is read of a child that sends descriptors, which nobody takes.
var errDescriptors = errors.New("a descriptor")

// fill reads until so many bytes are pending.
func (l *link) fill(bytes int) error {
	for len(l.pending) < bytes {
		if cap(l.pending) < bytes || cap(l.pending) == len(l.pending) {
			l.pending = append(make([]byte, 0, max(2*bytes, 32<<10)), l.pending...)
		}
		free := l.pending[len(l.pending):cap(l.pending)]
		n, oob, err := l.read(free)
		if errors.Is(err, errDescriptors) {
			return err
		}
		if err != nil || n <= 0 { // the other side is gone, with or without having read all
			return io.EOF
		}
		l.pending = l.pending[:len(l.pending)+n]
		if oob > 0 {
			l.descriptors = append(l.descriptors, descriptorsIn(l.oob[:oob])...)
		}
	}
	return nil
}

// descriptor takes the descriptor that came with a frame, or returns -1.
func (l *link) descriptor() int {
	if len(l.descriptors) == 0 {
		return -1
	}
	first := l.descriptors[0]
	l.descriptors = l.descriptors[1:]
	return first
}

// callOf is the content of a call: the name of the function, the key, the trace and the numbers of its buffers, before the data.
func callOf(name, key, trace string, buffers []*Buffer) []byte {
	content := make([]byte, 0, 3+len(name)+len(key)+len(trace)+2+8*len(buffers))
	content = append(append(content, byte(len(name))), name...)
	content = append(append(content, byte(len(key))), key...)
	content = append(append(content, byte(len(trace))), trace...)
	content = binary.LittleEndian.AppendUint16(content, uint16(len(buffers)))
	for _, b := range buffers {
		content = binary.LittleEndian.AppendUint64(content, b.number)
	}
	return content
}

// parseCall takes the content of a call apart.
func parseCall(content []byte) (name, key, trace string, buffers []uint64, data []byte, ok bool) {
	for _, text := range []*string{&name, &key, &trace} {
		if len(content) < 1 || len(content) < 1+int(content[0])+2 {
			return "", "", "", nil, nil, false
		}
		*text, content = string(content[1:1+int(content[0])]), content[1+int(content[0]):]
	}
	n := int(binary.LittleEndian.Uint16(content))
	content = content[2:]
	if len(content) < 8*n {
		return "", "", "", nil, nil, false
	}
	for range n {
		buffers = append(buffers, binary.LittleEndian.Uint64(content))
		content = content[8:]
	}
	return name, key, trace, buffers, content, true
}

// sizeIn is the size of a buffer in the content of its frame.
func sizeIn(content []byte) uint64 { return binary.LittleEndian.Uint64(content) }
