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
	// maxIdle is how many coders of a kind are kept. The one that was used last is used next, since its memory is in the cache.
	maxIdle = 16
	// maxSenders is how many descriptions of a type a receiver keeps decoders for. Another process may describe it with other numbers.
	maxSenders = 64
)

// coders keeps coders for the next value of their type.
type coders struct {
	mu       sync.Mutex
	plain    map[reflect.Type]bool // holds no interface
	encoders map[reflect.Type]*idle[encoder]
	decoders map[sender]*idle[decoder]
	senders  map[reflect.Type]int
}

// idle are coders that are kept. The mutex of the coders guards it.
type idle[T any] struct{ list []*T }

func (i *idle[T]) take() (coder *T) {
	if last := len(i.list) - 1; last >= 0 {
		coder, i.list = i.list[last], i.list[:last]
	}
	return coder
}

// give keeps a coder.
func give[T any](c *coders, i *idle[T], coder *T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(i.list) < maxIdle {
		i.list = append(i.list, coder)
	}
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
	kept, e := c.encoderOf(reflect.TypeOf(v))
	if kept == nil {
		out := bytes.NewBuffer([]byte{0})
		err := gob.NewEncoder(out).Encode(v)
		return out.Bytes(), err
	}
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
	data := make([]byte, 0, len(e.descriptions)+e.out.Len()+1) // with room for the version
	data = append(append(data, e.descriptions...), e.out.Bytes()...)
	if e.out.Len() <= maxKept {
		e.out.Reset()
		give(c, kept, e)
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
	kept, d := c.decoderOf(reflect.TypeOf(v), descriptions)
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
		give(c, kept, d)
	}
	return nil
}

// encoderOf takes an encoder of a type, or nil, and says where to give it back. That is nil if the type holds an interface.
func (c *coders) encoderOf(t reflect.Type) (*idle[encoder], *encoder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.encoders[t]
	if kept != nil {
		return kept, kept.take()
	}
	if !c.isPlain(t) {
		return nil, nil
	}
	if c.encoders == nil {
		c.encoders = map[reflect.Type]*idle[encoder]{}
	}
	kept = new(idle[encoder])
	c.encoders[t] = kept
	return kept, nil
}

// decoderOf takes a decoder that has read the descriptions, or nil, and says where to give it back. That is nil if none are kept.
func (c *coders) decoderOf(t reflect.Type, descriptions []byte) (*idle[decoder], *decoder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept := c.decoders[sender{t, string(descriptions)}]; kept != nil {
		return kept, kept.take()
	}
	if c.senders[t] == maxSenders || len(descriptions) > maxKept || !c.isPlain(t) {
		return nil, nil
	}
	if c.decoders == nil {
		c.decoders, c.senders = map[sender]*idle[decoder]{}, map[reflect.Type]int{}
	}
	kept := new(idle[decoder])
	c.decoders[sender{t, string(descriptions)}] = kept
	c.senders[t]++
	return kept, nil
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
