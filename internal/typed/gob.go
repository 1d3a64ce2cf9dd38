package typed

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
)

// A value by gob is a stream: the descriptions of its types, then the value, each a message with its length before it. Making and
// reading the descriptions takes most of the time. They depend on the type alone, and so a coder that has done with them makes and
// reads values only. What is sent still has them, so that a receiver needs nothing from before: it is
//
//   - 0 and the stream as it is, for types that hold an interface, since the descriptions depend on the value then, or
//   - the length of the descriptions plus 1 as a varint, the descriptions, and the message of the value.

const (
	// maxKept is the longest value that a coder is kept after: it keeps memory for as much.
	maxKept = 64 << 10
	// maxUses is how often a decoder is used. What it skips may hold descriptions, which it keeps.
	maxUses = 1 << 16
	// maxSenders is how many descriptions of a type a receiver keeps decoders for. Another process may describe it with other numbers.
	maxSenders = 64
)

// coders keeps coders for the next value of their type.
type coders struct {
	mu       sync.Mutex
	plain    map[reflect.Type]bool // holds no interface
	encoders map[reflect.Type]*sync.Pool
	decoders map[sender]*sync.Pool
	senders  map[reflect.Type]int
}

// sender is a type, and how another process describes it.
type sender struct {
	of           reflect.Type
	descriptions string
}

type encoder struct {
	out          bytes.Buffer
	gob          *gob.Encoder
	descriptions []byte // as they are sent
}

type decoder struct {
	in   bytes.Reader
	gob  *gob.Decoder
	uses int
}

func (c *coders) marshal(v any) ([]byte, error) {
	kept, plain := c.encodersOf(reflect.TypeOf(v))
	if !plain {
		out := bytes.NewBuffer([]byte{0})
		err := gob.NewEncoder(out).Encode(v)
		return out.Bytes(), err
	}
	e, _ := kept.Get().(*encoder)
	if e == nil {
		e = new(encoder)
		e.gob = gob.NewEncoder(&e.out)
	}
	if err := e.gob.Encode(v); err != nil {
		return nil, err
	}
	if e.descriptions == nil {
		at, err := lastMessage(e.out.Bytes())
		if err != nil {
			return nil, err
		}
		e.descriptions = append(binary.AppendUvarint(nil, uint64(at)+1), e.out.Next(at)...)
	}
	data := slices.Concat(e.descriptions, e.out.Bytes())
	if e.out.Len() <= maxKept {
		e.out.Reset()
		kept.Put(e)
	}
	return data, nil
}

func (c *coders) unmarshal(data []byte, v any) error {
	n, used := binary.Uvarint(data)
	if used <= 0 || n > uint64(len(data)) {
		return errors.New("they do not begin with the length of descriptions")
	}
	data = data[used:]
	if n == 0 {
		return gob.NewDecoder(bytes.NewReader(data)).Decode(v)
	}
	if n--; n > uint64(len(data)) {
		return io.ErrUnexpectedEOF
	}
	descriptions, value := data[:n], data[n:]
	if at, err := lastMessage(value); err != nil || at != 0 {
		return errors.Join(errors.New("want one message of a value"), err)
	}
	kept := c.decodersOf(reflect.TypeOf(v), descriptions)
	var d *decoder
	if kept != nil {
		d, _ = kept.Get().(*decoder)
	}
	if d == nil {
		d = new(decoder)
		d.gob = gob.NewDecoder(&d.in)
		value = data
	}
	d.in.Reset(value)
	if err := d.gob.Decode(v); err != nil {
		return err
	}
	if d.uses++; kept != nil && d.uses < maxUses && len(value) <= maxKept && d.in.Len() == 0 {
		d.in.Reset(nil)
		kept.Put(d)
	}
	return nil
}

// encodersOf are the encoders of a type, unless it holds an interface.
func (c *coders) encodersOf(t reflect.Type) (kept *sync.Pool, plain bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept = c.encoders[t]; kept != nil || !c.isPlain(t) {
		return kept, kept != nil
	}
	if c.encoders == nil {
		c.encoders = map[reflect.Type]*sync.Pool{}
	}
	kept = new(sync.Pool)
	c.encoders[t] = kept
	return kept, true
}

// decodersOf are the decoders that have read the descriptions, or nil if none are kept.
func (c *coders) decodersOf(t reflect.Type, descriptions []byte) *sync.Pool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept := c.decoders[sender{t, string(descriptions)}]; kept != nil {
		return kept
	}
	if c.senders[t] == maxSenders || len(descriptions) > maxKept || !c.isPlain(t) {
		return nil
	}
	if c.decoders == nil {
		c.decoders, c.senders = map[sender]*sync.Pool{}, map[reflect.Type]int{}
	}
	kept := new(sync.Pool)
	c.decoders[sender{t, string(descriptions)}] = kept
	c.senders[t]++
	return kept
}

// isPlain reports whether a type holds no interface. c.mu is held.
func (c *coders) isPlain(t reflect.Type) bool {
	plain, known := c.plain[t]
	if !known {
		if c.plain == nil {
			c.plain = map[reflect.Type]bool{}
		}
		plain = !holdsInterface(t, map[reflect.Type]bool{})
		c.plain[t] = plain
	}
	return plain
}

// makers are the interfaces of types that gob lets make bytes of themselves.
var makers = []reflect.Type{reflect.TypeFor[gob.GobEncoder](), reflect.TypeFor[encoding.BinaryMarshaler]()}

func holdsInterface(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	for _, maker := range makers {
		if t.Kind() != reflect.Interface && (t.Implements(maker) || reflect.PointerTo(t).Implements(maker)) {
			return false
		}
	}
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return holdsInterface(t.Elem(), seen)
	case reflect.Map:
		return holdsInterface(t.Key(), seen) || holdsInterface(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsInterface(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// lastMessage is where the last message of a stream begins.
func lastMessage(stream []byte) (int, error) {
	for at := 0; ; {
		length, used := messageLength(stream[at:])
		left := uint64(len(stream) - at - used)
		switch {
		case used == 0 || length == 0 || length > left:
			return 0, fmt.Errorf("a message of %d bytes at %d of %d", length, at, len(stream))
		case length == left:
			return at, nil
		}
		at += used + int(length)
	}
}

// messageLength reads a number of gob: one byte below 128, or the negative of how many bytes follow, the highest first.
func messageLength(b []byte) (n uint64, used int) {
	switch {
	case len(b) == 0:
		return 0, 0
	case b[0] < 128:
		return uint64(b[0]), 1
	}
	bytes := -int(int8(b[0]))
	if bytes > 8 || bytes >= len(b) {
		return 0, 0
	}
	for _, x := range b[1 : 1+bytes] {
		n = n<<8 | uint64(x)
	}
	return n, 1 + bytes
}
