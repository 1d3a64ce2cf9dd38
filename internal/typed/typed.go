// Package typed makes bytes of requests and results that have types, for pool/isolate and cluster.
package typed

import (
	"encoding"
	"errors"
	"reflect"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
)

// Codec is isolate.Codec.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// Choose returns the codec of a variadic argument: a new Standard where there is none, and nil where there are several or nil.
func Choose[C Codec](given []C) Codec {
	if len(given) == 0 {
		return new(Standard)
	}
	if len(given) == 1 && any(given[0]) != nil {
		return given[0]
	}
	return nil
}

// Serve does a request by a function that has types.
func Serve[Q, A any](c Codec, data []byte, f func(q Q) (A, error)) ([]byte, error) {
	var q Q
	if err := Decode(c, data, &q); err != nil {
		return nil, err
	}
	a, err := f(q)
	if err != nil {
		return nil, err
	}
	return Encode(c, &a)
}

// version is the last byte of what is sent: the version of how it is made.
const version = 2

// Encode makes bytes of a value.
func Encode(c Codec, v any) (data []byte, err error) {
	err = contain.Do(func() (err error) {
		data, err = c.Marshal(v)
		return err
	})
	if err != nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a value of %T cannot be sent: %w", v, err)
	}
	if _, own := c.(*Standard); !own || !ownBytes(v) {
		data = data[:len(data):len(data)] // somebody else may keep what is behind
	}
	return append(data, version), nil
}

// Decode makes a value of bytes.
func Decode(c Codec, data []byte, v any) error {
	last := len(data) - 1
	if last < 0 || data[last] != version {
		return driver.Errorf(driver.ErrInvalidArgument, "%d bytes for a value of %T are not those of a Handler of version %d: call the function by its Handler.Do, "+
			"of the same version of the program", len(data), v, version)
	}
	if err := contain.Do(func() error { return c.Unmarshal(data[:last:last], v) }); err != nil {
		return driver.Errorf(driver.ErrInvalidArgument, "%d bytes are no value of %T: %w", last, v, err)
	}
	return nil
}

// Standard is the Codec of a Handler that has no other. Bytes, strings and types that make bytes of themselves go as they are, and all
// others by gob.
type Standard struct{ coders }

// ofItself is a type that makes bytes of itself.
type ofItself interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// ownBytes reports whether Standard makes the bytes of a value, and nobody else has them.
func ownBytes(v any) bool {
	switch v.(type) {
	case *[]byte, ofItself:
		return false
	}
	return true
}

// Marshal is that of Codec.
func (s *Standard) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case *[]byte:
		return *v, nil
	case *string:
		return []byte(*v), nil
	case ofItself:
		return v.MarshalBinary()
	}
	for p := reflect.ValueOf(v); p.Kind() == reflect.Pointer; p = p.Elem() {
		if p.IsNil() { // gob sends nothing then, or panics
			return nil, errors.New("it is a nil pointer, which gob cannot send: make it a field of a structure")
		}
	}
	return s.marshal(v)
}

// Unmarshal is that of Codec.
func (s *Standard) Unmarshal(data []byte, v any) error {
	switch v := v.(type) {
	case *[]byte:
		*v = data
		return nil
	case *string:
		*v = string(data)
		return nil
	case ofItself:
		return v.UnmarshalBinary(data)
	}
	return s.unmarshal(data, v)
}
